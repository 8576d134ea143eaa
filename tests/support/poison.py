"""Objects of wrong shapes: of a good object of each kind, each field is replaced by values of other types and sizes.

One field is replaced at a time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from app.appwrappers.kueue import model as kueue
from app.appwrappers.model import APP_WRAPPERS
from app.kube.resources import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    ENDPOINT_SLICES,
    JOBS,
    NAMESPACES,
    NETWORK_ATTACHMENTS,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SERVICES,
    Resource,
)
from app.rmd.model import RMD_CONFIGS, RMD_NODE_STATES, RMD_WORKLOADS
from app.wire import JSON, copied
from app.workloads.model import (
    ADMIN_RULES,
    COMPANION,
    TENANT_RULES,
    TENANTS,
    UVS_RESOURCES,
    WORKLOAD_RULES,
    WORKLOADS,
)
from tests.support.workloads import rule, workload

SYSTEM, TENANT_NAMESPACE, OTHER_NAMESPACE = "universe", "tenant-tenant1", "tenant-other"
LONG = "9" * 4300
SHAPES: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**63, 10**400, 1.5, 1e308),
    *("", "text", LONG, "1e999999999", "\N{SNOWMAN}" * 300),
    *([], [None], [[]], ["a", 1], {}, {"a": None}, {"a": {"b": [{}]}}),
)
TEXTS = ("", "text", LONG, "1e999999999", "{}", "[1]", "-1")
OF_TYPE: dict[type, tuple[Any, ...]] = {
    str: TEXTS,
    int: (0, -1, 2**31 - 1, 2**63 - 1),
    bool: (True, False),
    list: ([],),
    dict: ({},),
}
EACH = 3
"""Shapes that replace a field, of all; drawn by one seed."""
POD_SPEC = {"containers": [{"name": "c", "image": "busybox", "resources": {"limits": {"cpu": "1"}}}]}
CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "A",
    "message": "b",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "observedGeneration": 1,
}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
MARKED = {"labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["a/b"], "ownerReferences": [OWNER]}
NETWORKS = {
    "k8s.v1.cni.cncf.io/networks": '[{"name": "n"}]',
    "k8s.v1.cni.cncf.io/network-status": '[{"name": "default/n", "interface": "net1", "ips": ["10.0.0.1"]}]',
}
DEVICE = {"driver": "d", "pool": "p", "device": "x", "conditions": [CONDITION], "networkData": {"ips": ["10.0.0.1/24"]}}
RESULT = {"request": "r", "driver": "d", "pool": "p", "device": "x"}

SUM = rule("good", match=("sum([to_number(state.extra.annotations.big),`1`])", ["1"]), inject={"x/y": "state.extra"})
STATUS = {"result": "error", "message": "m", "observedGeneration": 1, "matched": 1, "conditions": [CONDITION]}
WRAPPED = {"template": PODS.body({"name": "w"}, spec=POD_SPEC), "podSets": [{"path": "template", "replicas": 1}]}
COMPONENT = {
    "name": "w",
    "kind": "Pod",
    "apiVersion": "v1",
    "podSets": [{"path": "template", "replicas": 1}],
    "conditions": [{**CONDITION, "type": "ResourcesDeployed"}],
}
GOOD: dict[Resource, JSON] = {
    WORKLOADS: workload("x", big=LONG) | {"status": {"rules": {"tenant": [{"id": "a/b", "status": {"result": "x"}}]}}},
    TENANT_RULES: SUM | {"status": STATUS},
    ADMIN_RULES: SUM | {"spec": {**SUM["spec"], "tenantMatch": ["*"]}, "status": STATUS},
    WORKLOAD_RULES: SUM | {"status": STATUS},
    **{
        uvs: {"spec": {"object": {"apiVersion": "v1", "kind": uvs.kind[3:], "data": {"a": "b"}}}, "status": STATUS}
        for uvs in UVS_RESOURCES
    },
    TENANTS: {
        "spec": {"identity": {"names": ["a.example"], "hosts": ["h"]}, "hosts": ["h"]},
        "status": STATUS | {"lastContact": "2026-01-01T00:00:00Z", "lastRefusal": {"time": "x", "reason": "y"}},
    },
    APP_WRAPPERS: {
        "spec": {"suspend": False, "components": [WRAPPED]},
        "status": {
            "phase": "Running",
            "resettingCount": 1,
            "componentStatus": [COMPONENT],
            "conditions": [{**CONDITION, "type": "DeletingResources"}],
        },
    },
    RMD_WORKLOADS: {
        "spec": {"coreIds": ["1-2"], "nodes": ["n1"], "rdt": {"cache": {"max": 2, "min": 2}}},
        "status": {
            "workloadStates": {"n1": {"response": "Success", "id": "1", "coreIds": ["1"], "observedGeneration": 1}},
            "conditions": [CONDITION],
        },
    },
    RMD_CONFIGS: {"spec": {"rmdNodeSelector": {"a": "b"}, "rmdImage": "i"}, "status": {"nodes": ["n1"]}},
    RMD_NODE_STATES: {"spec": {"node": "n1", "nodeUid": "u"}, "status": {"workloads": {"1": {"coreIds": ["1"]}}}},
    RESOURCE_CLAIMS: {
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "count": 1}}]}},
        "status": {
            "allocation": {"devices": {"results": [RESULT]}, "nodeSelector": {}},
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
            "devices": [DEVICE],
        },
    },
    RESOURCE_CLAIM_TEMPLATES: {"spec": {"spec": {"devices": {"requests": [{"name": "r"}]}}}},
    RESOURCE_SLICES: {
        "spec": {
            "driver": "d",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "nodeName": "n1",
            "devices": [{"name": "x", "attributes": {"a": {"string": "b"}}}],
        }
    },
    DEVICE_CLASSES: {"spec": {"selectors": [{"cel": {"expression": "true"}}], "extendedResourceName": "a/b"}},
    NETWORK_ATTACHMENTS: {"spec": {"config": '{"type": "macvlan", "ipam": {"type": "static"}}'}},
    SERVICES: {
        "metadata": {"annotations": {"k8s.v1.cni.cncf.io/service-network": "n"}},
        "spec": {
            "selector": {"a": "b"},
            "ports": [{"name": "p", "port": 80, "targetPort": 80}],
            "ipFamilies": ["IPv4"],
        },
    },
    ENDPOINT_SLICES: {
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}],
        "ports": [{"name": "p", "port": 80, "protocol": "TCP"}],
    },
    PODS: {
        "metadata": {
            "labels": {COMPANION: "tenant", "a": "b", "workload.codeflare.dev/appwrapper": "x"},
            "annotations": NETWORKS,
        },
        "spec": POD_SPEC | {"nodeName": "n1", "resourceClaims": [{"name": "r", "resourceClaimName": "c"}]},
        "status": {
            "phase": "Running",
            "podIPs": [{"ip": "10.1.0.1"}],
            "conditions": [CONDITION],
            "containerStatuses": [{"name": "c", "restartCount": 1, "state": {"terminated": {"exitCode": 1}}}],
            "resourceClaimStatuses": [{"name": "r", "resourceClaimName": "c"}],
        },
    },
    kueue.WORKLOADS: {
        "metadata": {
            "labels": {"kueue.x-k8s.io/job-uid": "u"},
            "annotations": {"kueue.x-k8s.io/admission-gated-by": "g"},
        },
        "spec": {
            "queueName": "q",
            "priority": 1,
            "priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "n"},
            "maximumExecutionTimeSeconds": 1,
            "podSets": [{"name": "main", "count": 1, "template": {"spec": POD_SPEC}}],
        },
        "status": {
            "conditions": [{**CONDITION, "type": "Admitted"}],
            "admission": {
                "clusterQueue": "q",
                "podSetAssignments": [{"name": "main", "flavors": {"cpu": "f"}, "count": 1}],
            },
            "requeueState": {"count": 1},
        },
    },
    kueue.RESOURCE_FLAVORS: {"spec": {"nodeLabels": {"a": "b"}, "tolerations": [{"key": "a", "operator": "Exists"}]}},
    kueue.WORKLOAD_PRIORITY_CLASSES: {"value": 1},
    JOBS: {
        "metadata": {"labels": {"workload.codeflare.dev/appwrapper": "x"}},
        "spec": {"completions": 1, "suspend": False, "template": {"spec": POD_SPEC | {"restartPolicy": "Never"}}},
        "status": {"active": 1, "succeeded": 1, "failed": 1, "conditions": [{**CONDITION, "type": "Complete"}]},
    },
    NODES: {"metadata": {"labels": {"a": "b"}}, "spec": {"taints": []}, "status": {"conditions": [CONDITION]}},
    NAMESPACES: {"metadata": {"labels": {"berth.dev/tenant": "x"}}, "status": {"phase": "Active"}},
    CONFIG_MAPS: {"data": {"config": "namespaces: [a]", "features": "a: true"}},
}
"""Of each kind that a role keeps, an object with the fields that it reads."""
_NAMESPACES = {
    SYSTEM: {ADMIN_RULES, WORKLOAD_RULES, RMD_CONFIGS, RMD_NODE_STATES, *UVS_RESOURCES},
    TENANT_NAMESPACE: {TENANT_RULES, WORKLOADS},
}
OPERATED = ("nri-control-switches", "berth-appwrappers-config", "berth-claim-templates")
"""ConfigMaps that roles read, as an operator may have written them."""


def poison_objects() -> Iterator[tuple[Resource, JSON]]:
    """Of each kind all poisoned objects, with names of their own, in the namespace in which a role looks for them."""
    for resource, good in GOOD.items():
        namespace = next((name for name, kinds in _NAMESPACES.items() if resource in kinds), "default")
        place = {"namespace": namespace} if resource.namespaced else {}
        prefix = "workload-" if resource == WORKLOADS else ""
        with_marks = good | {"metadata": {**copied(MARKED), **copied(good.get("metadata", {}))}}
        for number, obj in enumerate(poisoned(with_marks, typed=_is_built_in(resource))):
            metadata = {**obj["metadata"], "name": f"{prefix}poison-{number}", **place}
            yield resource, {"apiVersion": resource.api_version, "kind": resource.kind} | obj | {"metadata": metadata}
    for name in OPERATED:
        data = {key: text for key in ("config", "features", "x") for text in ("{", LONG)}
        yield CONFIG_MAPS, CONFIG_MAPS.body({"name": name, "namespace": SYSTEM}, data=data)


def digits_objects() -> Iterator[tuple[Resource, JSON]]:
    """A rule that computes a number of 4,301 digits from an annotation of 4,300, each of them right by itself."""
    for resource, obj in ((TENANT_RULES, SUM), (WORKLOADS, workload("digits", big=LONG))):
        yield resource, resource.body({**obj["metadata"], "namespace": OTHER_NAMESPACE}, spec=obj["spec"])


def poisoned(good: JSON, *, typed: bool) -> Iterator[JSON]:
    """The object with one field of another shape, for each field at any depth.

    Where it is `typed` the field keeps its JSON type: an API server stores built-in kinds by types of its own.
    """
    source = random.Random(30)
    for path in list(_paths(good)):
        found = copied(good)
        below: Any = found
        for step in path[:-1]:
            below = below[step]
        shapes: tuple[Any, ...] = SHAPES
        # So it does with the metadata of all kinds.
        if typed or path[0] == "metadata":
            shapes = OF_TYPE[type(below[path[-1]])]
        for shape in source.sample(shapes, min(EACH, len(shapes))):
            below[path[-1]] = shape
            yield copied(found)


def _paths(value: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, below in pairs:
        if (*path, step)[0] != "metadata" or path[1:] in (("labels",), ("annotations",)):
            yield (*path, step)
        yield from _paths(below, *path, step)


def _is_built_in(resource: Resource) -> bool:
    return "." not in resource.group or (resource.group.endswith(".k8s.io") and resource != NETWORK_ATTACHMENTS)
