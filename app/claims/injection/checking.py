"""Checks Pods with claims when they are created, and definitions of claims when they are written."""

from __future__ import annotations

from collections.abc import Awaitable

from app.admission.chain import Plan, refuse
from app.admission.pods import Pod
from app.admission.review import Request, written_object
from app.claims.definitions import CLASS_DEFINITION, DeviceClass, check_definition_name, parse_definitions
from app.claims.injection.doubled import Asking, doubled, extended_resources
from app.claims.injection.sources import Sources, claims_by_reference
from app.errors import Denied
from app.kube.lookup import Lookup, Steps, follow
from app.kube.resources import CONFIG_MAPS, DEVICE_CLASSES
from app.text import cut
from app.wire import JSON


class DoubleAllocationCheck:
    """Neutral to everything but the creation of Pods with claims. The Pod is the one that is stored.

    `exempt` are namespaces whose Pods are not looked at.
    """

    def __init__(self, sources: Sources, classes: Lookup[DeviceClass], *, exempt: frozenset[str]) -> None:
        self._sources, self._classes, self._exempt = sources, classes, exempt

    def check(self, request: Request, plan: Plan) -> Awaitable[None] | None:  # noqa: ARG002  as every check
        """Raises Denied for hardware that a Pod would get twice, Transient where the cluster cannot be read."""
        if not request.creates_pod or request.namespace in self._exempt:
            return None
        pod = request.pod
        if not pod.spec.resource_claims or pod.mirror or pod.opted_out:
            return None
        asking = extended_resources(pod)
        return follow(self._steps(pod, request.namespace, asking)) if asking else None

    def _steps(self, pod: Pod, namespace: str, asking: list[Asking]) -> Steps:
        claims: dict[str, str] = {}
        for reference, (claim, *_) in claims_by_reference(pod).items():
            requests = yield from self._sources.requests(namespace, reference)
            claims |= {name: claim for name in requests or {} if name not in claims}
        classes: dict[str, DeviceClass | None] = {}
        for name in claims:
            classes[name] = yield self._classes, "", name
        refuse(list(doubled(asking, classes, claims)), reason="DoubleAllocation")


class DefinitionCheck:
    """Refuses wrong definitions: the ConfigMap of this name in `namespace`, and annotations of DeviceClasses."""

    def __init__(self, *, namespace: str, name: str) -> None:
        self._namespace, self._name = namespace, name

    def check(self, request: Request, plan: Plan) -> None:  # noqa: ARG002  as every check
        """Raises Denied with every problem."""
        kind = (request.kind.group, request.kind.kind)
        if kind == (CONFIG_MAPS.group, CONFIG_MAPS.kind):
            if (request.namespace, request.name) == (self._namespace, self._name):
                _check_config_map(written_object(request, reason=_REASON))
        elif kind == (DEVICE_CLASSES.group, DEVICE_CLASSES.kind):
            name = request.metadata.annotations.get(CLASS_DEFINITION)
            if name is not None and written_object(request, reason=_REASON) is not None:
                _check_class(name)


_REASON = "InvalidClaimDefinition"
_SHOWN = 4096


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
