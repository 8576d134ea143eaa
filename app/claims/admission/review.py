"""The reviews of the wing: Pods with claims, definitions of claims, and the network data in the status of a claim.

Here is what is read of the cluster, who reads it, and the checks. Network data is judged by what the caches know of
networks. Two writers that race for one address both get it: neither write is in the caches when the other is reviewed.
Networks that are local to a node, such as bridges with addresses by host-local, repeat their addresses. No check can
distinguish them from others, so drivers that serve them should not be among those that are denied.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import replace

from app.admission.chain import MutationPlan, refuse
from app.admission.decision import home_of, read_or_deny
from app.admission.parts import EXEMPT, Context, Parts
from app.admission.pods import Pod
from app.admission.review import Request, decode_object, written_object
from app.claims.admission.views import (
    BY_ADDRESS,
    BY_POD,
    HeldEntry,
    Scene,
    Surroundings,
    Views,
    held_claim,
    stored_claim,
    stored_network_pod,
)
from app.claims.definitions import (
    CLASS_DEFINITION,
    DeviceClass,
    check_definition_name,
    claim_requests,
    parse_definitions,
    stored_class,
    template_requests,
)
from app.claims.format import INTERFACE_NAME, IPS
from app.claims.injection.claims import Asking, doubled, extended_resources
from app.claims.injection.injector import ClaimsInjector, TemplateInjector
from app.claims.model import changed_entries, device_key, entries_of
from app.claims.publishing.model import Attachment, stored_attachment
from app.claims.settings import AdmissionSettings
from app.claims.sources import KnownDefinitions, Sources, claims_by_reference
from app.errors import Denied
from app.kube.configuration import data_of
from app.kube.lookup import Lookup, Steps, follow
from app.kube.names import is_marked
from app.kube.resources import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    IMPLICIT_PREFIX,
    NETWORK_ATTACHMENTS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
)
from app.networks.device_requests import holders, implicit_in
from app.pace import step
from app.settings.source import settings_as
from app.text import cut, quoted
from app.wire import JSON

REASON = "InvalidNetworkData"
_KIND = ("resource.k8s.io", "ResourceClaim", "status", "UPDATE")
MOST_DEVICES = 128
"""In the status of one claim: an API server lets it have those of its allocation alone, which are 32."""
_SUBNETS = 4
"""Subnets that a message names."""
_CLAIMS = "spec.resourceClaims"
_WRONG_DEFINITION = "InvalidClaimDefinition"
_LONGEST = 4096


def review(context: Context) -> Parts:
    """The injection of claims and the checks of what it rests on, and the check of statuses."""
    settings = settings_as(context.settings, AdmissionSettings)
    injected = _injection(context, settings)
    return replace(injected, checks=(*injected.checks, _statuses(context, settings)))


def _injection(context: Context, settings: AdmissionSettings) -> Parts:
    caches, name = context.caches, settings.claim_templates
    classes = caches.cache(DEVICE_CLASSES, stored_class)
    class_lookup: Lookup[DeviceClass] = Lookup(
        DEVICE_CLASSES, classes, stored_class, client=lambda: caches.client, called="device class", field=_CLAIMS
    )
    config_maps = caches.cache(CONFIG_MAPS, data_of, only=(context.namespace, name))
    definitions = KnownDefinitions(config_maps, classes, name=name, logs=context.logs)
    sources = Sources(
        definitions,
        caches.lookup(RESOURCE_CLAIM_TEMPLATES, template_requests, called="resource claim template", field=_CLAIMS),
        caches.lookup(RESOURCE_CLAIMS, claim_requests, called="resource claim", field=_CLAIMS, volatile=True),
    )
    injector = ClaimsInjector(sources)
    context.pod_injectors.append(injector)
    context.claimed.append(_ClaimedResources(sources, class_lookup).of)
    context.named.append(_OtherNames(class_lookup).of)
    checks = (
        _DoubleAllocationCheck(sources, class_lookup, exempt=frozenset({EXEMPT, context.namespace})),
        _DefinitionCheck(namespace=context.namespace, name=name),
    )
    return Parts((injector, TemplateInjector(context.pod_injectors)), checks, definitions.problems, _injects)


class _DoubleAllocationCheck:
    """Neutral to everything but the creation of Pods with claims. The Pod is the one that is stored.

    `exempt` are namespaces whose Pods are not looked at.
    """

    def __init__(self, sources: Sources, classes: Lookup[DeviceClass], *, exempt: frozenset[str]) -> None:
        self._sources, self._classes, self._exempt = sources, classes, exempt

    def check(self, request: Request, plan: MutationPlan) -> Awaitable[None] | None:  # noqa: ARG002  as every check
        """Raises Denied for hardware that a Pod would get twice, Transient where the cluster cannot be read."""
        if not request.creates_pod or request.namespace in self._exempt:
            return None
        pod = request.pod
        if not pod.spec.resource_claims or pod.mirror or pod.opted_out:
            return None
        asking = extended_resources(pod)
        return follow(self._steps(pod, request.namespace, asking)) if asking else None

    def _steps(self, pod: Pod, namespace: str, asking: list[Asking]) -> Steps[None]:
        claims: dict[str, str] = {}
        for reference, (claim, *_) in claims_by_reference(pod).items():
            requests = yield from self._sources.requests(namespace, reference)
            claims |= {name: claim for name in requests or {} if name not in claims}
        classes: dict[str, DeviceClass | None] = {}
        for name in claims:
            classes[name] = yield self._classes, "", name
        refuse(list(doubled(asking, classes, claims)), reason="DoubleAllocation")


class _DefinitionCheck:
    """Refuses wrong definitions: the ConfigMap of this name in `namespace`, and annotations of DeviceClasses."""

    def __init__(self, *, namespace: str, name: str) -> None:
        self._namespace, self._name = namespace, name

    def check(self, request: Request, plan: MutationPlan) -> None:  # noqa: ARG002  as every check
        """Raises Denied with every problem."""
        kind = (request.kind.group, request.kind.kind)
        if kind == (CONFIG_MAPS.group, CONFIG_MAPS.kind):
            if (request.namespace, request.name) == (self._namespace, self._name):
                _check_config_map(written_object(request, reason=_WRONG_DEFINITION))
        elif kind == (DEVICE_CLASSES.group, DEVICE_CLASSES.kind):
            name = request.metadata.annotations.get(CLASS_DEFINITION)
            if name is not None and written_object(request, reason=_WRONG_DEFINITION) is not None:
                _check_class(name)


def _check_config_map(obj: JSON | None) -> None:
    data = obj.get("data") if obj is not None else None
    if data is None:
        return
    if not isinstance(data, dict) or not all(isinstance(text, str) for text in data.values()):
        raise Denied("data: want a mapping of texts", reason=_WRONG_DEFINITION, code=400)
    try:
        parse_definitions({"data": data})
    except ValueError as error:
        raise Denied(cut(str(error), _LONGEST), reason=_WRONG_DEFINITION) from error


def _check_class(name: str) -> None:
    try:
        check_definition_name(name)
    except ValueError as error:
        raise Denied(f"metadata.annotations[{CLASS_DEFINITION}]: {error}", reason=_WRONG_DEFINITION) from error


class _ClaimedResources:
    """The extended resources that a Pod need not ask for, since its claims ask for the same devices.

    By the DeviceClasses that claims ask for: `spec.extendedResourceName`, and the implicit resource of each.
    """

    def __init__(self, sources: Sources, classes: Lookup[DeviceClass]) -> None:
        self._sources, self._classes = sources, classes

    def of(self, pod: Pod, namespace: str) -> Steps[Mapping[str, int]]:
        """How many devices the claims of a Pod ask for, by resource."""
        counts: dict[str, int] = {}
        for reference, claims in claims_by_reference(pod).items():
            requests = yield from self._sources.requests(namespace, reference)
            for name, count in (requests or {}).items():
                counts[name] = counts.get(name, 0) + count * len(claims)
        resources: dict[str, int] = {}
        for name, count in counts.items():
            resources[IMPLICIT_PREFIX + name] = count
            device_class: DeviceClass | None = yield self._classes, "", name
            if device_class is not None and device_class.resource:
                resources[device_class.resource] = resources.get(device_class.resource, 0) + count
        return resources


class _OtherNames:
    """A DeviceClass has two extended resources: `spec.extendedResourceName` and the implicit one (KEP-5004)."""

    def __init__(self, classes: Lookup[DeviceClass]) -> None:
        self._classes = classes

    def of(self, pod: Pod, needs: Mapping[str, int]) -> Steps[Mapping[str, int]]:
        """How many of the devices that networks need a Pod asks for by the other name of their class, by resource.

        What the Pod asks for by a name is for the networks that need that name first.
        """
        resources: dict[str, int] = {}
        for name in sorted({*implicit_in(pod), *(need for need in needs if need.startswith(IMPLICIT_PREFIX))}):
            device_class: DeviceClass | None = yield self._classes, "", name.removeprefix(IMPLICIT_PREFIX)
            if device_class is None or not device_class.resource:
                continue
            for need, other in ((device_class.resource, name), (name, device_class.resource)):
                spare = sum(holders(pod, other).values()) - needs.get(other, 0)
                if need in needs and spare > 0:
                    resources[need] = resources.get(need, 0) + spare
        return resources


def _statuses(context: Context, settings: AdmissionSettings) -> ClaimStatusCheck:
    """The check, with a cache of claims, of Pods and of attachments, each with what it needs of them alone."""
    caches = context.caches
    views = Views(
        claims=caches.cache(
            RESOURCE_CLAIMS,
            stored_claim,
            indices={BY_POD: lambda claim: [claim.pod.uid] if claim.pod is not None else []},
            volatile=True,
        ),
        pods=caches.cache(PODS, stored_network_pod, indices={BY_ADDRESS: lambda pod: pod.addresses()}, volatile=True),
        attachments=caches.cache(NETWORK_ATTACHMENTS, stored_attachment),
    )
    return ClaimStatusCheck(
        views,
        denied=frozenset(settings.claims_deny_drivers),
        exempt=frozenset({EXEMPT, context.namespace}),
    )


class ClaimStatusCheck:
    """Neutral to everything but updates of `resourceclaims/status`, and there to all but changed network data.

    A finding is a warning; one about a device of the drivers `denied` (in lower case) is a denial. `exempt` are
    namespaces whose claims are not looked at.
    """

    def __init__(self, views: Views, *, denied: frozenset[str], exempt: frozenset[str]) -> None:
        self._views, self._denied, self._exempt = views, denied, exempt

    def check(self, request: Request, plan: MutationPlan) -> None:
        """Raises Denied with every problem of devices of the denied drivers, and for more than `MOST_DEVICES`."""
        kind = (request.kind.group, request.kind.kind, request.sub_resource, request.operation)
        if kind != _KIND or request.namespace in self._exempt:
            return
        obj = decode_object(request.object, reason=REASON)
        old = decode_object(request.old_object, reason=REASON)
        refuse(read_or_deny(lambda: _too_many(obj), reason=REASON), reason=REASON)
        findings = read_or_deny(lambda: list(self._findings(request, obj, old)), reason=REASON)
        refuse([line for denied, line in findings if denied], reason=REASON)
        plan.warnings += [line for denied, line in findings if not denied]

    def _findings(self, request: Request, obj: JSON, old: JSON) -> Iterator[tuple[bool, str]]:
        """Whether it denies, and what is wrong with the entries that the update changes."""
        changed = changed_entries(obj, old)
        if not changed:
            return
        claim = held_claim((request.namespace, request.name), obj)
        scene = Scene(self._views, claim, home=home_of(request))
        entries = {entry.device: entry for entry in claim.entries}
        for index, entry in changed:
            step(32)
            key = device_key(entry)
            path = f"status.devices[{index}].networkData"
            for line in _entry_problems(entries[key], scene.around(entries[key]), path):
                yield key.driver.lower() in self._denied, line


def _too_many(obj: JSON) -> list[str]:
    count = len(entries_of(obj))
    return [f"status.devices: want at most {MOST_DEVICES}, got {count}"] if count > MOST_DEVICES else []


def _entry_problems(entry: HeldEntry, around: Surroundings, path: str) -> Iterator[str]:
    """What contradicts the surroundings, one line each, beginning with the field below `path`.

    Link-local addresses are passed over: each link has them, and no subnet names them.
    """
    if around.namesake:
        yield (
            f"{path}.{INTERFACE_NAME}: want a name that no other device of Pod {around.pod} has, got "
            f"{quoted(entry.interface)}, which {around.namesake} has"
        )
    for index, address in enumerate(entry.addresses if around.network else ()):
        if address is None or address.is_link_local:
            continue
        where = f"{path}.{IPS}[{index}]"
        if around.attachment is not None and around.attachment.excludes(address):
            yield (
                f"{where}: want an address in a subnet of network {around.network}"
                f"{_subnets(around.attachment) if around.shows_subnets else ''}, got {address}"
            )
        if address in around.holders:
            yield (
                f"{where}: want an address that nothing else on network {around.network} has, got {address}, which "
                f"{around.holders[address]} has"
            )


def _subnets(attachment: Attachment) -> str:
    shown = ", ".join(map(str, attachment.subnets[:_SUBNETS]))
    return f" ({shown}, …)" if len(attachment.subnets) > _SUBNETS else f" ({shown})"


def _injects(kind: str, name: str) -> bool:
    """Claims of ours have names that `shorten` has marked."""
    return kind == "claims" and is_marked(name)
