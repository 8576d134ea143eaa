"""Why a Service on a secondary network has no endpoints, or fewer than it has Pods."""

from __future__ import annotations

import json
from typing import Any

import pytest
import pytest_asyncio

from app.claims.model import NETWORK_STATUS
from app.kube.resources import DEPLOYMENTS, ENDPOINT_SLICES, NETWORK_ATTACHMENTS, NODES, PODS, SERVICES
from app.services.model import INTERFACE, NETWORK, SELECTOR
from app.why.model import State
from tests.integration.doctor.patient import HOME, NETWORKS, Patient
from tests.integration.doctor.rmd_patient import deploy

JSON = dict[str, Any]
NET = "default/storage-network"


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def node(patient: Patient) -> None:
    await patient.create(NODES, "n")


async def network(patient: Patient, name: str = "storage-network", ipam: JSON | None = None) -> None:
    config = {"type": "macvlan", "ipam": ipam or {"type": "host-local", "subnet": "10.20.0.0/24"}}
    await patient.create(NETWORK_ATTACHMENTS, name, namespace="default", spec={"config": json.dumps(config)})


async def service(patient: Patient, name: str = "db", **annotations: str) -> JSON:
    known = {"network": NETWORK, "selector": SELECTOR, "interface": INTERFACE}
    given = {"network": "storage-network", "selector": "app=database"} | annotations
    metadata = {"annotations": {known.get(key, key): value for key, value in given.items() if value}}
    spec = {"ports": [{"port": 80}], "clusterIP": "None"}
    return await patient.create(SERVICES, name, namespace="default", metadata=metadata, spec=spec)


async def pod(
    patient: Patient, name: str = "p", *, app: str = "database", ip: str = "10.20.0.3", on: str = NET, **metadata: Any
) -> None:
    """A Pod that runs on node n, and that Multus has attached where it has an address."""
    annotations = {NETWORKS: on} if on else {}
    await patient.pod(name, spec={"nodeName": "n"}, labels={"app": app}, annotations=annotations, **metadata)
    await patient.report(
        PODS, name, {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}, namespace="default"
    )
    if ip:
        status = json.dumps([{"name": on, "interface": "net1", "ips": [ip]}])
        body = {"metadata": {"annotations": {NETWORK_STATUS: status}}}
        await patient.client.patch(PODS, name, body, patch_type="merge", namespace="default")


async def test_no_pod_has_the_selector_and_the_one_that_those_on_the_network_have(patient: Patient) -> None:
    await network(patient)
    await pod(patient)
    await service(patient, selector="app=nobody")
    verdict = (await patient.why("service/db")).verdict
    assert (verdict.state, verdict.text) == (State.stuck, f"0 endpoints on network {NET}")
    assert verdict.because == (
        f"no Pod in default has app=nobody ({SELECTOR})",
        f"1 Pod on network {NET} has app=database",
    )
    assert verdict.codes == ("BERTH5019",)
    await patient.run(verdict.fix)
    verdict = (await patient.why("service/db")).verdict
    assert (verdict.state, verdict.because) == (State.waits, ("its EndpointSlices are not written yet",))
    assert verdict.text == f"1 endpoint on network {NET}"


async def test_an_attachment_that_is_missing_and_the_one_that_was_meant(patient: Patient) -> None:
    await network(patient)
    await pod(patient)
    await service(patient, network="storage-netwrk")
    answer = await patient.why("svc/db")
    verdict = answer.verdict
    assert verdict.state is State.broken
    clause = "there is no NetworkAttachmentDefinition storage-netwrk in default; there is storage-network"
    assert (verdict.because, verdict.codes) == ((clause,), ("BERTH5020",))
    await patient.run(verdict.fix)
    assert (await patient.why("service/db")).verdict.text == f"1 endpoint on network {NET}"


async def test_pods_that_do_not_select_the_network_and_the_patch_that_lets_them(patient: Patient) -> None:
    await network(patient)
    template = {
        "metadata": {"labels": {"app": "database"}, "annotations": {NETWORKS: "other"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"selector": {"matchLabels": {"app": "database"}}, "template": template}
    await patient.create(DEPLOYMENTS, "db", namespace="default", spec=spec)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "db-5f", "uid": "u", "controller": True}
    await pod(patient, "db-5f-x", on="default/other", ip="10.9.0.1", ownerReferences=[owner])
    labels = {"metadata": {"labels": {"pod-template-hash": "5f"}}}
    await patient.client.patch(PODS, "db-5f-x", labels, patch_type="merge", namespace="default")
    await service(patient)
    verdict = (await patient.why("service/db")).verdict
    assert (verdict.state, verdict.codes) == (State.stuck, ("BERTH5021",))
    assert verdict.because == (f"Pod db-5f-x: not on network {NET}: db-5f-x selects default/other ({NETWORKS})",)
    await patient.run(verdict.fix)
    changed = await patient.client.get(DEPLOYMENTS, "db", namespace="default")
    assert changed["spec"]["template"]["metadata"]["annotations"] == {NETWORKS: f"default/other, {NET}"}


async def test_some_pods_are_endpoints_and_one_uses_the_network_of_its_node(patient: Patient) -> None:
    await network(patient)
    await pod(patient)
    await service(patient)
    await patient.pod("h", spec={"nodeName": "n", "hostNetwork": True}, labels={"app": "database"})
    verdict = (await patient.why("service/db")).verdict
    assert (verdict.state, verdict.text) == (State.stuck, f"1 endpoint on network {NET}")
    assert verdict.because[0].startswith(f"Pod h: not on network {NET}")


async def test_subnets_that_nothing_says(patient: Patient) -> None:
    await network(patient, ipam={"type": "dhcp"})
    await pod(patient)
    await service(patient)
    verdict = (await patient.why("service/db")).verdict
    assert verdict.state is State.stuck
    assert verdict.because[0].startswith(f"no subnets are known of network {NET}")


async def test_pods_that_are_starting(patient: Patient) -> None:
    """The Pod's own verdict says what it waits for."""
    await network(patient)
    await service(patient)
    await patient.pod("p", labels={"app": "database"}, annotations={NETWORKS: "storage-network"})
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes: no cpu"}
    await patient.report(PODS, "p", {"phase": "Pending", "conditions": [condition]}, namespace="default")
    verdict = (await patient.why("service/db")).verdict
    assert verdict.state is State.stuck
    assert "0/1 nodes: no cpu" in verdict.because


async def test_a_pod_that_multus_did_not_attach(patient: Patient) -> None:
    await network(patient)
    await service(patient)
    await pod(patient, ip="")
    status = json.dumps([{"name": "cluster", "interface": "eth0", "ips": ["10.0.0.1"], "default": True}])
    body = {"metadata": {"annotations": {NETWORK_STATUS: status}}}
    await patient.client.patch(PODS, "p", body, patch_type="merge", namespace="default")
    verdict = (await patient.why("service/db")).verdict
    assert verdict.state is State.stuck
    cause = f"Pod p: selected network {NET}, and the network status that Multus wrote lacks it"
    assert verdict.because == (cause,)


@pytest.mark.parametrize("stopped", [True, False])
async def test_a_controller_that_does_not_run(patient: Patient, *, stopped: bool) -> None:
    await network(patient)
    await pod(patient)
    await service(patient)
    controllers = "--controllers=network-services" if stopped else "--controllers=rmd"
    await deploy(patient, "berth-controller", HOME, "controller", controllers)
    if stopped:
        body = {"spec": {"replicas": 0}}
        await patient.client.patch(DEPLOYMENTS, "berth-controller", body, patch_type="merge", namespace=HOME)
    verdict = (await patient.why("service/db")).verdict
    assert verdict.state is State.broken
    if stopped:
        assert f"Deployment {HOME}/berth-controller, which runs it, has no ready replica" in verdict.because
        await patient.run(verdict.fix)
    else:
        assert "controller network-services does not run" in verdict.because
        assert "network-services" in verdict.fix
        assert verdict.codes == ("BERTH5010",)


async def test_a_mistake_in_an_annotation(patient: Patient) -> None:
    await service(patient, selector="app in (")
    verdict = (await patient.why("service/db")).verdict
    assert (verdict.state, verdict.text, verdict.codes) == (State.broken, "cannot be served", ("BERTH5011",))
    await service(patient, "typo", network="", **{"berth.dev/netwrok": "storage-network"})
    verdict = (await patient.why("service/typo")).verdict
    assert verdict.state is State.stuck
    assert verdict.because[0].endswith("it has berth.dev/netwrok, which was probably meant to be berth.dev/network")
    await service(patient, "usual", network="", selector="")
    assert (await patient.why("service/usual")).verdict.state is State.fine


async def test_one_that_is_served(patient: Patient) -> None:
    await network(patient)
    await pod(patient)
    made = await service(patient)
    owner = {"apiVersion": "v1", "kind": "Service", "name": "db", "uid": made["metadata"]["uid"], "controller": True}
    labels = {"kubernetes.io/service-name": "db", "endpointslice.kubernetes.io/managed-by": "berth"}
    labels |= {"service.kubernetes.io/headless": ""}
    target = await patient.client.get(PODS, "p", namespace="default")
    reference = {"kind": "Pod", "namespace": "default", "name": "p", "uid": target["metadata"]["uid"]}
    conditions = {"ready": True, "serving": True, "terminating": False}
    endpoint = {"addresses": ["10.20.0.3"], "conditions": conditions, "targetRef": reference, "nodeName": "n"}
    await patient.create(
        ENDPOINT_SLICES,
        "db-1",
        namespace="default",
        metadata={"labels": labels, "ownerReferences": [owner]},
        addressType="IPv4",
        ports=[{"name": "", "port": 80, "protocol": "TCP"}],
        endpoints=[endpoint],
    )
    answer = await patient.why("service/db")
    assert (answer.verdict.state, answer.verdict.text) == (State.fine, f"1 endpoint on network {NET}")
    assert not answer.unread


async def test_one_that_names_an_interface_that_no_pod_has(patient: Patient) -> None:
    await service(patient, network="", interface="eth1")
    await pod(patient)
    verdict = (await patient.why("service/db")).verdict
    assert (verdict.state, verdict.text) == (State.stuck, "0 endpoints on interface eth1")
    assert verdict.because[0].startswith("no device of Pods that the Service selects is interface eth1: p")


async def test_a_right_in_one_namespace_is_enough(patient: Patient) -> None:
    """Nodes may not be read then, which hides nothing."""
    await network(patient)
    await pod(patient)
    await service(patient, selector="app=nobody")
    await patient.bind(
        "dev", [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}], namespace="default", user=True
    )
    answer = await patient.why("service/db", kubeconfig=patient.kubeconfig_of("dev"))
    assert answer.verdict.because[1] == f"1 Pod on network {NET} has app=database"
    await patient.run(answer.verdict.fix)
    answer = await patient.why("service/db", kubeconfig=patient.kubeconfig_of("dev"))
    assert answer.verdict.text == f"1 endpoint on network {NET}"
    assert not answer.unread


async def test_a_file_is_judged_before_it_is_applied(patient: Patient) -> None:
    await network(patient)
    metadata = {"name": "new", "annotations": {NETWORK: "storage-netwrk", SELECTOR: "app=x"}}
    manifest = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}]}}
    assert (await patient.why(manifests=[manifest])).verdict.codes == ("BERTH5020",)
    metadata["annotations"][NETWORK] = "storage-network"
    verdict = (await patient.why(manifests=[manifest])).verdict
    assert (verdict.state, verdict.text) == (State.fine, "would be created")
