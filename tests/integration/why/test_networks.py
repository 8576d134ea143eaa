"""Why Pods have no networks, and what is wrong with attachments: over a cluster, over files, and with few rights."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.kube.client import KubeClient
from app.kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    DEVICE_CLASSES,
    JOBS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NETWORK_ATTACHMENTS,
    NODES,
    PODS,
    REPLICA_SETS,
    RESOURCE_SLICES,
    SERVICES,
)
from app.networks.checks import pods
from app.networks.model import NODE_SELECTOR
from app.why.model import State
from app.why.owners import CRON_JOBS
from tests.integration.doctor.patient import HOME, NETWORKS, RESOURCE_NAME, Patient

JSON = dict[str, Any]
AT = "2026-01-01T00:00:00Z"
INJECT = "berth.dev/inject"
OPT_OUT = {"matchExpressions": [{"key": INJECT, "operator": "NotIn", "values": ["false"]}]}
WANTS = {NETWORKS: "foo"}
RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": AT}]}
UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/1 nodes are available: 1 Insufficient nvidia.com/bf3_vf.",
            "lastTransitionTime": AT,
        }
    ],
}


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def attachment(patient: Patient) -> None:
    """And a node that offers its resource."""
    await patient.attachment("foo")
    await patient.create(NODES, "host-a", status={"allocatable": {"example.com/nic": "8"}})


async def running(patient: Patient, name: str, *, namespace: str = "default", **metadata: Any) -> None:
    await patient.pod(name, namespace=namespace, spec={"nodeName": "host-a"}, **metadata)
    await patient.report(PODS, name, RUNNING, namespace=namespace)


async def waiting(patient: Patient, name: str, resource: str, **metadata: Any) -> None:
    """A Pod that was injected, and that no node takes."""
    resources = {side: {resource: "1"} for side in ("requests", "limits")}
    mount = {"name": "podnetinfo", "readOnly": True, "mountPath": "/etc/podnetinfo"}
    container = {"name": "app", "image": "app", "resources": resources, "volumeMounts": [mount]}
    item = {"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}}
    spec = {"containers": [container], "volumes": [{"name": "podnetinfo", "downwardAPI": {"items": [item]}}]}
    await patient.pod(name, spec=spec, **metadata)
    await patient.report(PODS, name, UNSCHEDULABLE, namespace="default")


async def deployment(patient: Patient, name: str, networks: str, **labels: str) -> JSON:
    labels = {"app": name, **labels}
    template = {
        "metadata": {"labels": labels, "annotations": {NETWORKS: networks}},
        "spec": {"containers": [{"name": "app", "image": "app"}]},
    }
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    return await patient.create(DEPLOYMENTS, name, namespace="default", spec=spec)


def controlled(kind: str, owner: JSON) -> JSON:
    """The reference to who controls a Pod."""
    name, uid = owner["metadata"]["name"], owner["metadata"]["uid"]
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True}


async def replica_set(patient: Patient, made: JSON) -> JSON:
    """That of a Deployment."""
    metadata = {"ownerReferences": [controlled("Deployment", made)]}
    name, spec = f"{made['metadata']['name']}-1", {**made["spec"], "replicas": 1}
    return await patient.create(REPLICA_SETS, name, namespace="default", metadata=metadata, spec=spec)


def pod_file(networks: str, **metadata: Any) -> JSON:
    whole = {"name": "new", "annotations": {NETWORKS: networks}, **metadata}
    spec = {"containers": [{"name": "app", "image": "app"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": whole, "spec": spec}


async def test_a_pod_in_a_cluster_where_nothing_calls_berth(patient: Patient) -> None:
    await running(patient, "webhook-demo", annotations={NETWORKS: "foo, foo"})
    answer = await patient.why("pod/webhook-demo")
    verdict = answer.verdict
    assert verdict.state is State.broken
    assert verdict.text == "runs on host-a; NOT injected; it lacks example.com/nic=2 for default/foo"
    assert verdict.asks == "default/foo, 2 times -> example.com/nic: 2"
    assert verdict.because == ("no MutatingWebhookConfiguration calls Berth",)
    assert verdict.codes == ("BERTH1201", "BERTH0501")
    upgrade, renew = verdict.fix.split("\n")
    assert upgrade.startswith("helm upgrade --install")
    assert renew == "kubectl --namespace default delete pod webhook-demo"
    assert verdict.next.startswith("create it again after the command deletes it")
    assert ("Pod default/webhook-demo", "NetworkAttachmentDefinition default/foo", True) in answer.links
    assert not answer.unread


async def test_a_namespace_that_has_opted_out(patient: Patient) -> None:
    await patient.register(namespaceSelector=OPT_OUT, objectSelector=OPT_OUT)
    await patient.client.create(NAMESPACES, {"metadata": {"name": "quiet", "labels": {INJECT: "false"}}})
    await running(patient, "webhook-demo", namespace="quiet", annotations={NETWORKS: "default/foo"})
    verdict = (await patient.why("pod/webhook-demo", namespace="quiet")).verdict
    assert verdict.state is State.broken
    assert verdict.because == (
        "Berth was not asked: Namespace quiet has the label berth.dev/inject=false (namespaceSelector of pods.berth.dev)",
    )
    label, renew = verdict.fix.split("\n")
    assert (label, renew) == (
        "kubectl label namespace quiet berth.dev/inject-",
        "kubectl --namespace quiet delete pod webhook-demo",
    )
    assert verdict.codes == ("BERTH1209", "BERTH0508")
    verdict = (await patient.why("ns/quiet")).verdict
    assert (verdict.state, verdict.codes, verdict.fix) == (State.broken, ("BERTH1209", "BERTH0508"), label)
    await patient.client.delete(PODS, "webhook-demo", namespace="quiet")
    verdict = (await patient.why("ns/quiet")).verdict
    assert (verdict.state, verdict.text) == (State.fine, "is there; nothing is injected into its Pods")
    planned = (await patient.why(namespace="quiet", manifests=[pod_file("default/foo")])).verdict
    assert planned.text.startswith("would be created, NOT injected; it would lack example.com/nic=1")
    await patient.run(label)
    assert (await patient.why("ns/quiet")).verdict.text == "is there; Berth is asked about its Pods"
    planned = (await patient.why(namespace="quiet", manifests=[pod_file("default/foo")])).verdict
    assert (planned.state, planned.text) == (State.fine, "would be injected")


async def test_a_namespace_that_the_selector_leaves_out_by_its_name(patient: Patient) -> None:
    names = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["default"]}
    await patient.register(namespaceSelector={"matchExpressions": [names]})
    await running(patient, "p", annotations=WANTS)
    verdict = (await patient.why("pod/p")).verdict
    (cause,) = verdict.because
    assert cause.startswith("Berth was not asked: Namespace default does not match the namespaceSelector of ")
    assert cause.endswith("pods.berth.dev: kubernetes.io/metadata.name NotIn [default]")
    await patient.run(verdict.fix.split("\n")[0])
    assert "was not asked:" not in (await patient.why("pod/p")).verdict.because[0]


async def test_a_release_that_is_not_called_for_pods_beside_one_that_is(patient: Patient) -> None:
    """As with the values of examples/helm/appwrappers.yaml: the other release injects."""

    def of_release(release: str, plural: str, home: str) -> JSON:
        labels = {"app.kubernetes.io/part-of": "berth", "app.kubernetes.io/managed-by": "Helm"}
        labels["app.kubernetes.io/instance"] = release
        noted = {"meta.helm.sh/release-namespace": home}
        service = {"service": {"namespace": home, "name": f"{release}-webhook", "path": "/mutate"}}
        rule = {"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": [plural]}
        names = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["away"]}
        entry = {"name": f"{plural}.berth.dev", "admissionReviewVersions": ["v1"], "clientConfig": service}
        entry |= {"rules": [rule], "sideEffects": "None", "failurePolicy": "Ignore"}
        entry["namespaceSelector"] = {"matchExpressions": [names]}
        return {"metadata": {"name": release, "labels": labels, "annotations": noted}, "webhooks": [entry]}

    await patient.client.create(MUTATING_WEBHOOKS, of_release("berth", "appwrappers", HOME))
    verdict = (await patient.why("ns/default")).verdict
    assert verdict.because == ("no MutatingWebhookConfiguration calls Berth for Pods",)
    assert verdict.fix.endswith("--set webhook.webhooks.pods.enabled=true")
    assert verdict.fix.count("helm upgrade berth ") == 1
    await patient.client.create(MUTATING_WEBHOOKS, of_release("nri", "pods", "nri-system"))
    assert (await patient.why("ns/default")).verdict.text == "is there; Berth is asked about its Pods"
    assert (await patient.why(manifests=[pod_file("foo")])).verdict.text == "would be injected"
    await patient.client.create(NAMESPACES, {"metadata": {"name": "away"}})
    assert "helm upgrade nri " in (await patient.why("ns/away")).verdict.fix


@pytest.mark.parametrize("place", ["labels", "annotations"])
async def test_a_pod_that_has_opted_out_itself_is_fine(patient: Patient, place: str) -> None:
    await patient.register(objectSelector=OPT_OUT)
    await running(
        patient, "p", **{"annotations": WANTS, place: {**(WANTS if place == "annotations" else {}), INJECT: "false"}}
    )
    verdict = (await patient.why("pod/p")).verdict
    assert (verdict.state, verdict.text) == (State.fine, "runs on host-a; not injected")
    assert verdict.because == (f'the Pod has opted out: its {place[:-1]} {INJECT} is "false"',)


async def test_a_condition_that_leaves_the_pod_out(patient: Patient) -> None:
    expression = "has(object.metadata.annotations) && 'other' in object.metadata.annotations"
    await patient.register(matchConditions=[{"name": "asks-for-something", "expression": expression}])
    await running(patient, "p", annotations=WANTS)
    verdict = (await patient.why("pod/p")).verdict
    assert verdict.state is State.broken
    assert verdict.because == (
        "Berth was not asked: condition asks-for-something of pods.berth.dev leaves the Pod out",
    )
    await patient.run(verdict.fix.split("\n")[0])
    assert "leaves the Pod out" not in "".join((await patient.why("pod/p")).verdict.because)


@pytest.mark.parametrize("namespace", ["kube-system", HOME])
async def test_namespaces_in_which_nothing_is_injected(patient: Patient, namespace: str) -> None:
    await patient.register()
    await running(patient, "p", namespace=namespace, annotations={NETWORKS: "default/foo"})
    verdict = (await patient.why("pod/p", namespace=namespace)).verdict
    assert verdict.because == (f"Berth injects nothing into Pods of namespace {namespace}",)


async def test_of_a_namespace_nothing_is_said_where_registrations_may_not_be_read(patient: Patient) -> None:
    rules = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list"]}]
    await patient.bind("dev", rules, user=True)
    answer = await patient.why("ns/default", kubeconfig=patient.kubeconfig_of("dev"))
    assert (answer.verdict.state, "Berth" in answer.verdict.text) == (State.fine, False)
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]
    await patient.bind("own", rules, namespace="default", user=True)
    planned = await patient.why(manifests=[pod_file("foo")], kubeconfig=patient.kubeconfig_of("own"))
    assert (planned.verdict.state, planned.verdict.text) == (State.fine, "would be created")
    assert any("mutatingwebhookconfigurations" in text for text in answer.unread)


async def test_a_pod_that_is_older_than_the_registration_or_its_attachment(patient: Patient) -> None:
    storage = patient.cluster.storage
    storage.clock = lambda: datetime.now(UTC) - timedelta(hours=1)
    await running(patient, "old", annotations={NETWORKS: "foo"})
    await patient.client.delete(NETWORK_ATTACHMENTS, "foo", namespace="default")
    await patient.attachment("foo")
    storage.clock = lambda: datetime.now(UTC)
    await patient.register()
    (cause,) = (await patient.why("pod/old")).verdict.because
    assert cause.startswith("it was created before Berth was registered (")
    await patient.attachment("late")
    body = {"metadata": {"annotations": {NETWORKS: "late"}}}
    await patient.client.patch(PODS, "old", body, patch_type="merge", namespace="default")
    assert (await patient.why("pod/old")).verdict.because == ("attachment default/late was created after it",)


async def test_files_alone_are_lacking(patient: Patient) -> None:
    await patient.register()
    resources = {side: {"example.com/nic": "1"} for side in ("requests", "limits")}
    spec = {"nodeName": "host-a", "containers": [{"name": "app", "image": "app", "resources": resources}]}
    await patient.pod("blind", spec=spec, annotations=WANTS)
    verdict = (await patient.why("pod/blind")).verdict
    assert verdict.state is State.stuck
    assert "lacks podnetinfo at /etc/podnetinfo" in verdict.text
    assert verdict.codes == ("BERTH1202",)


async def test_a_deployment_whose_pods_are_denied_for_a_typo(patient: Patient) -> None:
    await patient.register()
    await patient.attachment("bluefield-net")
    await deployment(patient, "bf-typo", "foo, bluefeld-net@net7")
    answer = await patient.why("deployment/bf-typo")
    verdict = answer.verdict
    assert (verdict.state, verdict.text) == (State.broken, "0 of 1 Pod run")
    assert verdict.because == ("there is no attachment default/bluefeld-net; there is default/bluefield-net",)
    assert verdict.codes == ("BERTH1206",)
    await patient.run(verdict.fix)
    changed = await patient.client.get(DEPLOYMENTS, "bf-typo", namespace="default")
    assert changed["spec"]["template"]["metadata"]["annotations"] == {NETWORKS: "foo, bluefield-net@net7"}
    assert (await patient.why("deployment/bf-typo")).verdict.because == ("its Pods are not created yet",)


async def test_new_pods_that_are_denied_while_old_ones_run(patient: Patient) -> None:
    await patient.register()
    made = await deployment(patient, "web", "fooo")
    owner = controlled("ReplicaSet", await replica_set(patient, made))
    await running(patient, "web-1-a", ownerReferences=[owner])
    failure = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": "denied the request: no",
    }
    await patient.report(DEPLOYMENTS, "web", {"readyReplicas": 1, "conditions": [failure]}, namespace="default")
    verdict = (await patient.why("deployment/web")).verdict
    assert (verdict.state, verdict.text) == (State.broken, "1 of 1 Pod run, and new ones are refused")
    assert verdict.because == ("there is no attachment default/fooo; there is default/foo",)


@pytest.mark.parametrize(
    ("networks", "cause"),
    [
        ("fo", "there is no attachment default/fo; there is default/foo"),
        ("front", "there is no attachment default/front; there is other/front"),
        ('[{"name": "nothing-like-it"}]', "there is no attachment default/nothing-like-it; default has foo"),
        ("other/nothing", "there is no attachment other/nothing; other has front"),
        ("void/nothing", "there is no attachment void/nothing, and void has none"),
    ],
)
async def test_a_pod_of_a_file_that_would_be_denied(patient: Patient, networks: str, cause: str) -> None:
    await patient.register()
    await patient.client.create(NAMESPACES, {"metadata": {"name": "other"}})
    await patient.attachment("front", namespace="other")
    verdict = (await patient.why(manifests=[pod_file(networks)])).verdict
    assert (verdict.state, verdict.text) == (State.broken, "would be denied")
    assert verdict.because == (cause,)
    assert verdict.fix == ""
    assert "correct annotation" in verdict.next


async def test_a_pod_of_a_file_with_its_attachment_in_a_file(patient: Patient) -> None:
    await patient.register()
    annotations = {RESOURCE_NAME: "example.com/nic"}
    attachment = {
        "apiVersion": NETWORK_ATTACHMENTS.api_version,
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "given", "annotations": annotations},
    }
    verdict = (await patient.why(manifests=[pod_file("given"), attachment])).verdict
    assert (verdict.state, verdict.text) == (State.fine, "would be injected")
    assert verdict.asks == "default/given -> example.com/nic: 1"
    attachment["spec"] = {"config": '{"type": "host-device",}'}
    verdict = (await patient.why(manifests=[pod_file("given"), attachment])).verdict
    assert (verdict.state, verdict.fix) == (State.broken, "")
    assert "trailing comma" in verdict.because[0]


async def test_an_annotation_that_cannot_be_read(patient: Patient) -> None:
    await patient.register()
    verdict = (await patient.why(manifests=[pod_file("Not A Name")])).verdict
    assert (verdict.state, verdict.text) == (State.broken, "would be denied")
    assert "element 1" in verdict.because[0]
    await running(patient, "p", annotations={NETWORKS: "Not A Name"})
    verdict = (await patient.why("pod/p")).verdict
    assert (verdict.state, verdict.codes) == (State.stuck, ("BERTH1204",))


async def test_networks_that_a_label_injects(patient: Patient) -> None:
    entry = {"op": "add", "path": "/metadata/annotations", "value": {NETWORKS: "foo"}}
    text = json.dumps({"user-defined-injections": {"example.com/fast": entry}})
    await patient.create(CONFIG_MAPS, "nri-control-switches", namespace=HOME, data={"config.json": text})
    await patient.register()
    await running(patient, "p", labels={"example.com/fast": "true"})
    verdict = (await patient.why("pod/p")).verdict
    assert verdict.asks == "default/foo -> example.com/nic: 1"
    assert "NOT injected" in verdict.text


async def test_a_network_that_a_label_injects_and_that_does_not_exist(patient: Patient) -> None:
    entry = {"op": "add", "path": "/metadata/annotations", "value": {NETWORKS: "default/fooo"}}
    text = json.dumps({"user-defined-injections": {"example.com/fast": entry}})
    await patient.create(CONFIG_MAPS, "nri-control-switches", namespace=HOME, data={"config.json": text})
    await patient.register()
    await running(patient, "p", labels={"example.com/fast": "true"})
    verdict = (await patient.why("pod/p")).verdict
    assert verdict.because == ("there is no attachment default/fooo; there is default/foo",)
    assert verdict.fix == f"kubectl --namespace {HOME} edit configmaps nri-control-switches"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("fooo", "foo"),
        ("default/fooo@net1,  foo", "default/foo@net1,  foo"),
        ('[{"name": "fooo"}, {"name": "frnt"}]', '[{"name": "foo"}, {"name": "frnt"}]'),
        ("fooo@fooo", ""),
        ("fooo,fooo", ""),
    ],
)
async def test_names_are_corrected_where_it_is_clear_which(patient: Patient, value: str, expected: str) -> None:
    await patient.register()
    await patient.attachment("frnt")
    await deployment(patient, "web", value)
    fix = (await patient.why("deployment/web")).verdict.fix
    if not expected:
        assert fix == "kubectl --namespace default edit deployment/web"
        return
    await patient.run(fix)
    changed = await patient.client.get(DEPLOYMENTS, "web", namespace="default")
    assert changed["spec"]["template"]["metadata"]["annotations"] == {NETWORKS: expected}


async def test_a_pod_on_the_network_of_its_host(patient: Patient) -> None:
    await patient.register()
    await patient.pod("host", spec={"hostNetwork": True, "nodeName": "host-a"}, annotations=WANTS)
    await patient.report(PODS, "host", RUNNING, namespace="default")
    verdict = (await patient.why("pod/host")).verdict
    assert (verdict.state, verdict.because) == (
        State.fine,
        ("it uses the host's network: Multus attaches nothing to it",),
    )


async def test_a_resource_that_nothing_offers_over_the_deployment(patient: Patient) -> None:
    await patient.register()
    await patient.attachment("bluefield-net", resource="nvidia.com/bf3_vf")
    made = await deployment(patient, "bf-demo", "bluefield-net")
    owner = controlled("ReplicaSet", await replica_set(patient, made))
    await waiting(
        patient, "bf-demo-1-a", "nvidia.com/bf3_vf", annotations={NETWORKS: "bluefield-net"}, ownerReferences=[owner]
    )
    verdict = (await patient.why("deployment/bf-demo")).verdict
    assert (verdict.state, verdict.text) == (State.stuck, "0 of 1 Pod run; bf-demo-1-a: Pending")
    assert verdict.asks == "default/bluefield-net -> nvidia.com/bf3_vf: 1"
    assert verdict.because[0] == "nothing offers nvidia.com/bf3_vf (nodes offer example.com/nic)"
    assert verdict.codes == ("BERTH1207",)
    assert verdict.next.startswith("have default/bluefield-net ask for what nodes offer, or install the device plugin")
    edit, renew = verdict.fix.split(" && ")
    assert edit == "kubectl --namespace default edit network-attachment-definitions.k8s.cni.cncf.io bluefield-net"
    assert renew == "kubectl --namespace default rollout restart deployment/bf-demo"
    verdict = (await patient.why("net-attach-def/bluefield-net")).verdict
    assert (verdict.state, verdict.so, verdict.fix) == (State.stuck, "Pod default/bf-demo-1-a stays Pending", edit)


async def test_a_resource_with_a_typo_and_the_command_that_corrects_it(patient: Patient) -> None:
    await patient.register()
    await patient.attachment("typo", resource="example.com/nci")
    await waiting(patient, "p", "example.com/nci", annotations={NETWORKS: "typo"})
    verdict = (await patient.why("pod/p")).verdict
    assert verdict.because[0] == "nothing offers example.com/nci; there is example.com/nic"
    correct, renew = verdict.fix.split("\n")
    assert renew == "kubectl --namespace default delete pod p"
    assert verdict.next.startswith("create it again after the command deletes it")
    assert (await patient.why("net-attach-def/typo")).verdict.fix == correct
    await patient.run(correct)
    assert (await patient.why("net-attach-def/typo")).verdict.state is State.fine


async def test_a_pod_without_a_controller_is_not_deleted_over_an_attachment_that_may_stay_as_it_is(
    patient: Patient,
) -> None:
    await patient.attachment("early", resource="nvidia.com/bf3_vf")
    await waiting(patient, "p", "nvidia.com/bf3_vf", annotations={NETWORKS: "early"})
    verdict = (await patient.why("pod/p")).verdict
    assert verdict.fix == "kubectl --namespace default edit network-attachment-definitions.k8s.cni.cncf.io early"
    assert "delete the Pod and create it again" in verdict.next


async def test_of_a_cron_job_that_is_edited_and_not_its_job(patient: Patient) -> None:
    await patient.register()
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "app", "image": "app"}]}}
    spec = {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": template}}}
    nightly = await patient.create(CRON_JOBS, "nightly", namespace="default", spec=spec)
    owners = {"ownerReferences": [controlled("CronJob", nightly)]}
    job = await patient.create(JOBS, "nightly-1", namespace="default", metadata=owners, spec={"template": template})
    metadata = {"annotations": {NETWORKS: "fooo"}, "ownerReferences": [controlled("Job", job)]}
    await patient.pod("nightly-1-x", **metadata)
    verdict = (await patient.why("pod/nightly-1-x")).verdict
    assert verdict.because[0] == "there is no attachment default/fooo; there is default/foo"
    assert verdict.fix == "kubectl --namespace default edit cronjob/nightly"


async def test_more_devices_than_any_node_has(patient: Patient) -> None:
    await patient.register()
    resources = {side: {"example.com/nic": "9"} for side in ("requests", "limits")}
    await patient.pod("p", spec={"containers": [{"name": "app", "image": "app", "resources": resources}]})
    await patient.report(PODS, "p", UNSCHEDULABLE, namespace="default")
    verdict = (await patient.why("pod/p")).verdict
    assert verdict.asks == "example.com/nic: 9"
    assert verdict.because[0] == "asks for example.com/nic: 9; no node has more than host-a, which has 8"
    await patient.run(f"export EDITOR='sed -i /example.com.nic:/s/9/8/'; {verdict.fix}")
    assert (await patient.why("pod/p")).verdict.codes == ()


async def test_all_devices_in_use_is_what_the_scheduler_says(patient: Patient) -> None:
    await patient.register()
    await waiting(patient, "p", "example.com/nic", annotations=WANTS)
    verdict = (await patient.why("pod/p")).verdict
    assert len(verdict.because) == 1
    assert verdict.because[0].startswith("0/1 nodes")


async def test_a_claim_for_a_class_that_does_not_exist(patient: Patient) -> None:
    await patient.create(DEVICE_CLASSES, "fast-nics", spec={})
    metadata = {"annotations": {"berth.dev/device-class": "fast-nic"}}
    await patient.create(NETWORK_ATTACHMENTS, "net", namespace="default", metadata=metadata)
    verdict = (await patient.why("net-attach-def/net")).verdict
    assert verdict.state is State.waits
    assert verdict.because == ("nothing offers a device: there is no DeviceClass fast-nic; there is fast-nics",)
    await patient.run(verdict.fix)
    changed = await patient.client.get(NETWORK_ATTACHMENTS, "net", namespace="default")
    assert changed["metadata"]["annotations"] == {"berth.dev/device-class": "fast-nics"}


async def test_the_nodes_that_an_attachment_wants(patient: Patient) -> None:
    await patient.register()
    body = {"metadata": {"annotations": {NODE_SELECTOR: "rack=nine"}}}
    await patient.client.patch(NETWORK_ATTACHMENTS, "foo", body, patch_type="merge", namespace="default")
    verdict = (await patient.why(manifests=[pod_file("foo")])).verdict
    assert (verdict.state, verdict.text) == (State.stuck, "would be injected; would stay Pending")
    assert verdict.because == (f"no node has rack=nine, as default/foo wants it (annotation {NODE_SELECTOR})",)
    await patient.client.patch(NODES, "host-a", {"metadata": {"labels": {"rack": "nine"}}}, patch_type="merge")
    assert (await patient.why(manifests=[pod_file("foo")])).verdict.state is State.fine
    await patient.client.patch(NODES, "host-a", {"metadata": {"labels": None}}, patch_type="merge")
    for name, selector in (("injected", {"rack": "nine"}), ("bare", {})):
        container = {"name": "app", "image": "app"}
        await patient.pod(name, spec={"nodeSelector": selector, "containers": [container]}, annotations=WANTS)
        await patient.report(PODS, name, UNSCHEDULABLE, namespace="default")
        causes = (await patient.why(f"pod/{name}")).verdict.because
        assert any("rack=nine, as default/foo wants it" in cause for cause in causes) is bool(selector)


async def test_a_broken_attachment_and_the_pod_that_hangs(patient: Patient) -> None:
    config = '{"cniVersion": "1.0.0", "type": "macvlan", "master": "eth0",}'
    await patient.create(NETWORK_ATTACHMENTS, "broken-net", namespace="default", spec={"config": config})
    await patient.pod("broken-demo", spec={"nodeName": "host-a"}, annotations={NETWORKS: "broken-net"})
    verdict = (await patient.why("net-attach-def/broken-net")).verdict
    assert (verdict.state, verdict.text) == (State.broken, "is broken")
    cause, unchecked = verdict.because
    assert unchecked == "no ValidatingWebhookConfiguration has Berth check attachments"
    assert cause.startswith("spec.config: not valid JSON: JSON is malformed: trailing comma in object (byte ")
    assert verdict.so == "Multus cannot attach it: Pod default/broken-demo stays in ContainerCreating"
    assert verdict.fix.endswith("edit network-attachment-definitions.k8s.cni.cncf.io broken-net")
    assert verdict.codes == ("BERTH1101",)
    verdict = (await patient.why("pod/broken-demo")).verdict
    assert verdict.state is State.broken
    assert verdict.because[0] == f"NetworkAttachmentDefinition default/broken-net: {cause}"
    assert verdict.fix.endswith("edit network-attachment-definitions.k8s.cni.cncf.io broken-net")


async def test_an_attachment_whose_resource_no_container_can_ask_for(patient: Patient) -> None:
    await patient.attachment("net", resource="sriov_nic")
    verdict = (await patient.why("net-attach-def/net")).verdict
    assert (verdict.state, verdict.codes) == (State.stuck, ("BERTH1101",))
    assert "has no domain" in verdict.because[0]


async def test_a_deployment_that_runs_without_its_devices_is_restarted(patient: Patient) -> None:
    made = await deployment(patient, "web", "foo")
    old = await replica_set(patient, made)
    await running(patient, "web-1-a", annotations=WANTS, ownerReferences=[controlled("ReplicaSet", old)])
    await patient.register()
    verdict = (await patient.why("deployment/web")).verdict
    assert verdict.state is State.broken
    assert verdict.text.endswith("web-1-a: runs on host-a; NOT injected; it lacks example.com/nic=1 for default/foo")
    assert verdict.fix == "kubectl --namespace default rollout restart deployment/web"
    await patient.run(verdict.fix)


@pytest.mark.parametrize("value", [7, None, ["foo"], {"name": "foo"}])
async def test_a_pod_of_a_file_with_a_wrong_type_hides_no_other(patient: Patient, value: object) -> None:
    wrong = pod_file("")
    wrong["metadata"]["annotations"] = {NETWORKS: value}
    await patient.register()
    answer = await patient.why(manifests=[wrong, pod_file("foo")])
    unread = () if value is None else ("not judged",)
    assert answer.verdict.text in ("would be created", "would be injected", *unread)
    assert (await patient.why(manifests=[pod_file("foo"), wrong])).verdict.text == "would be injected"


async def test_very_many_pods_cost_a_request_for_each_attachment(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What all of them share is read once, and so is what one attachment is."""
    await patient.register()
    for number in range(5):
        await patient.attachment(f"net-{number}")
    pods = []
    for number in range(400):
        missing = ",nowhere" if number % 2 else ""
        pods.append(pod_file(f"net-{number % 5}{missing}", name=f"p-{number}"))
    requests: list[str] = []
    for method in ("get", "list_page"):
        monkeypatch.setattr(KubeClient, method, counted(getattr(KubeClient, method), requests))
    answer = await patient.why(manifests=pods)
    assert answer.verdict.state is State.fine
    # Beside the attachments: Deployments, registrations, the Namespace, switches, attachments beside, and what is offered.
    assert len(requests) <= 5 + 1 + 15, requests


def counted(method: Any, requests: list[str]) -> Any:
    def call(self: KubeClient, resource: Any, *arguments: Any, **options: Any) -> Any:
        requests.append(f"{resource.plural} {arguments} {options.get('namespace')}")
        return method(self, resource, *arguments, **options)

    return call


async def member(patient: Patient, *rules: tuple[str, str]) -> Path:
    """The kubeconfig of a user who may read these kinds, and Pods, in namespace default alone."""
    granted = [{"apiGroups": [group], "resources": [plural], "verbs": ["get", "list"]} for group, plural in rules]
    granted.append({"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list"]})
    await patient.bind("member", granted, namespace="default", user=True)
    return patient.kubeconfig_of("member")


ATTACHMENTS = (NETWORK_ATTACHMENTS.group, NETWORK_ATTACHMENTS.plural)


async def test_rights_in_one_namespace_are_enough_for_what_is_lacking(patient: Patient) -> None:
    await patient.register()
    await running(patient, "p", annotations=WANTS)
    answer = await patient.why("pod/p", kubeconfig=await member(patient, ATTACHMENTS))
    assert (answer.verdict.state, answer.verdict.codes) == (State.broken, ("BERTH1201",))
    assert "NOT injected; it lacks example.com/nic=1" in answer.verdict.text
    assert answer.verdict.because == ("Berth did not inject into it when it was created",)
    unread = "; ".join(answer.unread)
    assert "list mutatingwebhookconfigurations.admissionregistration.k8s.io" in unread
    assert "get namespaces" in unread


async def test_of_a_pod_that_has_all_it_needs_nothing_is_unread(patient: Patient) -> None:
    await patient.register()
    await waiting(patient, "p", "example.com/nic", annotations=WANTS)
    await patient.report(PODS, "p", RUNNING, namespace="default")
    granted = await member(patient, ATTACHMENTS)
    answer = await patient.why("pod/p", kubeconfig=granted)
    assert answer.verdict.asks == "default/foo -> example.com/nic: 1"
    assert answer.verdict.state is State.fine
    assert answer.unread == (f"not checked: you have no right to get configmaps in namespace {HOME}",)


async def test_what_may_not_be_read_is_not_missing(patient: Patient) -> None:
    await patient.register()
    await patient.client.create(NAMESPACES, {"metadata": {"name": "other"}})
    await patient.attachment("front", namespace="other")
    await running(patient, "p", annotations={NETWORKS: "foo,other/front"})
    await waiting(patient, "w", "example.com/gone", annotations={NETWORKS: "foo"})
    kubeconfig = await member(patient, ATTACHMENTS)
    answer = await patient.why("pod/p", kubeconfig=kubeconfig)
    assert (answer.verdict.state, answer.verdict.because) == (State.fine, ())
    assert any("in namespace other" in text for text in answer.unread)
    answer = await patient.why("pod/w", kubeconfig=kubeconfig)
    assert not any("nothing offers" in cause for cause in answer.verdict.because)
    assert any("list nodes in the whole cluster" in text for text in answer.unread)


async def test_what_may_be_got_and_not_listed(patient: Patient) -> None:
    await patient.register()
    await running(patient, "p", annotations={NETWORKS: "fooo"})
    granted = [{"apiGroups": [ATTACHMENTS[0]], "resources": [ATTACHMENTS[1]], "verbs": ["get"]}]
    granted.append({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]})
    await patient.bind("getter", granted, namespace="default", user=True)
    answer = await patient.why("pod/p", kubeconfig=patient.kubeconfig_of("getter"))
    assert answer.verdict.because == ("there is no attachment default/fooo",)
    answer = await patient.why("net-attach-def/fooo", kubeconfig=patient.kubeconfig_of("getter"))
    assert answer.verdict.because == ("there is no NetworkAttachmentDefinition fooo in default",)


async def test_a_typo_is_found_with_rights_in_one_namespace(patient: Patient) -> None:
    await deployment(patient, "web", "fooo")
    rules = (ATTACHMENTS, ("apps", "deployments"), ("apps", "replicasets"))
    answer = await patient.why("deployment/web", kubeconfig=await member(patient, *rules))
    assert answer.verdict.because == ("there is no attachment default/fooo; there is default/foo",)
    assert answer.verdict.state is State.broken


@pytest.mark.parametrize("key", ["k8s.v1.cni.cncf.io/Networks", "berth.dev/Selector"])
async def test_a_key_that_nothing_reads_is_named_with_the_one_that_was_meant(patient: Patient, key: str) -> None:
    """As `berth explain` warns of it."""
    await patient.pod("p", annotations={key: "x"})
    await patient.create(SERVICES, "s", namespace="default", metadata={"annotations": {key: "x"}}, spec={})
    for target in ("pod/p", "service/s"):
        verdict = (await patient.why(target)).verdict
        assert verdict.state is State.stuck, target
        assert f"annotation {key} is not read; did you mean {key.lower()}?" in verdict.because, target
        assert "BERTH1210" in verdict.codes
    (finding,) = await patient.complaints(pods.CHECK, scope="default")
    assert (finding.code, finding.subject) == ("BERTH1210", "Pod default/p")
    assert key.lower() in finding.message


async def test_what_dra_offers_is_named_beside_what_device_plugins_offer(patient: Patient) -> None:
    await patient.create(NODES, "n")
    await patient.report(NODES, "n", {"allocatable": {"example.com/ways": "1"}})
    for name in ("example.com/foo", "example.com/none"):
        driver = name.partition("/")[2]
        selectors = [{"cel": {"expression": f'device.driver == "{driver}.example"'}}]
        spec = {"extendedResourceName": name, "selectors": selectors}
        await patient.create(DEVICE_CLASSES, driver, spec=spec)
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "foo.example", "nodeName": "n", "pool": pool, "devices": [{"name": "d"}]}
    await patient.create(RESOURCE_SLICES, "s", spec=spec)
    await patient.attachment("net", resource="other.io/thing")
    verdict = (await patient.why("net-attach-def/net")).verdict
    assert verdict.because[0].startswith(
        "nothing offers other.io/thing (nodes offer example.com/foo, example.com/nic, example.com/ways)"
    )
