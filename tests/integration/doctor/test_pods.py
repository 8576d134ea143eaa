"""Pods that lack what the webhook would give them, found over live objects; none of them was ever sent to a webhook."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from app.doctor.model import Finding, Severity
from app.kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    DEVICE_CLASSES,
    IMPLICIT_PREFIX,
    NAMESPACES,
    NETWORK_ATTACHMENTS,
    NODES,
    PODS,
    REPLICA_SETS,
    RESOURCE_SLICES,
)
from app.networks.checks.pods import CHECK
from app.networks.why.lacking import Nearest
from app.placement.model import DPU_OF_HOST, HOST_LABEL, TENANT_LABEL
from app.why.model import State
from tests.integration.doctor.patient import HOME, JSON, NETWORKS, Patient

WANTS = {NETWORKS: "foo"}


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def attachment(patient: Patient) -> None:
    """And a node that offers its resource."""
    await patient.attachment("foo")
    await patient.create(NODES, "offering", status={"allocatable": {"example.com/nic": "8"}})


def provided() -> JSON:
    """A Pod's spec as the webhook leaves it."""
    resources = {side: {"example.com/nic": "1"} for side in ("requests", "limits")}
    mount = {"name": "podnetinfo", "readOnly": True, "mountPath": "/etc/podnetinfo"}
    item = {"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}}
    return {
        "containers": [{"name": "app", "image": "app", "resources": resources, "volumeMounts": [mount]}],
        "volumes": [{"name": "podnetinfo", "downwardAPI": {"items": [item]}}],
    }


def owned(kind: str, name: str) -> list[JSON]:
    return [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}]


async def one(patient: Patient) -> Finding:
    (found,) = await patient.complaints(CHECK)
    return found


async def test_one_pod_is_one(patient: Patient) -> None:
    await patient.pod("plain")
    (found,) = await patient.examine(CHECK)
    assert found.message == "1 Pod checked: no problem found"


async def test_pods_that_have_all_or_need_nothing_are_well(patient: Patient) -> None:
    await patient.pod("plain")
    await patient.pod("provided", spec=provided(), annotations=WANTS)
    await patient.pod("host", spec={"hostNetwork": True}, annotations=WANTS)
    await patient.pod("opted-out", annotations=WANTS, labels={"berth.dev/inject": "false"})
    await patient.pod("system", namespace="kube-system", annotations={NETWORKS: "default/foo"})
    await patient.pod("own", namespace=HOME, annotations={NETWORKS: "default/foo"})
    await patient.pod("done", annotations=WANTS)
    await patient.report(PODS, "done", {"phase": "Succeeded"}, namespace="default")
    (found,) = await patient.examine(CHECK)
    assert (found.severity, found.message) == (Severity.ok, "4 Pods checked: no problem found")


async def test_a_pod_without_its_devices_and_the_command_that_begins_anew(patient: Patient) -> None:
    await patient.pod("bare", annotations=WANTS)
    found = await one(patient)
    assert (found.severity, found.subject) == (Severity.error, "Pod default/bare")
    assert found.message == "lacks example.com/nic=1 for default/foo"
    assert "no device is allotted" in found.consequence
    assert found.command == "kubectl --namespace default delete pod bare"
    await patient.run(found.command)
    assert not await patient.complaints(CHECK)


async def test_pods_of_a_deployment_are_told_together_and_restarted(patient: Patient) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "app"}]}}
    whole = {"selector": {"matchLabels": labels}, "template": template}
    await patient.create(DEPLOYMENTS, "web", namespace="default", spec=whole)
    metadata = {"ownerReferences": owned("Deployment", "web")}
    await patient.create(REPLICA_SETS, "web-1", namespace="default", metadata=metadata, spec=whole)
    for number in range(7):
        await patient.pod(f"web-1-{number}", annotations=WANTS, ownerReferences=owned("ReplicaSet", "web-1"))
    found = await one(patient)
    assert found.subject == "Deployment default/web"
    assert found.message == (
        "7 Pods of it (such as web-1-0, web-1-1, web-1-2, web-1-3, web-1-4) lack example.com/nic=1 for default/foo"
    )
    assert found.command == "kubectl --namespace default rollout restart deployment/web"


async def test_whether_a_pod_is_older_than_the_registration(patient: Patient) -> None:
    storage = patient.cluster.storage
    storage.clock = lambda: datetime.now(UTC) - timedelta(hours=1)
    await patient.pod("old", annotations=WANTS)
    storage.clock = lambda: datetime.now(UTC)
    await patient.register()
    found = await one(patient)
    assert ": created before Berth was registered (" in found.message
    storage.clock = lambda: datetime.now(UTC) + timedelta(hours=1)
    await patient.client.delete(PODS, "old", namespace="default")
    await patient.pod("new", annotations=WANTS)
    found = await one(patient)
    assert ": created after Berth was registered: either Berth was not asked" in found.message
    assert found.message.endswith("or what the Pod needs was changed later")


async def test_an_attachment_that_was_changed_after_its_pod_was_injected(patient: Patient) -> None:
    """The resources of the Pod are those of the former resourceName: Berth was asked."""
    await patient.register()
    await patient.pod("moved", spec=provided(), annotations=WANTS)
    assert not await patient.complaints(CHECK)
    changed = {"metadata": {"annotations": {"k8s.v1.cni.cncf.io/resourceName": "example.com/other"}}}
    await patient.client.patch(NETWORK_ATTACHMENTS, "foo", changed, patch_type="merge", namespace="default")
    cause = (
        "Berth injected into it when it was created (it has example.com/nic), and its networks, or what they ask for, "
        "were changed later"
    )
    found = await one(patient)
    assert (found.code, found.message) == ("BERTH1201", f"lacks example.com/other=1 for default/foo: {cause}")
    verdict = (await patient.why("pod/moved")).verdict
    assert verdict.because[0] == cause
    assert "NOT injected" not in verdict.text


async def test_pods_that_need_networks_in_a_namespace_that_is_left_out(patient: Patient) -> None:
    """One finding for each Namespace, the same for the whole cluster, for the namespace alone and from `berth why`."""
    key, name = "berth.dev/inject", "kubernetes.io/metadata.name"
    opt_out = {"key": key, "operator": "NotIn", "values": ["false"]}
    names = {"key": name, "operator": "NotIn", "values": ["kube-system", HOME, "away"]}
    await patient.register(
        namespaceSelector={"matchExpressions": [opt_out, names]}, objectSelector={"matchExpressions": [opt_out]}
    )
    await patient.client.create(NAMESPACES, {"metadata": {"name": "calm", "labels": {key: "false"}}})
    await patient.client.create(NAMESPACES, {"metadata": {"name": "away"}})
    await patient.pod("plain", namespace="calm")
    await patient.pod("by-itself", namespace="calm", annotations={NETWORKS: "default/foo"}, labels={key: "false"})
    assert not await patient.complaints(CHECK)
    for pod in ("web-1", "web-2"):
        await patient.pod(pod, namespace="calm", annotations={NETWORKS: "default/foo"})
    await patient.pod("web", namespace="away", annotations={NETWORKS: "default/foo"})
    away, calm = sorted(await patient.complaints(CHECK), key=lambda finding: finding.subject)
    assert (calm.code, calm.severity, calm.subject) == ("BERTH1209", Severity.error, "Namespace calm")
    assert calm.message == (
        "nothing is injected into its Pods, and 2 Pods of it lack the devices of networks, such as Pod calm/web-1: Berth "
        "was not asked: Namespace calm has the label berth.dev/inject=false (namespaceSelector of pods.berth.dev)"
    )
    assert calm.command == "kubectl label namespace calm berth.dev/inject-"
    assert (away.code, away.severity, away.subject) == ("BERTH1209", Severity.error, "Namespace away")
    assert away.message.endswith(
        f"Namespace away does not match the namespaceSelector of pods.berth.dev: {name} NotIn [kube-system, {HOME}, away]"
    )
    for namespace, whole in (("calm", calm), ("away", away)):
        (alone,) = await patient.complaints(CHECK, scope=namespace)
        assert replace(alone, command="") == replace(whole, command="")
        verdict = (await patient.why(f"ns/{namespace}")).verdict
        assert (verdict.state, verdict.codes[0], verdict.fix) == (State.broken, whole.code, whole.command)
    await patient.pod("typo", namespace="calm", annotations={NETWORKS: "default/fooo"})
    assert {finding.code for finding in await patient.complaints(CHECK)} == {"BERTH1203", "BERTH1209"}
    await patient.client.delete(PODS, "typo", namespace="calm")
    await patient.run(calm.command)
    assert {finding.subject for finding in await patient.complaints(CHECK)} == {
        "Namespace away",
        "Pod calm/web-1",
        "Pod calm/web-2",
    }
    await patient.run(away.command)
    assert "Namespace away" not in {finding.subject for finding in await patient.complaints(CHECK)}


async def test_an_attachment_that_does_not_exist(patient: Patient) -> None:
    await patient.pod("typo", annotations={NETWORKS: "fooo"}, ownerReferences=owned("DaemonSet", "agent"))
    found = await one(patient)
    assert (found.severity, found.subject) == (Severity.error, "DaemonSet default/agent")
    assert found.message.endswith("does not exist: default/fooo (there is default/foo)")
    assert "denies every Pod that is to replace" in found.consequence
    assert found.command == "kubectl --namespace default edit daemonset/agent"
    await patient.attachment("fooo")
    assert (await one(patient)).message.endswith("lacks example.com/nic=1 for default/fooo")


@pytest.mark.parametrize(
    ("namespace", "name", "expected"),
    [("a", "frnt", "a/front"), ("b", "front", "a/front"), ("b", "other", "")],
)
def test_the_attachment_that_was_meant(namespace: str, name: str, expected: str) -> None:
    assert Nearest(lambda: [("a", "front")]).to(namespace, name) == expected


def test_what_many_pods_miss_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def near(name: str, names: list[str]) -> str:
        asked.append(name)
        return names[0]

    monkeypatch.setattr("app.networks.why.lacking.closest", near)
    nearest = Nearest(lambda: [("a", "front")])
    assert {nearest.to("a", "frnt") for _ in range(5)} == {"a/front"}
    assert asked == ["frnt"]


async def test_a_pod_that_would_be_denied_today(patient: Patient) -> None:
    await patient.pod("broken", annotations={NETWORKS: "Not A Name"})
    found = await one(patient)
    assert found.severity is Severity.warning
    assert f"would be denied today: annotation {NETWORKS}: element 1" in found.message


async def test_files_and_labels_alone_are_a_warning(patient: Patient) -> None:
    spec = provided()
    del spec["volumes"], spec["containers"][0]["volumeMounts"]
    await patient.pod("blind", spec=spec, annotations=WANTS)
    found = await one(patient)
    assert (found.severity, found.message) == (
        Severity.warning,
        "lacks podnetinfo at /etc/podnetinfo for example.com/nic",
    )


async def test_control_switches_count_as_for_the_webhook(patient: Patient) -> None:
    await patient.pod("labeled", labels={"example.com/fast": "true"})
    assert not await patient.complaints(CHECK)
    text = (
        '{"user-defined-injections": {"example.com/fast": {"op": "add", "path": "/metadata/annotations", '
        '"value": {"k8s.v1.cni.cncf.io/networks": "foo"}}}}'
    )
    await patient.create(CONFIG_MAPS, "nri-control-switches", namespace=HOME, data={"config.json": text})
    assert (await one(patient)).message == "lacks example.com/nic=1 for default/foo"


async def test_pods_in_tenants_namespaces_without_the_affinity(patient: Patient) -> None:
    """Nobody opts out of that, and that the scheduler has named a node is no contradiction."""
    await patient.client.create(NAMESPACES, {"metadata": {"name": "tenant-a", "labels": {TENANT_LABEL: "a"}}})
    await patient.pod("loose", namespace="tenant-a", labels={"berth.dev/inject": "false"}, spec={"nodeName": "dpu-1"})
    term = {"matchExpressions": [{"key": TENANT_LABEL, "operator": "In", "values": ["a"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    await patient.pod("kept", namespace="tenant-a", spec={"affinity": {"nodeAffinity": required}})
    found = await one(patient)
    assert (found.severity, found.subject) == (Severity.error, "Pod tenant-a/loose")
    assert found.message.startswith(f"lacks the node affinity {TENANT_LABEL}=a")
    assert "another tenant" in found.consequence
    upgrade, renew = found.command.splitlines()
    assert "webhook.args.confineTenants=true" in upgrade
    assert renew == "kubectl --namespace tenant-a delete pod loose"


async def test_a_pod_that_asks_for_the_dpu_of_a_host(patient: Patient) -> None:
    await patient.pod("near", annotations={DPU_OF_HOST: "host-a"})
    found = await one(patient)
    assert found.message.startswith(f"lacks the node affinity {HOST_LABEL}=host-a")
    assert found.command == "kubectl --namespace default delete pod near"


async def test_an_owner_whose_pods_are_denied_has_none_to_show_it(patient: Patient) -> None:
    labels = {"app": "web"}
    metadata = {"labels": labels, "annotations": {NETWORKS: "fooo"}}
    template = {"metadata": metadata, "spec": {"containers": [{"name": "app", "image": "app"}]}}
    whole = {"selector": {"matchLabels": labels}, "template": template}
    for name, replicas in (("web", 1), ("off", 0)):
        await patient.create(DEPLOYMENTS, name, namespace="default", spec={**whole, "replicas": replicas})
    found = await one(patient)
    assert (found.severity, found.subject) == (Severity.error, "Deployment default/web")
    assert found.message == (
        "its Pods are denied: they select a network whose attachment does not exist: default/fooo (there is default/foo)"
    )
    assert found.command == "kubectl --namespace default edit deployment/web"
    await patient.attachment("fooo")
    assert not await patient.complaints(CHECK)


async def test_a_cluster_without_attachments(patient: Patient) -> None:
    await patient.client.delete(NETWORK_ATTACHMENTS, "foo", namespace="default")
    await patient.pod("plain")
    assert not await patient.complaints(CHECK)


def asking(resource: str) -> JSON:
    """The spec of a Pod that asks for one of a resource."""
    resources = {side: {resource: "1"} for side in ("requests", "limits")}
    return {"containers": [{"name": "app", "image": "app", "resources": resources}]}


async def test_pods_that_wait_for_what_nothing_offers(patient: Patient) -> None:
    """One that was injected with the resource of an attachment, and one that asks by itself."""
    await patient.pod("waits", spec=asking("example.com/nci"))
    for number in range(2):
        await patient.pod(f"web-{number}", spec=asking("example.com/gone"), ownerReferences=owned("ReplicaSet", "web"))
    alone, together = await patient.complaints(CHECK)
    assert (alone.code, alone.severity, alone.subject) == ("BERTH1207", Severity.error, "Pod default/waits")
    assert alone.message == "waits for example.com/nci: nothing offers it (nodes offer example.com/nic)"
    assert together.subject == "ReplicaSet default/web"
    assert together.message.startswith("2 Pods of it (web-0, web-1) wait for example.com/gone: nothing offers it")
    verdict = (await patient.why("pod/waits")).verdict
    assert alone.command == verdict.fix
    assert "kubectl --namespace default get pod waits" in alone.command
    assert together.command == "kubectl --namespace default edit replicaset/web"
    # As the device plugin announces it.
    await patient.report(NODES, "offering", {"allocatable": {"example.com/nci": "1", "example.com/gone": "2"}})
    assert await patient.complaints(CHECK) == []


async def test_the_command_for_a_resource_is_about_what_asks_for_it(patient: Patient) -> None:
    """Another attachment that the Pod selects, and that nothing offers either, is not edited for it."""
    await patient.attachment("other", resource="vendor.io/b")
    spec = asking("x.com/a")
    spec["containers"][0]["resources"]["limits"]["vendor.io/b"] = "1"
    await patient.pod("p1", annotations={NETWORKS: "other"}, spec=spec)
    commands = {found.message.split()[2]: found.command for found in await unoffered(patient)}
    assert commands["vendor.io/b:"] == (
        "kubectl --namespace default edit network-attachment-definitions.k8s.cni.cncf.io other"
        "  # then delete the Pod and create it again: it has no controller that does"
    )
    assert "get pod p1" in commands["x.com/a:"]
    assert "network-attachment" not in commands["x.com/a:"]


async def test_all_pods_of_an_owner_are_created_again_after_their_attachment_is_corrected(patient: Patient) -> None:
    await patient.attachment("typo", resource="example.com/nci")
    for name in ("rs-1", "rs-2", "rs-3"):
        owner = owned("ReplicaSet", "rs")
        await patient.pod(name, annotations={NETWORKS: "typo"}, spec=asking("example.com/nci"), ownerReferences=owner)
    (found,) = await unoffered(patient)
    correct, renew = found.command.split(" && ")
    assert correct.startswith("kubectl --namespace default annotate network-attachment-definitions")
    assert renew == "kubectl --namespace default delete pod rs-1 rs-2 rs-3"


async def unoffered(patient: Patient) -> list[Finding]:
    return [found for found in await patient.complaints(CHECK) if found.code == "BERTH1207"]


async def test_pods_that_may_start_yet_are_well(patient: Patient) -> None:
    """All devices are in use, a DeviceClass maps the resource, or the Pod has a node already."""
    await patient.pod("queued", spec=asking("example.com/nic"))
    await patient.pod("running", spec={**asking("example.com/gone"), "nodeName": "offering"})
    await patient.pod("by-name", spec=asking(f"{IMPLICIT_PREFIX}nics"))
    await patient.pod("by-class", spec=asking("example.com/mapped"))
    without = {one.subject for one in await patient.complaints(CHECK)}
    assert without == {"Pod default/by-name", "Pod default/by-class"}
    await patient.create(DEVICE_CLASSES, "nics", spec={"extendedResourceName": "example.com/mapped"})
    (hint, _) = await patient.complaints(CHECK)
    assert "DeviceClass nics maps it, and no ResourceSlice has a device of that class" in hint.message
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "nics.example.com", "pool": pool, "nodeName": "offering", "devices": [{"name": "one"}]}
    await patient.create(RESOURCE_SLICES, "slice", spec=spec)
    assert await patient.complaints(CHECK) == []


async def test_many_pods_are_read_within_bounded_memory(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many pages of Pods, all of which lack something, and no two of one owner: few are told one by one."""
    monkeypatch.setattr("app.doctor.cluster.PAGE", 50)
    made = await patient.pod("one", annotations=WANTS, spec=asking("example.com/gone"))
    padding = {"example.com/padding": "x" * 2_000}
    for number in range(1_199):
        name = f"pod-{number}"
        metadata = {**made["metadata"], "name": name, "uid": name, "annotations": {**WANTS, **padding}}
        del metadata["resourceVersion"]
        patient.cluster.storage.create(("", "pods"), {**made, "metadata": metadata})
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    found = await patient.complaints(CHECK)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert [one.code for one in found] == [*["BERTH1201"] * 200, "BERTH0004", *["BERTH1207"] * 200]
    assert found[200].message == ("1000 more Pods with similar findings: fix the above, then run the doctor again")
    # All of them at once take 15 MB; a page, at both ends of the connection, takes 2.
    assert peak < 5_000_000
