"""Why a claim has no devices, why these have no network data, and what its template and class offer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.claims.model import CLAIM_TEMPLATE_MARK, DEFINITIONS_NAME
from app.claims.why.devices import DEVICE_TAINT_RULES
from app.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    DEVICE_CLASSES,
    EVENTS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from app.text import stamp
from app.why.model import State, Verdict
from tests.integration.doctor.patient import HOME, Patient
from tests.integration.doctor.rmd_patient import deploy
from tests.support.chart import Server
from tests.support.claims import DRANET, EXTENDED, NODE, RESOURCE, VF, ClaimsCluster, attached, entry
from tests.support.waiting import eventually

JSON = dict[str, Any]
LATER = timedelta(minutes=10)
TAINT = {"key": "link", "value": "down", "effect": "NoExecute"}


@pytest.fixture
def cluster(patient: Patient) -> ClaimsCluster:
    return ClaimsCluster(Server(patient.kubeconfig, patient.client, patient.cluster))


async def judged(patient: Patient, name: str = "c") -> Verdict:
    return (await patient.why(f"resourceclaim/{name}")).verdict


async def device_class(patient: Patient, name: str = "vf", **spec: Any) -> None:
    selector = {"cel": {"expression": f'device.driver == "{VF}"'}}
    await patient.create(DEVICE_CLASSES, name, spec={"selectors": [selector]} | spec)


async def claim(patient: Patient, name: str = "c", **request: Any) -> JSON:
    exactly = {"deviceClassName": "vf"} | request
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    return await patient.create(RESOURCE_CLAIMS, name, namespace="default", spec=spec)


async def waiting(patient: Patient, *claims: str, name: str = "p", message: str = "", **entries: str) -> JSON:
    """A Pod that has no node yet."""
    named = [{"name": f"r{n}", "resourceClaimName": each} for n, each in enumerate(claims)]
    named += [{"name": key, "resourceClaimTemplateName": template} for key, template in entries.items()]
    pod = await patient.pod(name, spec={"resourceClaims": named})
    if message:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        await patient.report(PODS, name, {"conditions": [condition]}, namespace="default")
    return pod


async def running(cluster: ClaimsCluster, *devices: str, driver: str = VF, networks: str = "net") -> JSON:
    """Pod p with these devices by claim c, attached to network net by the first."""
    pod = await cluster.pod("p", "c", networks=networks)
    made = await cluster.claim("c", pod, *devices, driver=driver)
    await cluster.say("p", phase="Running", conditions=[{"type": "Ready", "status": "True"}])
    return made


async def test_a_device_more_than_the_pod_selects_networks(patient: Patient, cluster: ClaimsCluster) -> None:
    """Of an extended resource, which the scheduler made the claim for."""
    await cluster.device_too_many()
    verdict = await judged(patient, EXTENDED)
    assert (verdict.state, verdict.text) == (State.stuck, "1 of 2 devices has network data")
    assert verdict.asks == "devices for Pod p; vf0: net1 10.0.0.5/24 on default/net"
    assert verdict.because == (f"vf1: none: Pod p asks for 2 {RESOURCE} and selects 1 network",)
    assert verdict.next.startswith(f"select a network for each device, or ask for 1 {RESOURCE}: the command deletes")
    assert verdict.codes == ("BERTH5016",)
    of_pod = (await patient.why("pod/p")).verdict
    assert of_pod.state is State.stuck
    subject = f"ResourceClaim default/{EXTENDED}"
    assert {f"{subject}: {verdict.text}", verdict.because[0]} <= {*of_pod.because}
    before = await patient.client.get(PODS, "p", namespace="default")
    await patient.run(verdict.fix)
    after = await patient.client.get(PODS, "p", namespace="default")
    assert before["metadata"]["uid"] != after["metadata"]["uid"]
    assert "nodeName" not in after["spec"]


async def test_no_role_publishes_and_the_command_that_lets_one(patient: Patient, cluster: ClaimsCluster) -> None:
    await deploy(patient, "berth-controller", HOME, "controller", "--controllers=rmd")
    await cluster.attachment()
    await cluster.slice("vf1")
    await running(cluster, "vf1")
    await cluster.attach("p", attached("10.0.0.5"))
    verdict = await judged(patient)
    assert (verdict.state, verdict.text) == (State.stuck, "0 of 1 device has network data")
    assert verdict.because == ("neither controller claims nor claims-node runs",)
    assert verdict.codes == ("BERTH5003",)
    assert "claims,rmd" in verdict.fix
    await cluster.apply("c", [entry("vf1", networkData={"interfaceName": "net1", "ips": ["10.0.0.5/24"]})])
    verdict = await judged(patient)
    assert (verdict.state, verdict.text) == (State.fine, "1 of 1 device has network data")


async def test_data_that_a_policy_refuses(patient: Patient, cluster: ClaimsCluster) -> None:
    """As the Event of the controller says it."""
    await cluster.attachment()
    await cluster.slice("vf1")
    made = await running(cluster, "vf1")
    await cluster.attach("p", attached("10.0.0.5"))
    assert (await judged(patient)).because == ("vf1: they are not written yet",)
    names = ("apiVersion", "kind")
    about = {key: made[key] for key in names} | {key: made["metadata"][key] for key in ("name", "namespace", "uid")}
    fields = {"involvedObject": about, "reason": "NetworkDataRejected", "message": "the address is another's"}
    await patient.create(EVENTS, "e", namespace="default", lastTimestamp=stamp(), type="Warning", **fields)
    verdict = await judged(patient)
    assert (verdict.state, verdict.because) == (State.stuck, ("vf1: the address is another's",))
    async with cluster.controller():
        await eventually(lambda: cluster.ips("c"), lambda found: found == ["10.0.0.5/24"])
    assert (await judged(patient)).state is State.fine


async def test_a_driver_that_publishes_for_itself_and_is_silent(patient: Patient, cluster: ClaimsCluster) -> None:
    await running(cluster, "vf1", driver=DRANET)
    assert (await judged(patient)).state is State.waits
    patient.later = LATER
    verdict = await judged(patient)
    assert (verdict.state, verdict.codes) == (State.stuck, ("BERTH5004",))
    assert verdict.because == (f"vf1: driver {DRANET} publishes network data for itself, and has written nothing",)
    await patient.run(verdict.fix)
    assert await patient.client.list_page(PODS, namespace="default")


async def test_a_network_that_is_gone_is_named(patient: Patient, cluster: ClaimsCluster) -> None:
    await cluster.slice("vf0", "vf1")
    await running(cluster, "vf0", "vf1")
    await cluster.attach("p", attached("10.0.0.5", pci="0000:03:00.0"))
    verdict = await judged(patient)
    assert verdict.because[-1] == "there is no NetworkAttachmentDefinition default/net, which Pod p selects"


async def test_a_claim_that_two_pods_share(patient: Patient, cluster: ClaimsCluster) -> None:
    await cluster.slice("vf1")
    made = await running(cluster, "vf1")
    other = await cluster.pod("q", "c")
    consumer = {"resource": "pods", "name": "q", "uid": other["metadata"]["uid"]}
    await cluster.put(made | {"status": made["status"] | {"reservedFor": [*made["status"]["reservedFor"], consumer]}})
    verdict = await judged(patient)
    assert verdict.state is State.stuck
    assert verdict.because[0].startswith("vf1: the claim is reserved for 2 Pods; want a claim for each Pod")


async def test_a_pod_that_is_starting_waits_for_its_network_status(patient: Patient, cluster: ClaimsCluster) -> None:
    await cluster.attachment()
    await cluster.slice("vf1")
    pod = await cluster.pod("p", "c")
    await cluster.claim("c", pod, "vf1")
    verdict = await judged(patient)
    assert (verdict.state, verdict.text) == (State.waits, "0 of 1 device has network data")


async def test_a_class_that_is_missing_and_the_one_that_was_meant(patient: Patient) -> None:
    await device_class(patient, "vf-a")
    await claim(patient, deviceClassName="vf-b")
    verdict = await judged(patient)
    assert verdict.state is State.waits
    assert verdict.because == ("no Pod uses it", "there is no DeviceClass vf-b; there is vf-a")
    await waiting(patient, "c", message="0/1 nodes: cannot allocate all claims")
    verdict = await judged(patient)
    assert (verdict.state, verdict.text, verdict.asks) == (State.stuck, "not allocated", "1 of DeviceClass vf-b")
    assert verdict.because == ("there is no DeviceClass vf-b; there is vf-a", "0/1 nodes: cannot allocate all claims")
    assert verdict.codes == ("BERTH5017",)
    assert (
        verdict.next == "ResourceClaim c with DeviceClass vf-a: the command deletes it, and creates it again with that"
    )
    of_pod = (await patient.why("pod/p")).verdict
    assert of_pod.because == ("ResourceClaim default/c: not allocated", *verdict.because)
    await patient.run(f"export EDITOR='sed -i s/vf-b/vf-a/'; {verdict.fix}")
    assert (await judged(patient)).asks == "1 of DeviceClass vf-a"


@pytest.mark.parametrize(
    ("devices", "asked", "because"),
    [
        ((), {}, "no ResourceSlice has a device of DeviceClass vf"),
        (
            ("vf1",),
            {"selectors": [{"cel": {"expression": 'device.attributes["k8s.cni.cncf.io"].deviceID == "x"'}}]},
            "the selectors of the request match none of 1 device of vf",
        ),
        (("vf1", "vf2"), {"count": 3}, "asks for 3 of DeviceClass vf, and there are 2"),
    ],
)
async def test_requests_that_no_device_fits(
    patient: Patient, cluster: ClaimsCluster, devices: tuple[str, ...], asked: JSON, because: str
) -> None:
    await device_class(patient)
    if devices:
        await cluster.slice(*devices)
    await claim(patient, **asked)
    await waiting(patient, "c")
    verdict = await judged(patient)
    assert (verdict.state, verdict.because) == (State.stuck, (because,))


async def test_a_template_is_made_anew_and_not_its_claim(patient: Patient, cluster: ClaimsCluster) -> None:
    await device_class(patient, "vfa")
    devices = {"requests": [{"name": "r", "exactly": {"deviceClassName": "vf"}}]}
    await patient.create(RESOURCE_CLAIM_TEMPLATES, "t", namespace="default", spec={"spec": {"devices": devices}})
    pod = await waiting(patient, a="t")
    owner = {"apiVersion": "v1", "kind": "Pod", "controller": True, "name": "p", "uid": pod["metadata"]["uid"]}
    metadata = {"ownerReferences": [owner]}
    await patient.create(RESOURCE_CLAIMS, "p-a-x", namespace="default", metadata=metadata, spec={"devices": devices})
    statuses = [{"name": "a", "resourceClaimName": "p-a-x"}]
    await patient.report(PODS, "p", {"resourceClaimStatuses": statuses}, namespace="default")
    verdict = await judged(patient, "p-a-x")
    assert (
        verdict.next
        == "ResourceClaimTemplate t with DeviceClass vfa: the command deletes it, and creates it again with that"
    )
    await patient.run(f"export EDITOR='sed -i s/vf/vfa/'; {verdict.fix}")


async def test_devices_of_two_nodes_are_not_for_one_pod(patient: Patient, cluster: ClaimsCluster) -> None:
    await device_class(patient)
    await cluster.slice("vf1")
    await cluster.slice("vf1", node="n2")
    await claim(patient, count=2)
    await waiting(patient, "c")
    assert (await judged(patient)).because == ("asks for 2 of DeviceClass vf, and there are at most 1 on one node",)


async def test_devices_that_others_have(patient: Patient, cluster: ClaimsCluster) -> None:
    """It waits for these: no finding of the doctor."""
    await device_class(patient)
    await cluster.slice("vf1", "vf2")
    pod = await cluster.pod("holder", "held")
    await cluster.claim("held", pod, "vf1", "vf2")
    await claim(patient)
    await waiting(patient, "c")
    verdict = await judged(patient)
    assert (verdict.state, verdict.codes) == (State.waits, ())
    assert verdict.because == (f"DeviceClass vf: {NODE}: 0 of 2 free, held by ResourceClaim default/held",)
    assert verdict.next
    of_class = (await patient.why("deviceclass/vf")).verdict
    assert (of_class.state, of_class.text) == (State.waits, f"offers 2 devices, 0 free: 2 of {VF} on {NODE}")
    assert of_class.because == ("ResourceClaim default/held has 2 devices",)


async def test_access_for_administration_waits_for_nobody(patient: Patient, cluster: ClaimsCluster) -> None:
    await device_class(patient)
    await cluster.slice("vf1")
    await cluster.claim("held", await cluster.pod("holder", "held"), "vf1")
    label = "resource.kubernetes.io/admin-access"
    await patient.run(f"kubectl label namespace default {label}=true")
    await claim(patient, adminAccess=True)
    await patient.run(f"kubectl label namespace default {label}-")
    await waiting(patient, "c")
    verdict = await judged(patient)
    assert (verdict.because, verdict.next) == ((), "is allocated when its Pod is scheduled")


async def tainted_slice(patient: Patient, **taint: str) -> None:
    devices = [{"name": "vf1", "taints": [taint]}]
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
    await patient.create(RESOURCE_SLICES, "s", spec={"driver": VF, "nodeName": NODE, "pool": pool, "devices": devices})


async def test_taints_of_devices_and_claims_that_tolerate_them(patient: Patient) -> None:
    await device_class(patient)
    await tainted_slice(patient, key="link", value="down", effect="NoSchedule")
    await claim(patient)
    await waiting(patient, "c")
    verdict = await judged(patient)
    cause = f"0 of 1 device of vf without a taint: link=down:NoSchedule by driver {VF}"
    assert (verdict.state, verdict.because) == (State.stuck, (cause,))
    await claim(patient, "tolerant", tolerations=[{"key": "link", "operator": "Exists"}])
    await waiting(patient, "tolerant", name="q")
    assert (await judged(patient, "tolerant")).because == ()


async def test_a_device_that_is_tainted_while_a_pod_has_it(patient: Patient, cluster: ClaimsCluster) -> None:
    await tainted_slice(patient, **TAINT)
    await running(cluster, "vf1")
    verdict = await judged(patient)
    assert verdict.state is State.stuck
    assert verdict.because == (f"vf1 has taint link=down:NoExecute by driver {VF}, which the claim does not tolerate",)
    assert verdict.so.startswith("its Pod is evicted")


async def served(patient: Patient, kind: str) -> Resource:
    """A kind of Kubernetes that the sandbox does not have, in a group of its own."""
    plural = f"{kind.lower()}s"
    names = {"plural": plural, "kind": kind, "singular": kind.lower()}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
    await patient.create(CUSTOM_RESOURCE_DEFINITIONS, f"{plural}.example.com", spec=spec)
    return Resource("example.com", "v1", plural, kind, namespaced=False)


async def test_a_taint_rule_names_itself(
    patient: Patient, cluster: ClaimsCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = await served(patient, "DeviceTaintRule")
    monkeypatch.setattr("app.claims.why.devices.DEVICE_TAINT_RULES", (*DEVICE_TAINT_RULES, rules))
    await cluster.slice("vf1")
    await running(cluster, "vf1")
    await patient.create(rules, "dry", spec={"deviceSelector": {"driver": VF}, "taint": TAINT | {"effect": "None"}})
    assert (await judged(patient)).text == "0 of 1 device has network data"
    await patient.create(rules, "other", spec={"deviceSelector": {"pool": "n9"}, "taint": TAINT})
    await patient.create(rules, "maintain", spec={"deviceSelector": {"driver": VF, "device": "vf1"}, "taint": TAINT})
    causes = (await judged(patient)).because
    assert "vf1 has taint link=down:NoExecute by DeviceTaintRule maintain, which the claim does not tolerate" in causes


async def test_free_devices_as_the_api_server_counts_them(
    patient: Patient, cluster: ClaimsCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Devices that are shared or have partitions are counted by it alone."""
    requests = await served(patient, "ResourcePoolStatusRequest")
    monkeypatch.setattr("app.claims.why.devices.POOL_STATUS", requests)
    await device_class(patient)
    await cluster.slice("vf1", "vf2", "vf3")
    assert ", 3 free" in (await patient.why("deviceclass/vf")).verdict.text
    complete = {"type": "Complete", "status": "True", "lastTransitionTime": stamp()}
    pool = {"driver": VF, "poolName": NODE, "totalDevices": 3, "availableDevices": 1}
    await patient.create(requests, "asked", spec={"driver": VF}, status={"conditions": [complete], "pools": [pool]})
    assert ", 1 free" in (await patient.why("deviceclass/vf")).verdict.text
    await claim(patient, count=2)
    await waiting(patient, "c")
    assert (await judged(patient)).because == (f"DeviceClass vf: {NODE}: 1 of 3 free",)
    patient.later = LATER
    assert ", 3 free" in (await patient.why("deviceclass/vf")).verdict.text, "the answer is old"


async def test_binding_conditions(patient: Patient, cluster: ClaimsCluster) -> None:
    pod = await cluster.pod("p", "c", node="")
    made = await cluster.claim("c")
    conditions = {
        "bindingConditions": ["dra.example.com/attached"],
        "bindingFailureConditions": ["dra.example.com/broken"],
    }
    allocation = {"devices": {"results": [{"request": "r", **entry(), **conditions}]}}
    allocation |= {"allocationTimestamp": stamp()}
    reserved = {"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}
    await cluster.put(made | {"status": {"allocation": allocation, "reservedFor": [reserved]}})
    verdict = await judged(patient)
    assert (verdict.state, verdict.text) == (State.waits, "waits for its devices")
    unsaid = f"driver {VF} has not reported it"
    assert verdict.because == (f"vf1: binding condition dra.example.com/attached is not True: {unsaid}",)
    patient.later = timedelta(minutes=20)
    late = await judged(patient)
    assert (late.state, late.because, late.next) == (State.stuck, verdict.because, "")
    patient.later = timedelta()
    at = "2026-01-01T00:00:00Z"
    failed = {"type": "dra.example.com/broken", "status": "True", "reason": "NoFabric", "message": "no port is free"}
    await cluster.apply("c", [entry(conditions=[failed | {"lastTransitionTime": at}])])
    verdict = await judged(patient)
    assert (verdict.state, verdict.because) == (State.broken, ("vf1: dra.example.com/broken: no port is free",))


async def test_devices_that_are_held_for_no_pod(patient: Patient, cluster: ClaimsCluster) -> None:
    made = await running(cluster, "vf1")
    await cluster.put(made | {"status": made["status"] | {"reservedFor": []}})
    verdict = await judged(patient)
    assert (verdict.state, verdict.text) == (State.stuck, "1 device allocated, and reserved for no Pod")
    assert verdict.codes == ("BERTH5018",)
    await patient.run(verdict.fix)


async def test_a_claim_whose_pod_is_gone(patient: Patient, cluster: ClaimsCluster) -> None:
    """It is given time: a Pod of a StatefulSet is there again in a moment, with another UID."""
    await running(cluster, "vf1")
    gone = (await patient.client.get(PODS, "p", namespace="default"))["metadata"]
    await cluster.remove(PODS, "p")
    verdict = await judged(patient)
    assert (verdict.state, verdict.fix) == (State.waits, "")
    assert verdict.because[0] == "Pod p, which it is reserved for, does not exist"
    patient.later = LATER
    verdict = await judged(patient)
    assert (verdict.state, verdict.codes) == (State.stuck, ("BERTH5018",))
    assert verdict.because == ("Pod p, which it is reserved for, does not exist",)
    patient.cluster.storage.clock = lambda: datetime.now(UTC) + LATER
    await cluster.pod("p", "c")
    patient.cluster.storage.clock = lambda: datetime.now(UTC)
    assert (await judged(patient)).state is State.waits
    await cluster.remove(PODS, "p")
    about = {"apiVersion": "v1", "kind": "Pod"} | {key: gone[key] for key in ("name", "namespace", "uid")}
    ended = stamp(datetime.now(UTC) + LATER)
    fields = {"involvedObject": about, "reason": "Killing", "message": "Stopping container c"}
    await patient.create(EVENTS, "e", namespace="default", lastTimestamp=ended, type="Normal", **fields)
    assert (await judged(patient)).state is State.waits
    await patient.client.delete(EVENTS, "e", namespace="default")
    await patient.run((await judged(patient)).fix)


async def test_a_claim_of_several_pods_the_first_of_which_is_gone(patient: Patient, cluster: ClaimsCluster) -> None:
    made = await running(cluster, "vf1", driver=DRANET)
    other = {"resource": "pods", "name": "before", "uid": "u"}
    await cluster.put(made | {"status": made["status"] | {"reservedFor": [other, *made["status"]["reservedFor"]]}})
    patient.later = LATER
    verdict = await judged(patient)
    assert (verdict.text, verdict.codes) == ("0 of 1 device has network data", ("BERTH5004",))
    await cluster.remove(PODS, "p")
    verdict = await judged(patient)
    assert verdict.because == ("Pods before, p, which it is reserved for, do not exist",)


async def test_a_pod_without_its_claim_and_without_its_template(patient: Patient) -> None:
    await claim(patient, "nics")
    await waiting(patient, "nic")
    verdict = (await patient.why("pod/p")).verdict
    assert verdict.state is State.stuck
    assert "there is no ResourceClaim nic in default; there is nics" in verdict.because
    assert verdict.next == "name nics: the command deletes the Pod, and creates it again with that"
    await patient.run(verdict.fix)
    await waiting(patient, name="q", a="pair")
    verdict = (await patient.why("pod/q")).verdict
    assert "there is no ResourceClaimTemplate pair in default, nor any other" in verdict.because


async def test_a_template_that_berth_makes(patient: Patient) -> None:
    await device_class(patient)
    await patient.create(CONFIG_MAPS, DEFINITIONS_NAME, namespace=HOME, data={"pair": "requests: {nic: vf}"})
    await waiting(patient, a="pair")
    verdict = (await patient.why("pod/p")).verdict
    cause = "ResourceClaimTemplate pair is made of the definition of this name, and is not there yet"
    assert (verdict.state, cause in verdict.because) == (State.waits, True)
    await deploy(patient, "berth-controller", HOME, "controller", "--controllers=rmd")
    verdict = (await patient.why("pod/p")).verdict
    assert (verdict.state, verdict.codes) == (State.stuck, ("BERTH5013",))
    assert "claim-templates" in verdict.fix
    devices = {"requests": [{"name": "nic", "exactly": {"deviceClassName": "vf"}}]}
    labels = {"app.kubernetes.io/managed-by": "berth", CLAIM_TEMPLATE_MARK: "pair"}
    body: JSON = {"spec": {"spec": {"devices": devices}}, "namespace": "default"}
    await patient.create(RESOURCE_CLAIM_TEMPLATES, "pair", metadata={"labels": labels}, **body)
    verdict = (await patient.why("resourceclaimtemplate/pair")).verdict
    assert (verdict.state, verdict.text) == (State.stuck, "is made of an earlier definition")
    await patient.client.delete(RESOURCE_CLAIM_TEMPLATES, "pair", namespace="default")
    await patient.create(RESOURCE_CLAIM_TEMPLATES, "pair", **body)
    verdict = (await patient.why("resourceclaimtemplate/pair")).verdict
    assert (verdict.state, verdict.codes) == (State.stuck, ("BERTH5014",))
    await patient.run(verdict.fix)


@pytest.mark.parametrize("name", ["pair", "berth-class-vf"])
async def test_a_template_whose_definition_may_not_be_read(patient: Patient, name: str) -> None:
    labels = {"app.kubernetes.io/managed-by": "berth", CLAIM_TEMPLATE_MARK: name}
    spec = {"spec": {"devices": {"requests": [{"name": "nic", "exactly": {"deviceClassName": "vf"}}]}}}
    await patient.create(RESOURCE_CLAIM_TEMPLATES, name, namespace="default", metadata={"labels": labels}, spec=spec)
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]
    await patient.bind("dev", rules, namespace="default", user=True)
    answer = await patient.why(f"resourceclaimtemplate/{name}", kubeconfig=patient.kubeconfig_of("dev"))
    assert (answer.verdict.state, answer.verdict.text) == (State.fine, "is made by Berth")
    assert any("configmaps" in text for text in answer.unread)


async def test_a_template_with_a_class_that_is_missing(patient: Patient) -> None:
    await device_class(patient, "vf-a")
    devices = {"requests": [{"name": "nic", "exactly": {"deviceClassName": "vf-b"}}]}
    await patient.create(RESOURCE_CLAIM_TEMPLATES, "t", namespace="default", spec={"spec": {"devices": devices}})
    verdict = (await patient.why("resourceclaimtemplate/t")).verdict
    assert (verdict.state, verdict.because) == (State.stuck, ("there is no DeviceClass vf-b; there is vf-a",))
    await waiting(patient, a="t")
    assert "there is no DeviceClass vf-b; there is vf-a" in (await patient.why("pod/p")).verdict.because


async def test_a_class_that_offers_nothing(patient: Patient, cluster: ClaimsCluster) -> None:
    await device_class(patient)
    verdict = (await patient.why("deviceclass/vf")).verdict
    assert (verdict.state, verdict.because) == (State.stuck, ("no driver publishes ResourceSlices",))
    await cluster.slice("vf1", driver="other.example.com")
    verdict = (await patient.why("deviceclass/vf")).verdict
    assert verdict.because == ("its selectors match no device of other.example.com",)


async def test_a_right_in_one_namespace_is_enough(patient: Patient, cluster: ClaimsCluster) -> None:
    """Slices and classes are then not read: nothing is said of them, but that."""
    await cluster.slice("vf1")
    await running(cluster, "vf1")
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]
    await patient.bind("dev", rules, namespace="default", user=True)
    answer = await patient.why("resourceclaim/c", kubeconfig=patient.kubeconfig_of("dev"))
    assert (answer.verdict.state, answer.verdict.text) == (State.fine, "1 device for Pod p")
    assert any("list resourceslices" in text for text in answer.unread)
    await claim(patient, "d")
    await waiting(patient, "d", name="q")
    answer = await patient.why("resourceclaim/d", kubeconfig=patient.kubeconfig_of("dev"))
    assert answer.verdict.state is State.waits


async def test_a_deployment_is_edited_and_not_its_pod(patient: Patient, cluster: ClaimsCluster) -> None:
    await cluster.attachment()
    await cluster.slice("vf0", "vf1")
    await running(cluster, "vf0", "vf1")
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": True}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    await patient.create(DEPLOYMENTS, "db", namespace="default", spec=spec)
    body = {"metadata": {"ownerReferences": [owner]}}
    await patient.client.patch(PODS, "p", body, patch_type="merge", namespace="default")
    await cluster.attach("p", attached("10.0.0.5", pci="0000:03:00.0"))
    verdict = await judged(patient)
    assert verdict.fix == "kubectl --namespace default edit statefulset/db"
    assert verdict.next.startswith("select")
