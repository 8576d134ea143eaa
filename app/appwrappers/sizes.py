"""How large an AppWrapper, its status and its Workload may become. Pure.

An API server stores an object with its status, and takes 1.5 MiB of it (etcd's `--max-request-bytes`). A status follows
from the spec: one that could not be written later is found before anything is created.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from app.appwrappers.kueue.templates import workload_template
from app.appwrappers.model import ENDED, RESOURCES_DEPLOYED
from app.appwrappers.podsets.inference import pod_sets_of, template_of
from app.kube.names import DNS_LABEL_LIMIT
from app.wire import JSON, encode_json, size_as_go

MOST_COMPONENTS = 256
"""Of them 18 may have Pods, one podSet each, as a Workload of Kueue has no more; the others stand beside these."""
MOST_BYTES = 1024 * 1024
"""Of the spec and of the statuses of its components. Annotations (256 KiB), conditions, podSetInfos need the rest."""
MOST_PODS = 2**31 - 1
"""Of all podSets: what the field `count` of a podSet of Kueue can say."""
REMARK = 256
"""Bytes of a message in the status of a component, which has two."""


def _condition(kind: str, reason: str) -> JSON:
    """At its largest, but for the message."""
    longest: JSON = {
        "type": kind,
        "status": "Unknown",
        "reason": reason,
        "message": "",
        "observedGeneration": 2**63 - 1,
    }
    return longest | {"lastTransitionTime": "2026-01-01T00:00:00Z"}


_DEPLOYED, _ENDED = (
    _condition(RESOURCES_DEPLOYED, "ComponentCreatedSuccessfully"),
    _condition(ENDED, "TerminalExitCode"),
)


def count_problems(components: Sequence[object]) -> Iterator[str]:
    """To be looked at before any component is."""
    if len(components) > MOST_COMPONENTS:
        yield (
            f"spec.components: got {len(components)} components, want at most {MOST_COMPONENTS}: put objects that "
            "need not be admitted together into AppWrappers of their own"
        )


class Sizes(NamedTuple):
    """Bytes as an API server stores them. `status` is the most that the statuses of all components can have.

    `workload` are the Pod templates of all podSets as a Workload of Kueue has each: one may be part of another.
    """

    spec: int
    status: int
    workload: int


def sizes_of(components: Sequence[JSON]) -> Sizes:
    """Raises ValueError for components whose podSets cannot be found."""
    status, workload = 0, 0
    for component in components:
        name = str((component["template"].get("metadata") or {}).get("name") or "")
        status += _size(component_status(component)) + max(DNS_LABEL_LIMIT, len(name))
        status += _size({"conditions": [_DEPLOYED]}) + REMARK
        if pod_sets := pod_sets_of(component):  # most objects without Pods do not end
            status += _size(_ENDED) + 1 + REMARK
        templates = (template_of(component["template"], pod_set.path) for pod_set in pod_sets)
        workload += sum(_size(workload_template(template)) for template in templates)
    return Sizes(_size(components), status, workload)


def size_problems(components: Sequence[JSON]) -> Iterator[str]:
    """What could not be stored. Raises ValueError as `sizes_of`."""
    spec, status, workload = sizes_of(components)
    if spec + status > MOST_BYTES:
        yield (
            f"spec.components: {spec} bytes, and a status of up to {status}: want at most {MOST_BYTES} together, as an "
            "API server stores no more: take fewer components, or keep large values in ConfigMaps that exist already"
        )
    if workload > MOST_BYTES:
        yield (
            f"spec.components: Pod templates of {workload} bytes in all podSets: want at most {MOST_BYTES}, as they "
            "are in one Workload: let no podSet be part of another"
        )


def _size(value: object) -> int:
    return size_as_go(encode_json(value))


def component_status(component: JSON) -> JSON:
    """The status of a component that is not created yet. Raises ValueError where its podSets cannot be found."""
    template = component["template"]
    return {
        "name": "",
        "kind": template["kind"],
        "apiVersion": template["apiVersion"],
        "podSets": [pod_set.status for pod_set in pod_sets_of(component)],
    }
