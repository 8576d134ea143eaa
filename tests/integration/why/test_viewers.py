"""What one learns who has ClusterRole view in one namespace: no nodes, devices, attachments, queues or Workloads.

Of what may not be read, what schedulers and controllers have told in conditions and Events is the cause.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from app.appwrappers.kueue.model import WORKLOADS
from app.appwrappers.model import APP_WRAPPERS, QUEUE_NAME
from app.definitions import read_definitions
from app.devtools.kueue.definitions import kueue_definitions
from app.doctor.model import Severity
from app.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NETWORK_ATTACHMENTS,
    PODS,
    REPLICA_SETS,
    RESOURCE_CLAIMS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from app.networks.checks import pods
from app.text import stamp
from app.why.model import State
from app.why.rendering import Answer
from tests.integration.doctor.patient import JSON, NETWORKS, RBAC, ROLE_BINDINGS, Patient
from tests.support.chart import Server
from tests.support.claims import ClaimsCluster, attached, entry


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def viewer(patient: Patient) -> None:
    """With the right to AppWrappers that the chart adds to ClusterRole view."""
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}
    subjects = [{"kind": "User", "apiGroup": RBAC, "name": "viewer"}]
    await patient.create(ROLE_BINDINGS, "view", namespace="default", roleRef=reference, subjects=subjects)
    rules = [{"apiGroups": [APP_WRAPPERS.group], "resources": ["appwrappers"], "verbs": ["get", "list"]}]
    await patient.bind("viewer", rules, namespace="default", user=True)
    attachments = [{"apiGroups": [NETWORK_ATTACHMENTS.group], "resources": ["*"], "verbs": ["get", "list"]}]
    await patient.bind("reader", attachments, namespace="default", user=True)
    await patient.create(
        ROLE_BINDINGS,
        "reader-view",
        namespace="default",
        roleRef=reference,
        subjects=[{**subjects[0], "name": "reader"}],
    )


async def viewed(patient: Patient, target: str) -> Answer:
    return await patient.why(target, kubeconfig=patient.kubeconfig_of("viewer"))


async def tell(patient: Patient, resource: Resource, it: JSON, reason: str, message: str, component: str = "") -> None:
    """A Warning Event of an object, which a component has recorded."""
    about = {"apiVersion": resource.api_version, "kind": resource.kind}
    about |= {key: it["metadata"][key] for key in ("name", "namespace", "uid")}
    fields = {"involvedObject": about, "reason": reason, "message": message, "type": "Warning"}
    fields |= {"source": {"component": component}, "reportingComponent": component}
    await patient.create(EVENTS, reason.lower(), namespace="default", lastTimestamp=stamp(), **fields)


async def test_a_pod_whose_networks_may_not_be_read_names_them(patient: Patient) -> None:
    pod = await patient.pod("p", annotations={NETWORKS: "foo,other/bar"}, spec={"nodeName": "n"})
    await patient.report(PODS, "p", {"phase": "Pending"}, namespace="default")
    await tell(patient, PODS, pod, "FailedCreatePodSandBox", "cannot find a network-attachment-definition (foo)")
    answer = await viewed(patient, "pod/p")
    assert (answer.verdict.state, answer.verdict.asks) == (State.stuck, "default/foo, other/bar")
    assert answer.verdict.because == ("cannot find a network-attachment-definition (foo)",)
    assert any("no right to get network-attachment-definitions" in text for text in answer.unread)


async def test_an_attachment_is_not_said_to_be_offered_where_nodes_may_not_be_read(patient: Patient) -> None:
    """`can be used` would promise what was not looked at; a Pod that waits for the device says more."""
    await patient.attachment("nic")
    reader = patient.kubeconfig_of("reader")
    answer = await patient.why("net-attach-def/nic", kubeconfig=reader)
    assert (answer.verdict.state, answer.verdict.text) == (State.fine, "has no mistake in it")
    assert answer.verdict.because == ("what nodes offer could not be read: example.com/nic may be missing",)
    assert answer.verdict.next
    assert any("no right to list nodes" in line for line in answer.unread)
    amounts = {"example.com/nic": "1"}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    await patient.pod("p", annotations={NETWORKS: "nic"}, spec={"containers": [container]})
    text = "0/2 nodes are available: 2 Insufficient example.com/nic"
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
    await patient.report(PODS, "p", {"phase": "Pending", "conditions": [condition]}, namespace="default")
    for target in ("net-attach-def/nic", "pod/p"):
        answer = await patient.why(target, kubeconfig=reader)
        assert (answer.verdict.state, answer.verdict.codes[0]) == (State.stuck, "BERTH1208"), target
        assert text in answer.verdict.because, target


async def test_nothing_is_promised_to_a_pod_that_is_not_there_yet(patient: Patient) -> None:
    await patient.attachment("nic")
    spec = {"containers": [{"name": "c", "image": "i"}]}
    pod = PODS.body({"name": "new", "namespace": "default", "annotations": {NETWORKS: "nic"}}, spec=spec)
    for user, cause in (
        ("reader", "what nodes offer could not be read: example.com/nic may be missing"),
        ("viewer", "its networks could not be read: it may be refused"),
    ):
        answer = await patient.why(manifests=[pod], kubeconfig=patient.kubeconfig_of(user))
        assert (answer.verdict.state, answer.verdict.because) == (State.fine, (cause,)), user


async def test_devices_without_network_data_as_the_controller_tells_it(patient: Patient) -> None:
    cluster = ClaimsCluster(Server(patient.kubeconfig, patient.client, patient.cluster))
    await cluster.slice("vf0")
    pod = await cluster.pod("p", "c")
    await cluster.claim("c", pod, "vf0")
    await cluster.say("p", phase="Running", conditions=[{"type": "Ready", "status": "True"}])
    await cluster.attach("p", attached("10.0.0.5"))
    assert (await viewed(patient, "pod/p")).verdict.state is State.fine
    text = "claim c, device vf0: no entry is left for a device"
    await tell(patient, PODS, pod, "NetworkDataUnmatched", text)
    for target in ("pod/p", "resourceclaim/c"):
        answer = await viewed(patient, target)
        assert (answer.verdict.state, answer.verdict.because[-1]) == (State.stuck, text)
        assert any("no right to list resourceslices" in line for line in answer.unread)
    await cluster.apply("c", [entry("vf0", networkData={"interfaceName": "net1", "ips": ["10.0.0.5/24"]})])
    assert (await viewed(patient, "pod/p")).verdict.state is State.fine


async def test_a_claim_whose_class_may_not_be_read_says_what_the_scheduler_says(patient: Patient) -> None:
    requests = [{"name": "r", "exactly": {"deviceClassName": "vf"}}]
    await patient.create(RESOURCE_CLAIMS, "c", namespace="default", spec={"devices": {"requests": requests}})
    text = "0/3 nodes are available: 3 cannot allocate all claims"
    await patient.pod("p", spec={"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]})
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
    await patient.report(PODS, "p", {"phase": "Pending", "conditions": [condition]}, namespace="default")
    answer = await viewed(patient, "resourceclaim/c")
    assert (answer.verdict.state, answer.verdict.because, answer.verdict.next) == (State.stuck, (text,), "")
    assert any("no right to get deviceclasses" in line for line in answer.unread)
    answer = await viewed(patient, "pod/p")
    assert (answer.verdict.state, answer.verdict.codes[0]) == (State.stuck, "BERTH1208")
    assert text in answer.verdict.because


async def test_a_service_whose_attachment_may_not_be_read(patient: Patient) -> None:
    metadata = {"annotations": {"berth.dev/network": "default/foo", "berth.dev/selector": "a=b"}}
    spec = {"clusterIP": "None", "ports": [{"port": 80}]}
    service = await patient.create(SERVICES, "s", namespace="default", metadata=metadata, spec=spec)
    await patient.pod("p", labels={"a": "b"}, annotations={NETWORKS: "foo"})
    assert (await viewed(patient, "service/s")).verdict.state is State.waits
    await tell(patient, SERVICES, service, "AttachmentNotFound", "there is no attachment default/foo")
    answer = await viewed(patient, "service/s")
    assert (answer.verdict.state, answer.verdict.because[0]) == (State.broken, "there is no attachment default/foo")
    assert answer.verdict.codes[0] == "BERTH5020"


TEMPLATE: JSON = {
    "metadata": {"labels": {"a": "b"}, "annotations": {NETWORKS: "other/foo"}},
    "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"},
}
DENIED = "could not find network attachment definition 'other/foo'"


async def making(patient: Patient, resource: Resource, name: str, owner: JSON | None = None, **spec: Any) -> JSON:
    """What makes Pods whose networks its user may not read."""
    template = TEMPLATE
    if resource != JOBS:
        template = {**TEMPLATE, "spec": {"containers": TEMPLATE["spec"]["containers"]}}
        spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, **spec}
    metadata = {"ownerReferences": [owner]} if owner else {}
    return await patient.create(
        resource, name, namespace="default", spec={**spec, "template": template}, metadata=metadata
    )


@pytest.mark.parametrize(
    ("reason", "component"),
    [("FailedCreate", "replicaset-controller"), ("AttachmentNotFound", "berth-webhook")],
)
@pytest.mark.parametrize("resource", [DEPLOYMENTS, STATEFUL_SETS, JOBS])
async def test_what_makes_pods_that_are_denied_says_what_events_tell(
    patient: Patient, resource: Resource, reason: str, component: str
) -> None:
    made = await making(patient, resource, "web", **({"serviceName": "s"} if resource == STATEFUL_SETS else {}))
    told = resource
    if resource == DEPLOYMENTS:
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "controller": True, "name": "web"}
        owner["uid"] = made["metadata"]["uid"]
        made, told = await making(patient, REPLICA_SETS, "web-1", owner), REPLICA_SETS
    target = f"{resource.kind.lower()}/web"
    assert (await viewed(patient, target)).verdict.state is State.waits
    await tell(patient, told, made, reason, DENIED, component)
    verdict = (await viewed(patient, target)).verdict
    assert (verdict.state, verdict.because) == (State.broken, (f"its Pods are refused: {DENIED}",))
    [finding] = [
        finding
        for finding in await patient.complaints(pods.CHECK, kubeconfig=patient.kubeconfig_of("viewer"), scope="default")
        if finding.severity is Severity.error
    ]
    assert (finding.code, finding.subject) == ("BERTH1206", f"{resource.kind} default/web")
    assert DENIED in finding.message


async def test_a_pod_that_the_webhook_left_alone_was_not_denied(patient: Patient) -> None:
    job = await making(patient, JOBS, "web")
    await tell(patient, JOBS, job, "HostNetwork", "the Pod uses the host's network", "berth-webhook")
    assert (await viewed(patient, "job/web")).verdict.state is State.waits


async def test_one_whose_further_pods_are_denied_says_so_while_the_first_run(patient: Patient) -> None:
    web = await making(patient, STATEFUL_SETS, "web", serviceName="s", replicas=2)
    controller = {"apiVersion": "apps/v1", "kind": "StatefulSet", "controller": True, "name": "web"}
    controller["uid"] = web["metadata"]["uid"]
    await patient.pod("web-0", spec={"nodeName": "n"}, ownerReferences=[controller])
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await patient.report(PODS, "web-0", ready, namespace="default")
    await patient.report(STATEFUL_SETS, "web", {"replicas": 1, "readyReplicas": 1}, namespace="default")
    assert (await viewed(patient, "statefulset/web")).verdict.state is State.waits
    await tell(patient, STATEFUL_SETS, web, "AttachmentNotFound", DENIED, "berth-webhook")
    verdict = (await viewed(patient, "statefulset/web")).verdict
    assert (verdict.state, verdict.because) == (State.broken, (f"its Pods are refused: {DENIED}",))
    patient.later = timedelta(hours=1)  # a controller that is still refused would have told it again
    assert (await viewed(patient, "statefulset/web")).verdict.state is State.waits


async def test_an_app_wrapper_whose_job_gets_no_pods_says_why(patient: Patient) -> None:
    for body in (*read_definitions((APP_WRAPPERS,)), *kueue_definitions()):
        await patient.client.create(CUSTOM_RESOURCE_DEFINITIONS, body)
    job = await making(patient, JOBS, "train-job")
    template = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train-job"}, "spec": {}}
    await patient.create(APP_WRAPPERS, "train", namespace="default", spec={"components": [{"template": template}]})
    component = {"apiVersion": "batch/v1", "kind": "Job", "name": "train-job", "podSets": []}
    await patient.report(
        APP_WRAPPERS, "train", {"phase": "Running", "componentStatus": [component]}, namespace="default"
    )
    assert (await viewed(patient, "appwrapper/train")).verdict.state is State.waits
    await tell(patient, JOBS, job, "AttachmentNotFound", DENIED, "berth-webhook")
    verdict = (await viewed(patient, "appwrapper/train")).verdict
    assert (verdict.state, verdict.codes) == (State.broken, ("BERTH4013", "BERTH1206"))
    assert verdict.because == ("Job default/train-job: 0 of 1 Pod run", f"its Pods are refused: {DENIED}")


async def test_an_app_wrapper_whose_workload_may_not_be_read_says_what_kueue_says_of_it(patient: Patient) -> None:
    for body in (*read_definitions((APP_WRAPPERS,)), *kueue_definitions()):
        await patient.client.create(CUSTOM_RESOURCE_DEFINITIONS, body)
    metadata = {"labels": {QUEUE_NAME: "queue"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}
    spec = {"suspend": True, "components": [{"template": pod}]}
    await patient.create(APP_WRAPPERS, "train", namespace="default", metadata=metadata, spec=spec)
    for name, text in (("appwrapper-train-1ec00", "insufficient unused quota for cpu"), ("appwrapper-train-2-a", "x")):
        workload = {"metadata": {"name": name, "namespace": "default", "uid": name}}
        await tell(patient, WORKLOADS, workload, f"Pending{len(name)}", text)
    answer = await viewed(patient, "appwrapper/train")
    assert answer.verdict.state is State.waits
    unread = "whether LocalQueue queue exists in default could not be read"
    assert answer.verdict.because == (unread, "insufficient unused quota for cpu")
    assert any("localqueues.kueue.x-k8s.io" in line for line in answer.unread)


@pytest.mark.parametrize("reason", ["Misconfigured", "Inadmissible"])
async def test_a_queue_that_may_not_be_read_is_missing_where_the_workload_says_so(
    patient: Patient, reason: str
) -> None:
    for body in (*read_definitions((APP_WRAPPERS,)), *kueue_definitions()):
        await patient.client.create(CUSTOM_RESOURCE_DEFINITIONS, body)
    rules = [{"apiGroups": [WORKLOADS.group], "resources": ["workloads"], "verbs": ["get", "list"]}]
    await patient.bind("viewer", rules, namespace="default", name="workloads", user=True)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}
    spec = {"suspend": True, "components": [{"template": pod}]}
    metadata = {"labels": {QUEUE_NAME: "queue"}}
    train = await patient.create(APP_WRAPPERS, "train", namespace="default", metadata=metadata, spec=spec)
    owner = {"apiVersion": APP_WRAPPERS.api_version, "kind": "AppWrapper", "name": "train"}
    metadata = {"ownerReferences": [{**owner, "uid": train["metadata"]["uid"]}]}
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    spec = {"queueName": "queue", "podSets": [{"name": "a", "count": 1, "template": template}]}
    await patient.create(WORKLOADS, "w", namespace="default", spec=spec, metadata=metadata)
    verdict = (await viewed(patient, "appwrapper/train")).verdict
    assert verdict.state is State.waits
    assert "whether LocalQueue queue exists in default could not be read" in verdict.because
    text = "LocalQueue queue doesn't exist"
    said = {
        "type": "QuotaReserved",
        "status": "False",
        "reason": reason,
        "message": text,
        "lastTransitionTime": stamp(),
    }
    await patient.report(WORKLOADS, "w", {"conditions": [said]}, namespace="default")
    verdict = (await viewed(patient, "appwrapper/train")).verdict
    assert (verdict.state, verdict.because, verdict.codes) == (State.stuck, (text,), ("BERTH4012",))
