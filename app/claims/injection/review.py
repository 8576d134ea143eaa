"""Reviews Pods with claims and definitions of claims: what is read of the cluster, who reads it, and the checks."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from app.admission.chain import MutationPlan, refuse
from app.admission.parts import EXEMPT, Context, Parts
from app.admission.pods import Pod
from app.admission.review import Request, written_object
from app.claims.definitions import (
    CLASS_DEFINITION,
    DeviceClass,
    check_definition_name,
    claim_requests,
    parse_definitions,
    stored_class,
    template_requests,
)
from app.claims.injection.claims import Asking, doubled, extended_resources
from app.claims.injection.injector import ClaimsInjector, TemplateInjector
from app.claims.settings import AdmissionSettings
from app.claims.sources import KnownDefinitions, Sources, claims_by_reference
from app.errors import Denied
from app.kube.configuration import data_of
from app.kube.lookup import Lookup, Steps, follow
from app.kube.resources import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    IMPLICIT_PREFIX,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
)
from app.networks.device_requests import holders, implicit_in
from app.text import cut
from app.wire import JSON

_CLAIMS = "spec.resourceClaims"

_REASON = "InvalidClaimDefinition"
_SHOWN = 4096


def injection(context: Context, settings: AdmissionSettings) -> Parts:
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
    return Parts((injector, TemplateInjector(context.pod_injectors)), checks, definitions.problems)


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
                _check_config_map(written_object(request, reason=_REASON))
        elif kind == (DEVICE_CLASSES.group, DEVICE_CLASSES.kind):
            name = request.metadata.annotations.get(CLASS_DEFINITION)
            if name is not None and written_object(request, reason=_REASON) is not None:
                _check_class(name)


def _check_config_map(obj: JSON | None) -> None:
    data = obj.get("data") if obj is not None else None
    if data is None:
        return
    if not isinstance(data, dict) or not all(isinstance(text, str) for text in data.values()):
        raise Denied("data: want a mapping of texts", reason=_REASON, code=400)
    try:
        parse_definitions({"data": data})
    except ValueError as error:
        raise Denied(cut(str(error), _SHOWN), reason=_REASON) from error


def _check_class(name: str) -> None:
    try:
        check_definition_name(name)
    except ValueError as error:
        raise Denied(f"metadata.annotations[{CLASS_DEFINITION}]: {error}", reason=_REASON) from error


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
