"""Defects that an operator has met are found by looking, each within three clicks.

Overview is the first page, and its links lead to the view of the cause: one click. What is no matter of Berth is in the
list of its kind: Objects, the kind, the object.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from app.appwrappers.kueue.model import CLUSTER_QUEUES, LOCAL_QUEUES
from app.appwrappers.model import APP_WRAPPERS, QUEUE_NAME
from app.claims.model import NETWORK_STATUS
from app.definitions import read_definitions
from app.devtools.kueue.definitions import kueue_definitions
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NETWORK_ATTACHMENTS, NODES, PODS, SERVICES
from app.rmd.model import RMD_NODE_STATES, RMD_WORKLOADS
from app.services.model import NETWORK, SELECTOR
from app.wire import JSON
from app.workloads.model import TENANTS, WORKLOAD_RULES
from tests.integration.doctor.conftest import patient, untouched, ward
from tests.integration.doctor.patient import NETWORKS, Patient
from tests.integration.why.test_rules import NO_MATCH, spec, status, term
from tests.support.page import Page, page_of
from tests.support.waiting import eventually

__all__ = ["patient", "untouched", "ward"]
pytestmark = pytest.mark.asyncio(loop_scope="module")
AT = "2026-01-01T00:00:00Z"
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}
FOUND = {
    ("NetworkAttachmentDefinition", "default", "broken-net"): "not valid JSON",
    ("Pod", "default", "bf-demo"): "nothing offers nvidia.com/bf3_vf",
    ("Pod", "default", "bf-typo"): "there is default/bluefield-net",
    ("WorkloadRule", "universe", "rule-nothing"): "there is 'default'",
    ("WorkloadRule", "universe", "rule-key"): "metadata.namespace",
    ("WorkloadRule", "universe", "rule-error"): "hostNetwork",
    ("Tenant", "", "idle"): "spec.suspended is true",
    ("AppWrapper", "default", "wrongqueue"): "there is no LocalQueue usr-queue in default; there is user-queue",
    ("AppWrapper", "default", "nonode"): "node selector",
    ("RmdWorkload", "default", "ghost"): "there is no Node host-z",
}
"""Objects with a defect, and what names its cause."""
LISTED = {
    ("Service", "default", "nobody"): "no Pod in default has app=nobody",
    ("Service", "default", "netwrk"): "there is storage-network",
    ("Pod", "default", "crasher"): "back-off",
}
"""The same of those that a list of their kind names."""


def condition(kind: str, truth: str, reason: str, message: str) -> JSON:
    return {"type": kind, "status": truth, "reason": reason, "message": message, "lastTransitionTime": AT}


async def networks(patient: Patient) -> None:
    """An attachment that is no JSON, a resource that nothing offers, and a name with a typo."""
    await patient.create(NODES, "host-a", status={"allocatable": {"example.com/nic": "8"}})
    await patient.create(NETWORK_ATTACHMENTS, "broken-net", namespace="default", spec={"config": '{"type": "x",}'})
    await patient.attachment("bluefield-net", resource="nvidia.com/bf3_vf")
    unschedulable = condition("PodScheduled", "False", "Unschedulable", "0/1 nodes: Insufficient nvidia.com/bf3_vf.")
    for name, wanted in (("bf-demo", "bluefield-net"), ("bf-typo", "bluefeld-net")):
        amounts = {side: {"nvidia.com/bf3_vf": "1"} for side in ("requests", "limits")}
        container = {"name": "app", "image": "app", "resources": amounts if name == "bf-demo" else {}}
        await patient.pod(name, annotations={NETWORKS: wanted}, spec={"containers": [container]})
        await patient.report(PODS, name, {"phase": "Pending", "conditions": [unschedulable]}, namespace="default")


async def rules(patient: Patient) -> None:
    """Rules that match nothing: a value with a typo, and a key that no workload has."""
    await patient.pod("tenant1-pod1", labels={"app": "web"})
    keys = ("metadata.resourceNamespace", "In", "defualt"), ("state.extra.labels.app", "In", "web")
    impossible = status(Matched=("False", "NoWorkloadCanMatch", "no workload has metadata.namespace"))
    for name, wanted, shown in (
        ("rule-nothing", spec(term(*keys)), NO_MATCH),
        (
            "rule-error",
            spec(),
            status("error", Ready=("False", "Invalid", "spec.template.spec.hostNetwork: want false")),
        ),
        ("rule-key", spec(term(("metadata.namespace", "In", "default"))), impossible),
    ):
        await patient.create(WORKLOAD_RULES, name, namespace="universe", spec=wanted)
        await patient.report(WORKLOAD_RULES, name, shown, namespace="universe")
    await patient.create(TENANTS, "idle", spec={"identity": {"names": ["idle.tenant.local"]}, "suspended": True})
    refuses = "the tenant is suspended: the gateway refuses its agent"
    said = [condition("Ready", "False", "Suspended", "x"), condition("Connected", "False", "Suspended", refuses)]
    await patient.report(TENANTS, "idle", {"result": "", "observedGeneration": 1, "conditions": said})


async def wrappers(patient: Patient) -> None:
    """One with a queue that is not there, and one whose Pod no node took."""
    for body in (*read_definitions((APP_WRAPPERS, RMD_WORKLOADS, RMD_NODE_STATES)), *kueue_definitions()):
        await patient.client.create(CUSTOM_RESOURCE_DEFINITIONS, body)
    flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    await patient.create(CLUSTER_QUEUES, "all", spec={"resourceGroups": groups, "namespaceSelector": {}})
    await patient.create(LOCAL_QUEUES, "user-queue", namespace="default", spec={"clusterQueue": "all"})
    components = [{"template": POD}]
    labels = {QUEUE_NAME: "usr-queue"}
    await patient.create(
        APP_WRAPPERS,
        "wrongqueue",
        namespace="default",
        spec={"suspend": True, "components": components},
        metadata={"labels": labels},
    )
    await patient.create(APP_WRAPPERS, "nonode", namespace="default", spec={"components": components})
    why = "Pod nonode was Pending: 0/3 nodes: node selector kubernetes.io/hostname=host-x matches none"
    unhealthy = condition("Unhealthy", "True", "InsufficientPodsReady", why)
    await patient.report(APP_WRAPPERS, "nonode", {"phase": "Failed", "conditions": [unhealthy]}, namespace="default")


async def services(patient: Patient) -> None:
    """One that selects no Pod, and one on a network that is not there."""
    config = {"type": "macvlan", "ipam": {"type": "host-local", "subnet": "10.20.0.0/24"}}
    await patient.create(
        NETWORK_ATTACHMENTS, "storage-network", namespace="default", spec={"config": json.dumps(config)}
    )
    await patient.pod(
        "database",
        spec={"nodeName": "host-a"},
        labels={"app": "database"},
        annotations={
            NETWORKS: "storage-network",
            NETWORK_STATUS: json.dumps(
                [{"name": "default/storage-network", "interface": "net1", "ips": ["10.20.0.3"]}]
            ),
        },
    )
    ready = [{"type": "Ready", "status": "True"}]
    await patient.report(PODS, "database", {"phase": "Running", "conditions": ready}, namespace="default")
    for name, network, selector in (
        ("nobody", "storage-network", "app=nobody"),
        ("netwrk", "storage-netwrk", "app=database"),
    ):
        metadata = {"annotations": {NETWORK: network, SELECTOR: selector}}
        ports = {"ports": [{"port": 80}], "clusterIP": "None"}
        await patient.create(SERVICES, name, namespace="default", metadata=metadata, spec=ports)


async def others(patient: Patient) -> None:
    """Cache ways on a node that is not there, and a container that ends with an error."""
    rdt = {"cache": {"max": 1, "min": 1}}
    await patient.create(
        RMD_WORKLOADS, "ghost", namespace="default", spec={"nodes": ["host-z"], "coreIds": ["1"], "rdt": rdt}
    )
    state = {"host-z": {"state": "NotReserved", "message": "there is no node host-z"}}
    await patient.report(RMD_WORKLOADS, "ghost", {"workloadStates": state}, namespace="default")
    await patient.pod("crasher", annotations={NETWORKS: "storage-network"}, spec={"nodeName": "host-a"})
    ended = {"terminated": {"exitCode": 3, "reason": "Error", "finishedAt": AT}}
    waits = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    container = {"name": "app", "ready": False, "restartCount": 9, "state": waits, "lastState": ended}
    said = [condition("Ready", "False", "ContainersNotReady", "app")]
    shown = {"phase": "Running", "conditions": said, "containerStatuses": [container]}
    await patient.report(PODS, "crasher", shown, namespace="default")


def targets(model: object) -> Iterator[tuple[str, str, str]]:
    """The objects to which a model has links."""
    if isinstance(model, dict):
        if model.keys() == {"kind", "namespace", "name"}:
            yield model["kind"], model["namespace"], model["name"]
        for value in model.values():
            yield from targets(value)
    elif isinstance(model, list):
        for value in model:
            yield from targets(value)


async def examined(page: Page) -> JSON:
    """What Overview shows once the doctor has been there."""

    async def known() -> JSON | None:
        model = (await page.get("/api/overview")).json
        return model if model["doctor"] is not None else None

    return dict(await eventually(known))


async def cause(page: Page, kind: str, namespace: str, name: str) -> str:
    """What the view of the cause says of the object."""
    said = (await page.get(f"/api/why?q={kind.lower()}/{name}&namespace={namespace}")).json["said"]
    return " | ".join((said["text"], said["asks"], *said["because"]))


async def test_each_defect_is_three_clicks_from_the_first_page(patient: Patient) -> None:
    for make in (networks, rules, wrappers, services, others):
        await make(patient)
    async with page_of(patient.kubeconfig) as page:
        overview = await examined(page)
        assert [target for target in FOUND if target not in set(targets(overview))] == []
        html = (await page.get("/overview")).text
        for (kind, namespace, name), words in FOUND.items():
            assert f'href="/why?{urlencode({"q": f"{kind.lower()}/{name}"})}' in html, name
            assert words in await cause(page, kind, namespace, name), name
        assert 'href="/objects"' in html
        for (kind, namespace, name), words in LISTED.items():
            listed = await page.get(f"/api/objects?kind={kind.lower()}s&namespace={namespace}")
            row = next(row for row in listed.json["page"]["rows"] if row["target"]["name"] == name)
            assert row["state"] in ("waits", "stuck", "broken"), name
            assert words in f"{row['text']} {row['because']}", name
            assert words in await cause(page, kind, namespace, name), name
