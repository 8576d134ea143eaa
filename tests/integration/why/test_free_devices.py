"""Devices that are there and taken: by host how many there are, how many are free, and who has the others."""

from __future__ import annotations

from app.kube.resources import DEVICE_CLASSES, NODES, PODS
from app.why.model import State, Verdict
from tests.integration.doctor.patient import JSON, Patient
from tests.support.chart import Server
from tests.support.claims import VF, ClaimsCluster

NIC = "example.com/nic"


async def node(patient: Patient, name: str, amount: int) -> None:
    await patient.create(NODES, name)
    status = {"allocatable": {NIC: str(amount), "cpu": "8"}, "capacity": {NIC: str(amount), "cpu": "8"}}
    await patient.report(NODES, name, status)


def asking(amount: int) -> JSON:
    amounts = {NIC: str(amount)}
    return {"name": "c", "image": "i", "resources": {"limits": amounts, "requests": amounts}}


async def on(patient: Patient, name: str, host: str, amount: int = 1, **spec: object) -> None:
    await patient.pod(name, spec={"nodeName": host, "containers": [asking(amount)], **spec})
    await patient.report(PODS, name, {"phase": "Running"}, namespace="default")


async def pending(patient: Patient, amount: int) -> Verdict:
    await patient.pod("p", spec={"containers": [asking(amount)]})
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    condition["message"] = f"0/2 nodes are available: 2 Insufficient {NIC}"
    await patient.report(PODS, "p", {"phase": "Pending", "conditions": [condition]}, namespace="default")
    return (await patient.why("pod/p")).verdict


async def test_devices_of_a_device_plugin_as_the_scheduler_counts_them(patient: Patient) -> None:
    """Pods that have ended have none, and an init container has the device that a container has after it."""
    await node(patient, "host-a", 4)
    await node(patient, "host-b", 2)
    await on(patient, "a", "host-a", 3)
    await on(patient, "b", "host-a", initContainers=[asking(1) | {"name": "init"}])
    await on(patient, "over", "host-b")
    await patient.report(PODS, "over", {"phase": "Succeeded"}, namespace="default")
    await on(patient, "c", "host-b")
    verdict = await pending(patient, 2)
    assert verdict.because == (
        f"0/2 nodes are available: 2 Insufficient {NIC}",
        f"{NIC}: host-b: 1 of 2 free, held by default/c; host-a: 0 of 4 free, held by default/a, default/b",
    )
    assert (verdict.asks, verdict.next) == (f"{NIC}: 2", "starts when one of these Pods or claims ends")


async def test_where_a_host_has_enough_something_else_holds_the_pod(patient: Patient) -> None:
    await node(patient, "host-a", 4)
    await on(patient, "a", "host-a", 3)
    assert (await pending(patient, 1)).because == (f"0/2 nodes are available: 2 Insufficient {NIC}",)


async def test_devices_of_a_class_that_an_extended_resource_maps(patient: Patient) -> None:
    cluster = ClaimsCluster(Server(patient.kubeconfig, patient.client, patient.cluster))
    selector = {"cel": {"expression": f'device.driver == "{VF}"'}}
    await patient.create(DEVICE_CLASSES, "nic", spec={"selectors": [selector], "extendedResourceName": NIC})
    await cluster.slice("vf0", "vf1", node="host-c")
    await cluster.claim("held", await cluster.pod("holder", "held"), "vf0", node="host-c")
    await node(patient, "host-a", 1)
    await on(patient, "a", "host-a")
    verdict = await pending(patient, 2)
    shown = "host-c: 1 of 2 free, held by ResourceClaim default/held; host-a: 0 of 1 free, held by default/a"
    assert f"{NIC}: {shown}" in verdict.because


async def test_of_many_hosts_those_with_the_most_free_devices_are_named(patient: Patient) -> None:
    for number in range(5):
        await node(patient, f"host-{number}", 2)
        await on(patient, f"p{number}", f"host-{number}", 1 if number == 3 else 2)
    verdict = await pending(patient, 2)
    assert verdict.because[1].startswith(f"{NIC}: host-3: 1 of 2 free, held by default/p3; host-0: 0 of 2 free")
    assert verdict.because[1].endswith("; 2 more hosts have no more")


async def test_who_may_read_no_nodes_reads_what_the_scheduler_says(patient: Patient) -> None:
    await node(patient, "host-a", 1)
    await on(patient, "a", "host-a")
    await pending(patient, 1)
    rules = [{"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list"]}]
    await patient.bind("user", rules, namespace="default", user=True)
    answer = await patient.why("pod/p", kubeconfig=patient.kubeconfig_of("user"))
    assert (answer.verdict.state, answer.verdict.because) == (
        State.stuck,
        (f"0/2 nodes are available: 2 Insufficient {NIC}",),
    )
    assert any("no right to list nodes" in text for text in answer.unread)


async def test_who_may_read_no_pods_is_not_told_that_all_devices_are_free(patient: Patient) -> None:
    await node(patient, "host-a", 1)
    await on(patient, "a", "host-a")
    await pending(patient, 1)
    rules = [{"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list"]}]
    await patient.bind("user", rules, namespace="default", user=True)
    kinds = ["nodes", "resourceslices", "deviceclasses", "resourceclaims"]
    rules = [{"apiGroups": ["", "resource.k8s.io"], "resources": kinds, "verbs": ["get", "list"]}]
    await patient.bind("user", rules, name="nodes", user=True)
    answer = await patient.why("pod/p", kubeconfig=patient.kubeconfig_of("user"))
    assert not any("free" in cause for cause in answer.verdict.because)
    assert any("no right to list pods in the whole cluster" in text for text in answer.unread)
