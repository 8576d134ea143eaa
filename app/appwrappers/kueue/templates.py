"""The Pod templates and podSets of an AppWrapper as its Workload has them. Pure.

Facts: of a template, Kueue's integration of AppWrapper v1.2 takes what counts for quota and placement, with the
defaults of the API server, for it compares what it stored with what it would store now. Berth adds what was lost there:
claims of devices, and that an init container is a sidecar.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from app.appwrappers.model import ANNOTATIONS, pod_set_name
from app.appwrappers.podsets.paths import pod_template_at
from app.kube.quantity import parse
from app.numbers import whole_or
from app.wire import JSON

_CONTAINER = ("name", "image", "command", "args", "resources", "securityContext", "restartPolicy")
_POD = (
    *("nodeSelector", "nodeName", "affinity", "schedulerName", "tolerations", "priorityClassName", "preemptionPolicy"),
    *("overhead", "topologySpreadConstraints", "resourceClaims"),
)
_COMPARED = ("name", "image", "command", "args")
_PLACES = {"required": "podset-required-topology", "preferred": "podset-preferred-topology"}
_GROUP = "kueue.x-k8s.io/"
_INDICES = {"podIndexLabel": "tas-pod-index-label", "subGroupIndexLabel": "tas-sub-group-index-label"}


def pod_sets(name: str, components: Sequence[JSON], statuses: Sequence[JSON]) -> Iterator[JSON]:
    """The podSets of a Workload, in the order of the components. `statuses` are the AppWrapper's componentStatus."""
    number = 0
    for component, status in zip(components, statuses, strict=True):
        for pod_set in status["podSets"]:
            template = pod_template_at(component["template"], pod_set["path"])
            found = {
                "name": pod_set_name(name, number),
                "count": 1 if pod_set.get("replicas") is None else pod_set["replicas"],
                "template": _template(template),
            }
            request = _topology(template, pod_set.get("annotations") or {})
            yield found | ({"topologyRequest": request} if request else {})
            number += 1


def shape_of(pod_set: JSON, *, tolerations: bool) -> JSON:
    """What two podSets have in common that are equivalent: Kueue leaves a job alone whose podSets keep this."""
    spec = (pod_set.get("template") or {}).get("spec") or {}
    shape: JSON = {"count": pod_set.get("count", 1), "minCount": pod_set.get("minCount")}
    for field in ("initContainers", "containers"):
        shape[field] = [_compared(one) for one in spec.get(field) or ()]
    return shape | ({"tolerations": spec.get("tolerations") or []} if tolerations else {})


def _compared(container: JSON) -> JSON:
    resources = container.get("resources") or {}
    amounts = {part: _amounts(resources.get(part)) for part in ("requests", "limits")}
    return {key: container.get(key) or None for key in _COMPARED} | amounts


def _amounts(said: Any) -> dict[str, Any]:
    """Quantities by their values: 1 and 1000m are the same."""
    found: dict[str, Any] = {}
    for name, amount in (said or {}).items():
        try:
            found[name] = parse(amount)
        except ValueError:
            found[name] = amount
    return found


def _template(template: JSON) -> JSON:
    metadata, spec = template.get("metadata") or {}, template["spec"]
    texts = {field: _texts(metadata.get(field)) for field in ("labels", "annotations")}
    found: JSON = {
        "restartPolicy": spec.get("restartPolicy") or "Always",
        "terminationGracePeriodSeconds": spec.get("terminationGracePeriodSeconds", 30),
        "dnsPolicy": spec.get("dnsPolicy") or "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": spec.get("securityContext") or {},
        "containers": [_container(one) for one in spec.get("containers") or ()],
    }
    if spec.get("initContainers"):
        found["initContainers"] = [_container(one) for one in spec["initContainers"]]
    found |= {field: spec[field] for field in _POD if spec.get(field)}
    return {"metadata": {field: value for field, value in texts.items() if value}, "spec": found}


def _container(container: JSON) -> JSON:
    found = {field: container[field] for field in _CONTAINER if container.get(field)}
    image = str(container.get("image") or "")
    latest = "@" not in image and image.rpartition("/")[2].partition(":")[2] in ("", "latest")
    return found | {
        "terminationMessagePath": container.get("terminationMessagePath") or "/dev/termination-log",
        "terminationMessagePolicy": container.get("terminationMessagePolicy") or "File",
        "imagePullPolicy": container.get("imagePullPolicy") or ("Always" if latest else "IfNotPresent"),
    }


def _topology(template: JSON, annotations: JSON) -> JSON:
    """Where the Pods of the podSet want to be together; nothing where they say nothing of it."""
    said = _texts((template.get("metadata") or {}).get("annotations"))
    found: JSON = {field: said[_GROUP + key] for field, key in _PLACES.items() if said.get(_GROUP + key)}
    if said.get(f"{_GROUP}podset-unconstrained-topology") == "true":
        found["unconstrained"] = True
    if not found:
        return {}
    if said.get(f"{_GROUP}podset-group-name"):
        found["podSetGroupName"] = said[f"{_GROUP}podset-group-name"]
    indices = {field: annotations.get(ANNOTATIONS + key) for field, key in _INDICES.items()}
    found |= {field: value for field, value in indices.items() if value}
    count = annotations.get(f"{ANNOTATIONS}tas-sub-group-count")
    known = whole_or(count, -1)
    return found | ({"subGroupCount": known} if known >= 0 else {})


def _texts(value: Any) -> dict[str, str]:
    pairs = value.items() if isinstance(value, dict) else ()
    return {key: item for key, item in pairs if isinstance(item, str)}
