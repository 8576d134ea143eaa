"""What a Pod template asks of the topology of nodes, by annotations of Kueue. Pure.

Facts: Kueue 0.19.2, `jobframework/tas.go`. Of required, preferred and unconstrained the first one counts. Slices alone
are a request too, and so is the label by which Kueue orders the Pods of a kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.appwrappers.podsets.inference import POD_INDEX_LABEL, SUB_GROUP_COUNT, SUB_GROUP_INDEX_LABEL
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


def topology_request(said: Mapping[str, str], of_kind: Mapping[str, Any]) -> JSON:
    """The `topologyRequest` of a podSet; {} for none. Raises ValueError for a value that Kueue does not take.

    `said` are the annotations of the Pod template, `of_kind` those of the podSet: what follows from its kind.
    """
    found = _place(said)
    indices = _indices(of_kind)
    if not (found or indices or (_SLICE in said and _SLICE_SIZE in said) or _LAYERS in said):
        return {}
    if _LAYERS in said:
        found["podsetSliceRequiredTopologyConstraints"] = _layers(said[_LAYERS])
    elif _SLICE in said and _SLICE_SIZE in said:
        found |= {"podSetSliceRequiredTopology": said[_SLICE], "podSetSliceSize": _size(said[_SLICE_SIZE])}
    if _TOGETHER in said and (_REQUIRED in said or _PREFERRED in said):
        found["podSetGroupName"] = said[_TOGETHER]
    for field, longest in _LONGEST.items():
        if len(found.get(field, "")) > longest:
            raise ValueError(
                f"metadata.annotations: want at most {longest} characters for {field}, got {quoted(found[field])}"
            )
    return found | indices


def _place(said: Mapping[str, str]) -> JSON:
    """Where the Pods want to be together: Kueue reads the first of three."""
    if _REQUIRED in said:
        return {"required": said[_REQUIRED]}
    if _PREFERRED in said:
        return {"preferred": said[_PREFERRED]}
    if _UNCONSTRAINED not in said:
        return {}
    text = said[_UNCONSTRAINED]
    if text not in (*_TRUE, *_FALSE):
        raise ValueError(f"metadata.annotations[{_UNCONSTRAINED}]: want true or false, got {quoted(text)}")
    return {"unconstrained": text in _TRUE}


def _indices(of_kind: Mapping[str, Any]) -> JSON:
    """The labels that order the Pods; a count that is no number is ignored, as Kueue does."""
    labels = (("podIndexLabel", POD_INDEX_LABEL), ("subGroupIndexLabel", SUB_GROUP_INDEX_LABEL))
    found: JSON = {field: of_kind[key] for field, key in labels if key in of_kind}
    count = _count(of_kind.get(SUB_GROUP_COUNT))
    return found | ({} if count is None else {"subGroupCount": count})


def _size(text: str) -> int:
    size = _count(text)
    if size is None or size < 1:
        raise ValueError(f"metadata.annotations[{_SLICE_SIZE}]: want 1 Pod or more, got {quoted(text)}")
    return size


def _count(said: Any) -> int | None:
    """The number of 32 bits that a text says, or a number of JSON; None for anything else."""
    try:
        number = whole(said) if isinstance(said, str) else said
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


def _layer(said: Any) -> JSON:
    # Go's decoder does not mind the case of a field.
    layer = {field.lower(): value for field, value in said.items()} if isinstance(said, dict) else {}
    topology, size = layer.get("topology"), layer.get("size")
    if not (isinstance(topology, str) and topology and isinstance(size, int) and (_count(size) or 0) > 0):
        got = quoted(worded(said))
        raise ValueError(f"metadata.annotations[{_LAYERS}]: want layers such as {_LAYER}, got {got}")
    return {"topology": topology, "size": size}
