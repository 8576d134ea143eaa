"""The Pod templates and podSets of an AppWrapper as its Workload has them, with their topology requests. Pure.

Facts (Kueue 0.19.2): its integrations of jobs take the whole Pod template, as the API server has stored it, and of
two environment variables of one name the last (`jobframework.SanitizePodSets`). Quota, flavors, topology and
provisioning requests read all of it. `util/equality` compares podSets.

A Pod template asks for a topology of nodes by annotations of Kueue (`jobframework/tas.go`). Of required, preferred
and unconstrained the first one counts. Slices alone are a request too, and so is the label by which Kueue orders the
Pods of a kind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from app.appwrappers.model import pod_set_name
from app.appwrappers.podsets.inference import (
    POD_INDEX_LABEL,
    SUB_GROUP_COUNT,
    SUB_GROUP_INDEX_LABEL,
    pod_sets_of,
    read_pod_set,
    template_of,
)
from app.kinds.defaults import apply_builtin_defaults
from app.kinds.requests import Amounts, added, amounts_of, filled_requests, pod_requests
from app.kinds.shapes import decode_fields, tables
from app.kube.quantity import canonical
from app.numbers import NumberError, whole, worded
from app.text import quoted
from app.wire import JSON, decode_json

_GROUP = "kueue.x-k8s.io/"
_REQUIRED, _PREFERRED = f"{_GROUP}podset-required-topology", f"{_GROUP}podset-preferred-topology"
_UNCONSTRAINED, _TOGETHER = f"{_GROUP}podset-unconstrained-topology", f"{_GROUP}podset-group-name"
_SLICE, _SLICE_SIZE = f"{_GROUP}podset-slice-required-topology", f"{_GROUP}podset-slice-size"
_LAYERS = f"{_GROUP}podset-slice-required-topology-constraints"
_MOST_LAYERS = 3
_LONGEST = {"required": 63, "preferred": 63, "podSetSliceRequiredTopology": 63, "podSetGroupName": 256}
"""Characters of these fields, by the definition of Workloads."""
_LAYER = '{"topology": "example.com/rack", "size": 4}'
_TRUE, _FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")
_MILLI = 3
_OF_POD = ("initContainers", "containers")
_OF_CONTAINER = ("name", "image", "command", "args", "resources")
_COUNTED = ("resources", "overhead", "runtimeClassName", "resourceClaims")


def pod_sets(name: str, components: Sequence[JSON], statuses: Sequence[JSON]) -> Iterator[JSON]:
    """The podSets of a Workload, in the order of the components. `statuses` are the AppWrapper's componentStatus.

    Raises ValueError where a template has a value of a wrong type, or one that Kueue cannot read.
    """
    for number, (count, pod_template, of_kind) in enumerate(_found(components, statuses)):
        template = workload_template(pod_template)
        pod_set = {"name": pod_set_name(name, number), "count": count, "template": template}
        request = topology_request(template["metadata"].get("annotations") or {}, of_kind)
        yield pod_set | ({"topologyRequest": request} if request else {})


def _found(components: Sequence[JSON], statuses: Sequence[JSON]) -> Iterator[tuple[int, JSON, JSON]]:
    """Of each podSet its count, its Pod template and its annotations."""
    for component, status in zip(components, statuses, strict=True):
        for pod_set in map(read_pod_set, status["podSets"]):
            yield pod_set.replicas, counted_template(component["template"], pod_set.path), dict(pod_set.annotations)


def counted_template(template: JSON, path: str) -> JSON:
    """The Pod template of a podSet. That of a Pod has the requests that an API server fills in: templates get none.

    Raises ValueError.
    """
    counted = template_of(template, path)
    if (template.get("apiVersion"), template.get("kind"), path) != ("v1", "Pod", "template"):
        return counted
    spec = _with_containers(counted["spec"])
    resources = spec.get("resources") or {}
    if resources.get("limits"):
        requests = pod_requests({"spec": {**spec, "overhead": None}})
        filled = {name: canonical(f"{requests[name]:f}") for name in resources["limits"] if name in requests}
        spec["resources"] = {**resources, "requests": {**filled, **(resources.get("requests") or {})}}
    return {**counted, "spec": spec}


def workload_template(template: JSON) -> JSON:
    """A Pod template as a Workload has it: of its metadata, what the definition of Workloads has. Raises ValueError."""
    metadata = template.get("metadata") or {}
    texts: JSON = {field: _texts(metadata.get(field)) for field in ("labels", "annotations")}
    texts |= {field: text for field in ("name", "namespace") if isinstance(text := metadata.get(field), str)}
    kept = {field: value for field, value in texts.items() if value}
    decoded = decode_fields("PodTemplateSpec", {"metadata": kept, "spec": template["spec"]})
    apply_builtin_defaults("PodTemplateSpec", decoded)
    spec = decoded["spec"]
    _each_once("PodSpec", spec)
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        _each_once("Container", container)
    return decoded


def _texts(value: Any) -> dict[str, str]:
    pairs = value.items() if isinstance(value, dict) else ()
    return {key: item for key, item in pairs if isinstance(item, str)}


def _each_once(kind: str, holder: JSON) -> None:
    """Lists that are maps by some fields, as environment variables by their names: the last of two that are alike."""
    for field, (keys, _, _) in tables().merge[kind].items():
        if keys and holder.get(field):
            holder[field] = list({tuple(map(item.get, keys)): item for item in holder[field]}.values())


def asked_of(components: Sequence[JSON]) -> Amounts:
    """What Kueue would count for all Pods together, without the overhead of RuntimeClasses. Raises ValueError."""
    amounts: Amounts = {}
    for component in components:
        for pod_set in pod_sets_of(component):
            counted = counted_spec(counted_template(component["template"], pod_set.path)["spec"], {})
            requests = pod_requests({"spec": counted})
            amounts = added(amounts, {name: amount * pod_set.replicas for name, amount in requests.items()})
    return amounts


def counted_spec(spec: JSON, overheads: Mapping[str, JSON]) -> JSON:
    """The spec of a Pod as Kueue counts it (`workload.AdjustResources`), but for LimitRanges.

    It has the overhead of its RuntimeClass, as `overheads` have it by name, and limits for requests that are missing.
    """
    counted = _with_containers(_with_requests(spec))
    if not counted.get("overhead") and counted.get("runtimeClassName") in overheads:
        counted["overhead"] = overheads[counted["runtimeClassName"]]
    return counted


def _with_containers(spec: JSON) -> JSON:
    fields = [field for field in ("initContainers", "containers") if spec.get(field)]
    return {**spec, **{field: [_with_requests(container) for container in spec[field]] for field in fields}}


def _with_requests(holder: JSON) -> JSON:
    resources = holder.get("resources") or {}
    if not resources.get("limits"):
        return dict(holder)
    return {**holder, "resources": {**resources, "requests": filled_requests(resources)}}


def same_pod_sets(
    components: Sequence[JSON], statuses: Sequence[JSON], stored: Sequence[JSON], *, admitted: bool, waiting: bool
) -> bool:
    """Whether the podSets of a Workload are equivalent to those that it would get: Kueue leaves a job alone then.

    Kueue compares all fields of containers. Here templates never change, and a Workload that Kueue's own integration of
    AppWrappers has made, with less in it, must not stop what runs. One that is `waiting` is compared by all that quota
    counts. Flavors may have added tolerations to one that is `admitted`.
    """
    of_pod = (*_OF_POD, *(_COUNTED if waiting else ()), *(() if admitted else ("tolerations",)))
    of_container = (*_OF_CONTAINER, "restartPolicy") if waiting else _OF_CONTAINER
    now = [(count, None, template["spec"]) for count, template, _ in _found(components, statuses)]
    before = [(pod_set.get("count", 1), pod_set.get("minCount"), _spec_of(pod_set)) for pod_set in stored]
    planned, held = (
        [(*counts, _shape(spec, of_pod, of_container)) for *counts, spec in sets] for sets in (now, before)
    )
    return planned == held


def _spec_of(pod_set: JSON) -> JSON:
    spec: JSON = (pod_set.get("template") or {}).get("spec") or {}
    return spec


def _shape(spec: JSON, of_pod: Collection[str], of_container: Collection[str]) -> JSON:
    """These fields of the spec of a Pod, and these of its containers; quantities by their values."""
    shape = {field: spec[field] for field in of_pod if spec.get(field)}
    for field in ("initContainers", "containers"):
        if containers := shape.get(field):
            shape[field] = [
                {name: container[name] for name in of_container if container.get(name)} for container in containers
            ]
    shape = decode_fields("PodSpec", shape)
    for holder in (shape, *shape.get("initContainers", ()), *shape.get("containers", ())):
        # A request that is missing is the limit: an API server fills it in, or Kueue does.
        resources = _with_requests(holder).get("resources") or {}
        holder.pop("resources", None)
        holder["amounts"] = [_rounded(resources.get(part)) for part in ("requests", "limits")]
    return shape | {"overhead": _rounded(shape.get("overhead"))}


def _rounded(quantities: JSON | None) -> Amounts:
    """In thousandths, as the API server stores them in a Pod template."""
    return amounts_of({name: canonical(text, _MILLI) for name, text in (quantities or {}).items()})


def topology_request(annotations: Mapping[str, str], of_kind: Mapping[str, Any]) -> JSON:
    """The `topologyRequest` of a podSet; {} for none. Raises ValueError for a value that Kueue does not take.

    `annotations` are the annotations of the Pod template, `of_kind` those of the podSet: what follows from its kind.
    """
    place = _place(annotations)
    indices = _indices(of_kind)
    if not (place or indices or (_SLICE in annotations and _SLICE_SIZE in annotations) or _LAYERS in annotations):
        return {}
    if _LAYERS in annotations:
        place["podsetSliceRequiredTopologyConstraints"] = _layers(annotations[_LAYERS])
    elif _SLICE in annotations and _SLICE_SIZE in annotations:
        place |= {
            "podSetSliceRequiredTopology": annotations[_SLICE],
            "podSetSliceSize": _size(annotations[_SLICE_SIZE]),
        }
    if _TOGETHER in annotations and (_REQUIRED in annotations or _PREFERRED in annotations):
        place["podSetGroupName"] = annotations[_TOGETHER]
    for field, longest in _LONGEST.items():
        if len(place.get(field, "")) > longest:
            raise ValueError(
                f"metadata.annotations: want at most {longest} characters for {field}, got {quoted(place[field])}"
            )
    return place | indices


def _place(annotations: Mapping[str, str]) -> JSON:
    """Where the Pods want to be together: Kueue reads the first of three."""
    if _REQUIRED in annotations:
        return {"required": annotations[_REQUIRED]}
    if _PREFERRED in annotations:
        return {"preferred": annotations[_PREFERRED]}
    if _UNCONSTRAINED not in annotations:
        return {}
    text = annotations[_UNCONSTRAINED]
    if text not in (*_TRUE, *_FALSE):
        raise ValueError(f"metadata.annotations[{_UNCONSTRAINED}]: want true or false, got {quoted(text)}")
    return {"unconstrained": text in _TRUE}


def _indices(of_kind: Mapping[str, Any]) -> JSON:
    """The labels that order the Pods; a count that is no number is ignored, as Kueue does."""
    labels = (("podIndexLabel", POD_INDEX_LABEL), ("subGroupIndexLabel", SUB_GROUP_INDEX_LABEL))
    indices: JSON = {field: of_kind[key] for field, key in labels if key in of_kind}
    count = _count(of_kind.get(SUB_GROUP_COUNT))
    return indices | ({} if count is None else {"subGroupCount": count})


def _size(text: str) -> int:
    size = _count(text)
    if size is None or size < 1:
        raise ValueError(f"metadata.annotations[{_SLICE_SIZE}]: want 1 Pod or more, got {quoted(text)}")
    return size


def _count(text: Any) -> int | None:
    """The number of 32 bits that a text says, or a number of JSON; None for anything else."""
    try:
        number = whole(text) if isinstance(text, str) else text
    except NumberError:
        return None
    is_number = isinstance(number, int) and not isinstance(number, bool)
    return number if is_number and -(2**31) <= number < 2**31 else None


def _layers(text: str) -> list[JSON]:
    try:
        layers: Any = decode_json(text.encode())
    except ValueError as error:
        raise ValueError(f"metadata.annotations[{_LAYERS}]: want JSON: {error}") from error
    if not isinstance(layers, list) or not 1 <= len(layers) <= _MOST_LAYERS:
        raise ValueError(f"metadata.annotations[{_LAYERS}]: want a list of 1 to {_MOST_LAYERS} layers, as {_LAYER}")
    return [_layer(layer) for layer in layers]


def _layer(text: Any) -> JSON:
    # Go's decoder does not mind the case of a field.
    layer = {field.lower(): value for field, value in text.items()} if isinstance(text, dict) else {}
    topology, size = layer.get("topology"), layer.get("size")
    if not (isinstance(topology, str) and topology and isinstance(size, int) and (_count(size) or 0) > 0):
        got = quoted(worded(text))
        raise ValueError(f"metadata.annotations[{_LAYERS}]: want layers such as {_LAYER}, got {got}")
    return {"topology": topology, "size": size}
