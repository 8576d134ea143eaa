"""The wing's part in the chain that mutates: gives Pods the claims of their networks and of what containers ask for.

It comes after the injection of networks, and sees what that adds to the Pod's annotations.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import Any

from app.admission.chain import Plan, audit_text
from app.admission.pods import INJECT, Pod
from app.admission.review import Request
from app.claims.injection.adding import Added, add_claims
from app.claims.injection.networks import NetworkClaim, choose, network_claims
from app.claims.injection.pairs import asked_of, plan_pairs
from app.claims.injection.sources import Reference, Sources, claims_by_reference
from app.claims.requests import Requests
from app.kube.lookup import Lookup, Steps, follow
from app.networks.attachments import looked_up, networks_of
from app.networks.device_requests import target_container
from app.networks.model import DEFAULT_NETWORK, NETWORKS, Attachment, Networks

_Looks = Generator[tuple[Lookup[Any], str, str], Any, Networks]
_ANNOTATIONS = "/metadata/annotations/"


class ClaimsInjector:
    """`home` is the namespace where default networks without one are looked up."""

    name = "claims"

    def __init__(self, attachments: Lookup[Attachment], sources: Sources, *, home: str) -> None:
        self._attachments, self._sources, self._home = attachments, sources, home

    def inject(self, request: Request, plan: Plan) -> Awaitable[None] | None:
        """Neutral to everything but the creation of Pods. Raises Denied where its author must act."""
        if not request.creates_pod:
            return None
        pod = request.pod
        return self.inject_pod(pod, namespace=request.namespace or pod.metadata.namespace, plan=plan)

    def inject_pod(self, pod: Pod, *, namespace: str, plan: Plan) -> Awaitable[None] | None:
        """As `inject`, for a Pod that is to be created in `namespace` ("" where that is not known)."""
        if pod.mirror:
            plan.skip("MirrorPod", "the Pod mirrors a static Pod: it runs already")
        elif where := pod.opted_out:
            plan.skip("OptedOut", f'{where} {INJECT} is "false"')
        else:
            if any(one.resource_claim_name for one in pod.spec.resource_claims):
                plan.keep = False  # claims are volatile; injectors that came before may have read them too
            return follow(self._steps(pod, namespace, plan))
        return None

    def _steps(self, pod: Pod, namespace: str, plan: Plan) -> Steps:
        asked = asked_of(pod)
        pairs: list[Added] = []
        if asked:
            existing = len(pod.spec.resource_claims)
            pairs = plan_pairs(asked, self._sources.definitions.current, plan.patch, existing=existing)
        annotations = annotations_after(pod, plan)
        networks: Networks = ()
        if not pod.spec.host_network and (NETWORKS in annotations or DEFAULT_NETWORK in annotations):
            networks = yield from self._networks(annotations, namespace)
        wanted = network_claims(networks)
        injected = list(pairs)
        if wanted:
            target = target_container(pod, annotations)
            chosen = yield from self._chosen(pod, wanted, pairs, namespace, plan)
            injected += [Added(one.name, one.template, target.kind, target.place, one.reason) for one in chosen]
        if injected or asked:
            _finish(add_claims(pod, injected, plan.patch), plan, changed=bool(asked))

    def _networks(self, annotations: dict[str, str], namespace: str) -> _Looks:
        """The networks; what is to be said of them, the injection of networks has said."""
        search = networks_of(annotations, namespace, home=self._home, plan=Plan())
        return (yield from looked_up(search, self._attachments)) or ()

    def _chosen(
        self, pod: Pod, wanted: list[NetworkClaim], pairs: list[Added], namespace: str, plan: Plan
    ) -> Generator[tuple[Lookup[Any], str, str], Any, list[NetworkClaim]]:
        """What is left to inject, with what there is to say of the rest."""
        ours = {one.name for one in wanted}
        own: dict[str, Requests] = {}
        for reference, claims in claims_by_reference(pod).items():
            requests = (yield from self._sources.requests(namespace, reference)) or {}
            own |= {claim: requests for claim in claims if claim not in ours}
        for pair in pairs:
            own[pair.name] = (yield from self._sources.requests(namespace, Reference(template=pair.template))) or {}
        needs: dict[str, Requests] = {}
        for one in wanted:
            if one.source.device_class:
                needs[one.template] = {one.source.device_class: 1}
            elif one.template not in needs:
                found = yield from self._sources.requests(namespace, Reference(template=one.template))
                needs[one.template] = found or {}
                if found is None:
                    plan.warnings.append(
                        f"ResourceClaimTemplate {namespace}/{one.template} does not exist: the Pod waits until it is "
                        f"created ({one.reason})"
                    )
        chosen = choose(wanted, needs, own)
        plan.warnings += chosen.warnings
        if chosen.own:
            plan.audit["own-claims"] = audit_text(chosen.own.values())
        return chosen.inject


def annotations_after(pod: Pod, plan: Plan) -> dict[str, str]:
    """The annotations of the Pod with what the injectors before have planned."""
    found = dict(pod.metadata.annotations)
    for one in plan.operations:
        if one.op == "add" and one.path.startswith(_ANNOTATIONS) and isinstance(one.value, str):
            key = one.path.removeprefix(_ANNOTATIONS).replace("~1", "/").replace("~0", "~")
            found[key] = one.value
    return found


def _finish(added: list[Added], plan: Plan, *, changed: bool) -> None:
    if not (added or changed):
        return
    if plan.reason != "Injected":
        plan.reason, plan.message = "Injected", ""
    plan.audit["decision"] = plan.reason
    if added:
        plan.count("claim", len(added))
        plan.audit["claims"] = audit_text(f"{one.name} of {one.template} for: {one.reason}" for one in added)
