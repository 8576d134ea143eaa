"""What an admitted AppWrapper's Pods get: its podSetInfos out of the Workload's admission. Pure.

Facts: Kueue takes node labels and tolerations from the flavors, marks Pods with their podSet, queues and Workload,
holds back Pods with a topology by a gate, and adds what admission checks say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.appwrappers.kueue.model import CLUSTER_QUEUE_NAME, LOCAL_QUEUE_NAME, PODSET, WORKLOAD_NAME
from app.appwrappers.kueue.stored import Workload
from app.kube.names import check_dns_label
from app.wire import JSON

TOPOLOGY_GATE = "kueue.x-k8s.io/topology"
UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"


class PermanentError(ValueError):
    """The admission does not fit the AppWrapper, and never will."""


class FlavorMissingError(Exception):
    """A flavor of the admission is not known (yet); the text is its name."""


def pod_set_infos(workload: Workload, flavors: Mapping[str, JSON]) -> list[JSON]:
    """The podSetInfos in the order of the podSets; `flavors` are the specs by name.

    Raises PermanentError and FlavorMissingError.
    """
    admission = workload.status.get("admission") or {}
    assigned = {assignment["name"]: assignment for assignment in admission.get("podSetAssignments") or ()}
    pod_sets = workload.pod_sets
    if len(assigned) != len(pod_sets):
        raise PermanentError(f"invalid podset infos: expecting {len(pod_sets)} podset, got {len(assigned)}")
    return [_info(workload, pod_set, assigned, flavors, admission) for pod_set in pod_sets]


def _info(
    workload: Workload, pod_set: JSON, assigned: Mapping[str, JSON], flavors: Mapping[str, JSON], admission: JSON
) -> JSON:
    name = pod_set.get("name") or "main"
    assignment = assigned.get(name)
    if assignment is None:
        raise PermanentError(f"invalid podset infos: podset {name} has no assignment")
    info: JSON = {
        "annotations": {WORKLOAD_NAME: workload.key[1]},
        "labels": {PODSET: name, LOCAL_QUEUE_NAME: workload.queue} | _cluster_queue(admission),
        "nodeSelector": {},
        "tolerations": [],
    }
    if assignment.get("topologyAssignment"):
        request = pod_set.get("topologyRequest") or {}
        if all(request.get(field) is None for field in ("required", "preferred", "unconstrained")):
            info["annotations"][UNCONSTRAINED] = "true"
        info["schedulingGates"] = [{"name": TOPOLOGY_GATE}]
    for flavor in dict.fromkeys((assignment.get("flavors") or {}).values()):
        if flavor not in flavors:
            raise FlavorMissingError(flavor)
        info["nodeSelector"] |= flavors[flavor].get("nodeLabels") or {}
        info["tolerations"] += flavors[flavor].get("tolerations") or []
    for check in workload.status.get("admissionChecks") or ():
        for update in check.get("podSetUpdates") or ():
            if update.get("name") == name:
                _merge(info, update)
    return {field: value for field, value in info.items() if value}


def _cluster_queue(admission: JSON) -> dict[str, str]:
    """A label, where the name can be the value of one."""
    try:
        check_dns_label(admission["clusterQueue"])
    except (KeyError, ValueError):
        return {}
    return {CLUSTER_QUEUE_NAME: admission["clusterQueue"]}


def _merge(info: JSON, update: JSON) -> None:
    for field in ("annotations", "labels", "nodeSelector"):
        for key, value in (update.get(field) or {}).items():
            before: Any = info[field].get(key, value)
            if before != value:
                raise PermanentError(
                    f"invalid admission check PodSetUpdate: conflict for {field}: {key} is {before!r} and {value!r}"
                )
            info[field][key] = value
    info["tolerations"] += [
        toleration for toleration in update.get("tolerations") or () if toleration not in info["tolerations"]
    ]
