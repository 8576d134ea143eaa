"""What one object counts for in ResourceQuotas, by the names that these have for it. Pure.

Source: kubernetes.io/docs/concepts/policy/resource-quotas; the forms of quantities are those of kube-apiserver 1.36.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from app.devtools.sandbox.kinds.claims import is_extended
from app.kinds.requests import forms_of, pod_limits, pod_requests
from app.kube.quantity import canonical, written

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from app.wire import JSON

Usage = dict[str, str]
"""Quantities by the names of what a quota bounds."""
Key = tuple[str, str]
"""Group and plural."""

PODS: Key = ("", "pods")
SERVICES: Key = ("", "services")
VOLUME_CLAIMS: Key = ("", "persistentvolumeclaims")
MEASURED = frozenset({PODS, SERVICES, VOLUME_CLAIMS})
"""Kinds of which more than the number of objects counts. An update can change what one counts for."""
_ALIASES = frozenset(
    {
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
    }
)
"""Resources of the core group that a quota may also name without `count/`."""
_COUNT = re.compile(r"count/([a-z0-9-]+)(?:\.(.+))?", re.ASCII)
_COMPUTE = frozenset({"cpu", "memory", "ephemeral-storage"})
_EXPLICIT = frozenset({"cpu", "memory"})
"""What each container has to name where a quota bounds it."""
_REQUESTS, _LIMITS = "requests.", "limits."
_HUGE = "hugepages-"
_STORAGE = "requests.storage"
_NODE_PORTS, _BALANCERS = "services.nodeports", "services.loadbalancers"
_CLASS = ".storageclass.storage.k8s.io/"


def counted_names(group: str, plural: str) -> tuple[str, ...]:
    """The names under which a quota may count objects of this resource."""
    name = f"count/{plural}.{group}" if group else f"count/{plural}"
    return (name, plural) if not group and plural in _ALIASES else (name,)


def is_count(name: str) -> bool:
    """Whether a name in a quota counts objects: then its bound is a whole number."""
    return name in _ALIASES or _COUNT.fullmatch(name) is not None


@lru_cache(maxsize=1024)
def bounded_resource(name: str) -> Key | None:
    """Group and plural of the objects that a name in a quota bounds; None for one that bounds nothing."""
    if found := _COUNT.fullmatch(name):
        return found[2] or "", found[1]
    if name in (_NODE_PORTS, _BALANCERS):
        return SERVICES
    if name == _STORAGE or _CLASS in name:
        return VOLUME_CLAIMS
    asked = name.removeprefix(_REQUESTS)
    if asked in _COMPUTE or asked.startswith(_HUGE) or (asked != name and is_extended(asked)):
        return PODS
    if name.startswith(_LIMITS) and name.removeprefix(_LIMITS) in _COMPUTE:
        return PODS
    return ("", name) if name in _ALIASES else None


def usage(key: Key, obj: JSON | None, names: Collection[str]) -> Usage:
    """What one object counts for, at least of what has these names. None is no object.

    A Pod that has ended is one of `count/pods` alone.
    """
    if obj is None:
        return {}
    counted = dict.fromkeys(counted_names(*key), "1")
    if key == PODS:
        ended = (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if ended:
            return {"count/pods": "1"}
        # Sums take time, and most quotas only count.
        return counted if counted.keys() >= set(names) else counted | _compute(obj.get("spec") or {})
    if key == SERVICES:
        return counted | _of_service(obj.get("spec") or {})
    return counted | _of_volume_claim(obj.get("spec") or {}) if key == VOLUME_CLAIMS else counted


def missing(pod: JSON, names: Iterable[str]) -> dict[str, list[str]]:
    """The containers of a new Pod that say nothing of what a quota bounds, where each has to, by names of the quota."""
    needed = [name for name in sorted(names) if name.removeprefix(_REQUESTS).removeprefix(_LIMITS) in _EXPLICIT]
    spec = pod["spec"]
    found: dict[str, list[str]] = {}
    for container in [*spec["containers"], *(spec.get("initContainers") or [])] if needed else []:
        said = _compute({"containers": [container]})
        for name in needed:
            if name not in said:
                found.setdefault(name, []).append(container["name"])
    return {name: sorted(containers) for name, containers in found.items()}


def _compute(spec: JSON) -> Usage:
    """Of requests and limits together, of a Pod or one container."""
    pod = {"spec": spec}
    forms = forms_of(spec)
    found: Usage = {}
    for name, amount in pod_requests(pod).items():
        text = written(amount, like=forms.get(name, "0"))
        native = name in _COMPUTE or name.startswith(_HUGE)
        if native:
            found[name] = text
        if native or is_extended(name):
            found[_REQUESTS + name] = text
    for name, amount in pod_limits(pod).items():
        if name in _COMPUTE:
            found[_LIMITS + name] = written(amount, like=forms.get(name, "0"))
    return found


def _of_service(spec: JSON) -> Usage:
    """Node ports and balancers; one without `allocateLoadBalancerNodePorts` has the node ports that it names."""
    kind, ports = spec.get("type"), spec.get("ports") or []
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        ports = [port for port in ports if port.get("nodePort")]
    count = len(ports) if kind in ("NodePort", "LoadBalancer") else 0
    return {_NODE_PORTS: str(count), _BALANCERS: str(int(kind == "LoadBalancer"))}


def _of_volume_claim(spec: JSON) -> Usage:
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    found = {_STORAGE: canonical(storage)} if storage else {}
    if name := spec.get("storageClassName"):
        found |= {f"{name}{_CLASS}{entry}": value for entry, value in {**found, "persistentvolumeclaims": "1"}.items()}
    return found
