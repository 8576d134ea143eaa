"""The columns of `kubectl get` for each built-in kind, and their cells."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.sandbox import Served

JSON = dict[str, Any]
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
APPS, BATCH, RBAC = "/apis/apps/v1", "/apis/batch/v1", "/apis/rbac.authorization.k8s.io/v1"
HOOKS, DEVICES = "/apis/admissionregistration.k8s.io/v1", "/apis/resource.k8s.io/v1"
WORKLOAD = "Containers* Images* Selector*"
BINDING = "Name Role Age Users* Groups* ServiceAccounts*"
COLUMNS = {
    "/api/v1/pods": "Name Ready Status Restarts Age IP* Node* Nominated_Node* Readiness_Gates*",
    "/api/v1/nodes": "Name Status Roles Age Version Internal-IP* External-IP* OS-Image* Kernel-Version* "
    "Container-Runtime*",
    "/api/v1/namespaces": "Name Status Age",
    "/api/v1/configmaps": "Name Data Age",
    "/api/v1/secrets": "Name Type Data Age",  # pragma: allowlist secret
    "/api/v1/services": "Name Type Cluster-IP External-IP Port(s) Age Selector*",
    "/api/v1/serviceaccounts": "Name Age",
    "/api/v1/events": "Last_Seen Type Reason Object Subobject* Source* Message First_Seen* Count* Name*",
    "/api/v1/endpoints": "Name Endpoints Age",
    "/api/v1/resourcequotas": "Name Request Limit Age",
    "/api/v1/persistentvolumeclaims": "Name Status Volume Capacity Access_Modes StorageClass VolumeAttributesClass Age "
    "VolumeMode*",
    "/apis/coordination.k8s.io/v1/leases": "Name Holder Age",
    f"{APPS}/deployments": f"Name Ready Up-to-date Available Age {WORKLOAD}",
    f"{APPS}/replicasets": f"Name Desired:integer Current:integer Ready:integer Age {WORKLOAD}",
    f"{APPS}/daemonsets": "Name Desired:integer Current:integer Ready:integer Up-to-date:integer Available:integer "
    f"Node_Selector Age {WORKLOAD}",
    f"{APPS}/statefulsets": "Name Ready Age Containers* Images*",
    f"{APPS}/controllerrevisions": "Name Controller Revision Age",
    f"{BATCH}/jobs": f"Name Status Completions Duration Age {WORKLOAD}",
    f"{BATCH}/cronjobs": f"Name Schedule Timezone Suspend:boolean Active:integer Last_Schedule Age {WORKLOAD}",
    f"{RBAC}/roles": "Name Created_At:date",
    f"{RBAC}/clusterroles": "Name Created_At:date",
    f"{RBAC}/rolebindings": BINDING,
    f"{RBAC}/clusterrolebindings": BINDING,
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": "Name Scope Versions Created_At:date Group* Kind* "
    "ShortNames* Established:boolean*",
    f"{HOOKS}/mutatingwebhookconfigurations": "Name Webhooks:integer Age",
    f"{HOOKS}/validatingwebhookconfigurations": "Name Webhooks:integer Age",
    "/apis/policy/v1/poddisruptionbudgets": "Name Min_Available Max_Unavailable Allowed_Disruptions:integer Age",
    "/apis/networking.k8s.io/v1/networkpolicies": "Name Pod-Selector Age",
    "/apis/scheduling.k8s.io/v1/priorityclasses": "Name Value:integer Global-Default:boolean Age PreemptionPolicy",
    f"{DEVICES}/resourceclaims": "Name State Age",
    f"{DEVICES}/resourceclaimtemplates": "Name Age",
    f"{DEVICES}/deviceclasses": "Name Age",
    f"{DEVICES}/resourceslices": "Name Node Driver Pool Age",
    "/apis/discovery.k8s.io/v1/endpointslices": "Name AddressType Ports Endpoints Age",
}
"""Of Kubernetes 1.37. A star is a column of `-o wide`; a type that is not shown is string."""


def shown(column: JSON) -> str:
    kind = "" if column["type"] == "string" else f":{column['type']}"
    return f"{column['name'].replace(' ', '_')}{kind}{'*' * column['priority']}"


@pytest.mark.parametrize("path", COLUMNS)
def test_the_columns_of_each_kind(served: Served, path: str) -> None:
    answer = served.request("GET", f"{path}?limit=1", headers=TABLE)
    assert answer.status == 200, answer.body
    columns = answer.body["columnDefinitions"]
    assert " ".join(map(shown, columns)) == COLUMNS[path]
    assert {one["name"]: one["format"] for one in columns if one["format"]} == {"Name": "name"}


LABELS = {"app": "a"}
POD = {"nodeSelector": {"b": "2", "a": "1"}, "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]}
SELECTOR = {
    "matchLabels": LABELS,
    "matchExpressions": [
        {"key": "z", "operator": "NotIn", "values": ["2", "1"]},
        {"key": "Z", "operator": "DoesNotExist"},
        {"key": "app", "operator": "Exists"},
    ],
}
SHOWN = "!Z,app=a,app,z notin (1,2)"
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": POD}
JOB = {"template": {**TEMPLATE, "spec": {**POD, "restartPolicy": "Never"}}}


def owned(name: str) -> JSON:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x", "uid": "1", "controller": True}
    return {"metadata": {"name": name, "ownerReferences": [owner]}, "revision": 3, "data": {}}


@pytest.mark.parametrize(
    ("group", "plural", "body", "cells"),
    [
        (BATCH, "jobs", {"spec": JOB}, ["Running", "0/1", "", "c,d", "i,j"]),
        (BATCH, "jobs", {"spec": {**JOB, "completions": 4}}, ["Running", "0/4", "", "c,d", "i,j"]),
        (BATCH, "jobs", {"spec": {**JOB, "parallelism": 3}}, ["Running", "0/1 of 3", "", "c,d", "i,j"]),
        (BATCH, "cronjobs", {"spec": {"schedule": "1 * * * *", "timeZone": "Etc/UTC", "jobTemplate": {"spec": JOB}}},
         ["1 * * * *", "Etc/UTC", "False", 0, "<none>", "c,d", "i,j", "<none>"]),
        (BATCH, "cronjobs", {"spec": {"schedule": "@daily", "suspend": True, "jobTemplate": {"spec": JOB}}},
         ["@daily", "<none>", "True", 0, "<none>", "c,d", "i,j", "<none>"]),
        (APPS, "daemonsets", {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
         [0, 0, 0, 0, 0, "a=1,b=2", "c,d", "i,j", SHOWN]),
        (APPS, "controllerrevisions", owned("x"), ["daemonset.apps/x", 3]),
        (APPS, "controllerrevisions", {"revision": 0, "data": {}}, ["<none>", 0]),
        ("/api/v1", "endpoints", {}, ["<none>"]),
        ("/api/v1", "endpoints", {"subsets": [{"addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
         "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}]},
         ["10.0.0.1:80,[fd00::1]:80,10.0.0.1:81 + 1 more..."]),
        ("/api/v1", "endpoints", {"subsets": [{"addresses": [{"ip": "10.0.0.1"}]}]}, ["10.0.0.1"]),
        ("/api/v1", "persistentvolumeclaims",
         {"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
                   "resources": {"requests": {"storage": "1Gi"}}}},
         ["Pending", "", "", "", "fast", "<unset>", "Filesystem"]),
        ("/apis/policy/v1", "poddisruptionbudgets", {"spec": {"minAvailable": "50%"}}, ["50%", "N/A", 0]),
        ("/apis/policy/v1", "poddisruptionbudgets", {"spec": {"maxUnavailable": 1}}, ["N/A", "1", 0]),
        ("/apis/networking.k8s.io/v1", "networkpolicies", {"spec": {"podSelector": SELECTOR}}, [SHOWN]),
        ("/apis/networking.k8s.io/v1", "networkpolicies", {"spec": {"podSelector": {}}}, ["<none>"]),
    ],
)  # fmt: skip
def test_the_cells_of_an_object(
    served: Served, namespace: str, group: str, plural: str, body: JSON, cells: list[Any]
) -> None:
    """The age aside; of a Job its selector too, which has its UID."""
    path = f"{group}/namespaces/{namespace}/{plural}"
    made = served.request("POST", path, {"metadata": {"name": "x"}, **body})
    assert made.status == 201, made.body
    answer = served.request("GET", f"{path}/x", headers=TABLE).body
    unstable = ("Name", "Age") if plural != "jobs" else ("Name", "Age", "Selector")
    columns = [one["name"] for one in answer["columnDefinitions"]]
    row = [cell for name, cell in zip(columns, answer["rows"][0]["cells"], strict=True) if name not in unstable]
    assert row == cells


def test_the_cells_of_a_definition_and_of_a_class_of_priority(served: Served) -> None:
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [{"name": name, "served": name != "v1alpha1", "storage": name == "v1"} for name in ("v1", "v1alpha1")]
    names = {"plural": "columns", "kind": "Column", "shortNames": ["col", "cl"]}
    spec = {"group": "columns.example.com", "scope": "Cluster", "names": names}
    metadata = {"name": "columns.columns.example.com"}
    served.request(
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {"metadata": metadata, "spec": {**spec, "versions": [{**one, "schema": schema} for one in versions]}},
    )
    served.until("/apis/columns.example.com/v1/columns", 200)
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{metadata['name']}"
    scope, shown_versions, *rest = served.request("GET", path, headers=TABLE).body["rows"][0]["cells"][1:]
    assert (scope, shown_versions, *rest[1:]) == (
        "Cluster", "v1(storage)", "columns.example.com", "Column", "col,cl", True,
    )  # fmt: skip
    served.undefine(metadata["name"])
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    made = served.request("POST", path, {"metadata": {"name": "shown"}, "value": 7, "preemptionPolicy": "Never"})
    assert made.status == 201, made.body
    name, value, default, _, policy = served.request("GET", f"{path}/shown", headers=TABLE).body["rows"][0]["cells"]
    assert (name, value, default, policy) == ("shown", 7, False, "Never")
