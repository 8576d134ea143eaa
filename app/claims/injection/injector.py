"""The wing's part in the chain that mutates: gives Pods the claims of their networks and of what containers ask for.

It comes after the injection of networks, and takes from the plan which ones that has found.

Pod templates of Jobs and AppWrappers get them where they ask for it, so that what counts them sees the claims. Kueue
makes a Workload of the templates of a job, and not of its Pods. A Pod that is made from such a template lacks nothing
more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from app.admission.chain import MutationPlan, PodInjector, audit_text
from app.admission.pods import INJECT, Pod, pod_from
from app.admission.review import Request, written_object
from app.appwrappers.model import APP_WRAPPERS
from app.appwrappers.podsets.inference import counted, written_templates
from app.appwrappers.podsets.paths import steps
from app.claims.definitions import Requests, added, class_template
from app.claims.injection.claims import Added, add_claims, asked_of, plan_pairs
from app.claims.sources import Reference, Sources, claims_by_reference
from app.errors import Denied
from app.kube.lookup import Steps, follow
from app.kube.names import shorten
from app.kube.resources import JOBS
from app.networks.device_requests import target_container
from app.networks.model import (
    CLAIM_TEMPLATE,
    DEVICE_CLASS,
    Attachment,
    ClaimSource,
    Networks,
    PodNetworks,
    source_problems,
)
from app.networks.places import INJECT_TEMPLATE, misplaced
from app.pace import at_pace
from app.wire import JSON, pointer

_Place = tuple[str | int, ...]
"""The fields and indices that lead to a Pod template of an object."""
MOST_TEMPLATES = 64
"""Of one AppWrapper; a Workload of Kueue has fewer podSets."""
_READ = ("metadata", "spec")
_REASON = "UnreadablePodTemplate"
_KINDS = {(resource.group, resource.kind): resource for resource in (JOBS, APP_WRAPPERS)}


class _NetworkClaim(NamedTuple):
    """The claim for one selection. `annotation` is that of the Pod.

    `name` follows from the attachment and how often it was selected before.
    """

    attachment: Attachment
    source: ClaimSource
    annotation: str
    name: str

    @property
    def template(self) -> str:
        return self.source.template or class_template(self.source.device_class)

    @property
    def reason(self) -> str:
        annotation = f"{CLAIM_TEMPLATE}: {self.source.template}"
        if self.source.device_class:
            annotation = f"{DEVICE_CLASS}: {self.source.device_class}"
        return f"annotation {self.annotation} selects {self.attachment.key}, which has annotation {annotation}"


@dataclass(slots=True)
class _Chosen:
    """`inject` are the claims that the Pod gets. `own` says of the others which claim of the Pod serves them."""

    inject: list[_NetworkClaim] = field(default_factory=list)
    own: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


class ClaimsInjector:
    name = "claims"

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def inject(self, request: Request, plan: MutationPlan) -> Awaitable[None] | None:
        """Neutral to everything but the creation of Pods. Raises Denied where its author must act."""
        if not request.creates_pod:
            return None
        pod = request.pod
        return self.inject_pod(pod, namespace=request.namespace or pod.metadata.namespace, plan=plan)

    def inject_pod(self, pod: Pod, *, namespace: str, plan: MutationPlan) -> Awaitable[None] | None:
        """As `inject`, for a Pod that is to be created in `namespace` ("" where that is not known)."""
        if pod.mirror:
            plan.skip("MirrorPod", "the Pod mirrors a static Pod: it runs already")
        elif where := pod.opted_out:
            plan.skip("OptedOut", f'{where} {INJECT} is "false"')
        else:
            if any(claim.resource_claim_name for claim in pod.spec.resource_claims):
                plan.keep = False  # claims are volatile; injectors that came before may have read them too
            return follow(self._steps(pod, namespace, plan))
        return None

    def _steps(self, pod: Pod, namespace: str, plan: MutationPlan) -> Steps[None]:
        requests = asked_of(pod)
        pairs: list[Added] = []
        if requests:
            existing = len(pod.spec.resource_claims)
            pairs = plan_pairs(requests, self._sources.definitions.current, plan.patch, existing=existing)
        selected: PodNetworks | None = plan.networks
        claims = _network_claims(selected.networks) if selected else []
        injected = list(pairs)
        if selected and claims:
            target = target_container(pod, selected.annotations or pod.metadata.annotations)
            chosen = yield from self._chosen(pod, claims, pairs, namespace, plan)
            injected += [Added(claim.name, claim.template, target.kind, target.place, claim.reason) for claim in chosen]
        if injected or requests:
            _finish(add_claims(pod, injected, plan.patch), plan, changed=bool(requests))

    def _chosen(
        self, pod: Pod, network_claims: list[_NetworkClaim], pairs: list[Added], namespace: str, plan: MutationPlan
    ) -> Steps[list[_NetworkClaim]]:
        """What is left to inject, with what there is to say of the rest."""
        ours = {claim.name for claim in network_claims}
        own: dict[str, Requests] = {}
        for reference, claims in claims_by_reference(pod).items():
            requests = (yield from self._sources.requests(namespace, reference)) or {}
            own |= {claim: requests for claim in claims if claim not in ours}
        for pair in pairs:
            own[pair.name] = (yield from self._sources.requests(namespace, Reference(template=pair.template))) or {}
        needs: dict[str, Requests] = {}
        for claim in network_claims:
            if claim.source.device_class:
                needs[claim.template] = {claim.source.device_class: 1}
            elif claim.template not in needs:
                counts = yield from self._sources.requests(namespace, Reference(template=claim.template))
                needs[claim.template] = counts or {}
                if counts is None:
                    plan.warnings.append(
                        f"ResourceClaimTemplate {namespace}/{claim.template} does not exist: the Pod waits until it is "
                        f"created ({claim.reason})"
                    )
        chosen = _choose(network_claims, needs, own)
        plan.warnings += chosen.warnings
        if chosen.own:
            plan.audit["own-claims"] = audit_text(chosen.own.values())
        return chosen.inject


def _finish(claims: list[Added], plan: MutationPlan, *, changed: bool) -> None:
    if not (claims or changed):
        return
    if plan.reason != "Injected":
        plan.reason, plan.message = "Injected", ""
    plan.audit["decision"] = plan.reason
    if claims:
        plan.count("claim", len(claims))
        plan.audit["claims"] = audit_text(f"{claim.name} of {claim.template} for: {claim.reason}" for claim in claims)


def _network_claims(networks: Networks) -> list[_NetworkClaim]:
    """The claims of the networks that have a source. Raises Denied for a broken one."""
    network_claims, times = [], dict[str, int]()
    for annotation, attachment in networks:
        if attachment.claim is None:
            continue
        for key, fault in source_problems(attachment.claim):
            raise Denied(
                f"network attachment definition '{attachment.key}' has a broken annotation {key}: {fault}",
                reason="BadClaimSource",
            )
        index = times[attachment.key] = times.get(attachment.key, -1) + 1
        # With the slash no two texts are the same; it makes `shorten` add a hash.
        name = shorten(f"net-{attachment.namespace}/{attachment.name}/{index}")
        network_claims.append(_NetworkClaim(attachment, attachment.claim, annotation, name))
    return network_claims


def _choose(
    network_claims: Iterable[_NetworkClaim], needs: Mapping[str, Requests], own: dict[str, Requests]
) -> _Chosen:
    """What of `network_claims` is left to inject. `needs` is what the claims of a template ask for, by its name.

    `own` are the Pod's other claims. Where one of them asks for a device of a class that a network needs, its author
    has seen to these networks: nothing is injected for them, however many devices it asks for.
    """
    chosen, left = _Chosen(), dict(added(own.values()))
    claims = {name: claim for claim, requests in reversed(own.items()) for name in requests}  # the first that asks
    for claim in network_claims:
        classes = needs.get(claim.template) or {}
        shared = next((name for name in classes if name in left), None)
        if shared is None:
            chosen.inject.append(claim)
            continue
        chosen.own[claim.name] = (
            f"{claim.attachment.key}: claim {claims[shared]} of the Pod asks for a device of {shared}"
        )
        left[shared] -= 1
        if left[shared] < 0:
            chosen.warnings.append(
                f"{claim.attachment.key} needs a device of DeviceClass {shared}, and the Pod's own claims ask for "
                "fewer devices of it than its networks need: nothing is injected; ask for as many"
            )
    return chosen


class TemplateInjector:
    """`injectors` are those that inject into Pods, in their order. Neutral to objects that do not ask for it."""

    name = "pod-templates"

    def __init__(self, injectors: Sequence[PodInjector]) -> None:
        self._injectors = injectors

    def inject(self, request: Request, plan: MutationPlan) -> Awaitable[None] | None:
        """Raises Denied where the author of a template must act; the message names the template."""
        if request.operation != "CREATE" or (request.kind.group, request.kind.kind) not in _KINDS:
            return None
        metadata = request.metadata
        if "true" not in (metadata.labels.get(INJECT_TEMPLATE), metadata.annotations.get(INJECT_TEMPLATE)):
            return None
        obj = written_object(request, reason=_REASON)
        if obj is None:
            return None
        pods: dict[_Place, Pod] = {}
        templates = templates_of(obj)
        homes = tuple(map(_field, templates))
        plan.warnings += (
            finding.text for finding in misplaced(obj.get("metadata"), "metadata", obj["kind"], templates=homes)
        )
        for place, template in templates.items():
            with _named(place):
                pods[place] = pod_from({key: template[key] for key in _READ if template.get(key) is not None})
        return self._inject(pods, request.namespace, plan)

    async def _inject(self, pods: Mapping[_Place, Pod], namespace: str, plan: MutationPlan) -> None:
        for place, pod in pods.items():
            planned = MutationPlan()
            with _named(place):
                await self._plan(pod, namespace, planned)
            _take_over(planned, place, plan)
            await asyncio.sleep(0)  # each may be as large as a whole review

    async def _plan(self, pod: Pod, namespace: str, plan: MutationPlan) -> None:
        for injector in self._injectors:
            waiting = await at_pace(partial(injector.inject_pod, pod, namespace=namespace, plan=plan))
            if waiting is not None:
                await waiting


def _field(place: _Place) -> str:
    return ".".join(map(str, place))


@contextmanager
def _named(place: _Place) -> Iterator[None]:
    """Has a denial name the template."""
    try:
        yield
    except Denied as denial:
        raise Denied(f"{_field(place)}: {denial}", reason=denial.reason, code=denial.code) from denial


def templates_of(obj: JSON) -> dict[_Place, JSON]:
    """The Pod templates by their places. Where there is none, other checks refuse the object.

    Raises Denied for more than `MOST_TEMPLATES`.
    """
    spec = obj.get("spec")
    components = spec.get("components") if isinstance(spec, dict) else None
    if isinstance(components, list):
        several = sum(counted(component) for component in components if isinstance(component, dict))
        if several > MOST_TEMPLATES:
            bound = f"want at most {MOST_TEMPLATES} Pod templates to inject into, got {several}"
            raise Denied(f"spec.components: {bound}", reason="TooManyTemplates")
    return dict(_templates_of(obj))


def _templates_of(obj: JSON) -> Iterator[tuple[_Place, JSON]]:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    if (obj.get("apiVersion"), obj.get("kind")) != (APP_WRAPPERS.api_version, APP_WRAPPERS.kind):
        if isinstance(spec.get("template"), dict):
            yield ("spec", "template"), spec["template"]
        return
    components = spec.get("components")
    for index, component in enumerate(components if isinstance(components, list) else ()):
        try:
            templates = written_templates(component)
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
        for path, template in templates:
            yield ("spec", "components", index, "template", *steps(path)), template


def _take_over(planned: MutationPlan, place: _Place, plan: MutationPlan) -> None:
    """What was planned for the template at `place`, as a plan for the whole object.

    Of metadata, annotations are planned, and only for a template that has labels or annotations.
    """
    plan.patch.nest(planned.patch, pointer(*place))
    plan.warnings += [f"{_field(place)}: {warning}" for warning in planned.warnings]
    for kind, amount in planned.injected.items():
        plan.count(kind, amount)
    if not planned.patch.operations:
        plan.skip(planned.reason, planned.message)
        return
    for key, text in planned.audit.items():
        plan.audit[key] = text if key == "decision" else audit_text([*filter(None, [plan.audit.get(key)]), text])
    plan.reason, plan.message = planned.reason, ""
