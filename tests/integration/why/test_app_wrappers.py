"""Why AppWrappers wait, hang or fail, down to the queue, the quota and the Pod."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from app.appwrappers import checks
from app.appwrappers.kueue.model import CLUSTER_QUEUES, LOCAL_QUEUES, LOCAL_QUEUES_V1BETA1, WORKLOADS
from app.appwrappers.model import APP_WRAPPER, APP_WRAPPERS, FINALIZER, QUEUE_NAME
from app.appwrappers.why import app_wrappers
from app.definitions import read_definitions
from app.devtools.kueue.definitions import kueue_definitions
from app.doctor.model import Severity
from app.doctor.objects import BY_CHART
from app.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    PODS,
    Resource,
    controller_reference,
)
from app.why.model import State, Verdict
from app.why.rendering import Answer
from tests.integration.doctor.patient import HOME, Patient
from tests.integration.doctor.test_app_wrappers import kueue

JSON = dict[str, Any]
AT = "2026-01-01T00:00:00Z"
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def kinds(patient: Patient) -> None:
    for body in (*read_definitions((APP_WRAPPERS,)), *kueue_definitions()):
        await patient.client.create(CUSTOM_RESOURCE_DEFINITIONS, body)


def condition(kind: str, status: str = "True", reason: str = "Because", message: str = "") -> JSON:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": AT}


async def queues(patient: Patient, **spec: Any) -> None:
    """LocalQueue `user-queue` of ClusterQueue `all`, which has 4 CPUs."""
    flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    await patient.create(CLUSTER_QUEUES, "all", spec={"resourceGroups": groups, "namespaceSelector": {}} | spec)
    await patient.create(LOCAL_QUEUES, "user-queue", namespace="default", spec={"clusterQueue": "all"})


async def wrapped(patient: Patient, name: str = "train", queue: str = "user-queue", **status: Any) -> JSON:
    labels = {QUEUE_NAME: queue} if queue else {}
    spec = {"suspend": not status or status.get("phase") == "Suspended", "components": [{"template": POD}]}
    obj = await patient.create(APP_WRAPPERS, name, namespace="default", spec=spec, metadata={"labels": labels})
    if status:
        await patient.report(APP_WRAPPERS, name, status, namespace="default")
    return obj


async def workload(patient: Patient, owner: JSON, *, cpu: str = "3", queue: str = "user-queue", **status: Any) -> None:
    name = f"appwrapper-{owner['metadata']['name']}"
    reference = {
        "apiVersion": APP_WRAPPERS.api_version,
        "kind": "AppWrapper",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    spec = {"podSets": [{"name": "a", "count": 1, "template": template}]} | ({"queueName": queue} if queue else {})
    await patient.create(WORKLOADS, name, namespace="default", spec=spec, metadata={"ownerReferences": [reference]})
    if status:
        await patient.report(WORKLOADS, name, status, namespace="default")


def admission(cpu: str) -> JSON:
    assignment = {"name": "a", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": cpu}, "count": 1}
    return {
        "admission": {"clusterQueue": "all", "podSetAssignments": [assignment]},
        "conditions": [condition("QuotaReserved"), condition("Admitted")],
    }


async def test_a_queue_that_is_missing_and_the_one_that_was_meant(patient: Patient) -> None:
    await queues(patient)
    await wrapped(patient, queue="usr-queue")
    verdict = (await patient.why("appwrapper/train")).verdict
    assert (verdict.state, verdict.text) == (State.stuck, "New, will never run")
    assert verdict.because == ("there is no LocalQueue usr-queue in default; there is user-queue",)
    assert verdict.codes == ("BERTH4012",)
    await patient.run(verdict.fix)
    verdict = (await patient.why("appwrapper/train")).verdict
    assert verdict.state is State.waits


async def test_one_that_waits_for_quota_says_how_much_and_who_holds_it(patient: Patient) -> None:
    await queues(patient)
    await workload(patient, await wrapped(patient, "hog"), **admission("3"))
    used = {"name": "default", "resources": [{"name": "cpu", "total": "3", "borrowed": "0"}]}
    await patient.report(CLUSTER_QUEUES, "all", {"flavorsReservation": [used], "flavorsUsage": [used]})
    text = "couldn't assign flavors to pod set a: insufficient unused quota for cpu in flavor default, 2 more needed"
    conditions = [condition("QuotaReserved", "False", "Pending", text)]
    await workload(patient, await wrapped(patient, phase="Suspended"), conditions=conditions)
    answer = await patient.why("aw", "train")
    verdict = answer.verdict
    assert (verdict.state, verdict.text) == (State.waits, "Suspended, waits for quota")
    assert verdict.asks == "cpu 3 (1 Pod); queue user-queue -> all: 4 in all, 1 free in default; place 1 of 1"
    assert verdict.because == ("AppWrapper default/hog holds cpu 3", text)
    assert verdict.next
    assert not answer.unread
    assert ("AppWrapper default/train", "Workload default/appwrapper-train", True) in answer.links


@pytest.mark.parametrize(
    ("reason", "text"), [("ExceedsMaxQuota", "insufficient quota for cpu"), ("NoMatchingFlavor", "no flavor matches")]
)
async def test_one_that_no_quota_will_ever_fit_is_stuck(patient: Patient, reason: str, text: str) -> None:
    await queues(patient)
    conditions = [condition("QuotaReserved", "False", reason, text)]
    await workload(patient, await wrapped(patient, phase="Suspended"), conditions=conditions)
    verdict = (await patient.why("appwrapper/train")).verdict
    assert (verdict.state, verdict.because) == (State.stuck, (text,))
    assert verdict.codes == ("BERTH4012",)
    assert "clusterqueues" in verdict.fix


TOO_MUCH = "couldn't assign flavors to pod set a: insufficient quota for cpu in flavor default, request > maximum capacity (9 > 4)"


ANYWHERE = (
    f"{TOO_MUCH}, untolerated taint {{spot true NoSchedule <nil>}} in flavor spot, "
    "insufficient quota for cpu in flavor arm, previously considered podsets requests (0) + "
    "current podset request (9) > maximum capacity (4)"
)


@pytest.mark.parametrize(
    ("reason", "text"),
    [("ExceedsMaxQuota", "insufficient quota for cpu"), ("Pending", TOO_MUCH), ("Pending", ANYWHERE)],
)
async def test_queues_name_the_workload_that_they_never_admit(patient: Patient, reason: str, text: str) -> None:
    """The queue is not the reason why others wait."""
    await queues(patient)
    words = ("localqueue/user-queue", "clusterqueue/all")
    for word in words:
        assert (await patient.why(word)).verdict.state is State.fine
    free = "insufficient unused quota for cpu in flavor default, 2 more needed"
    topology = 'topology "racks" doesn\'t allow to fit any of 2 pod(s)'
    made = await wrapped(patient, "patient", phase="Suspended")
    await workload(patient, made)
    for held in (f"{topology}, {TOO_MUCH}", f"{TOO_MUCH}, flavor new is being created", f"{free}; {TOO_MUCH}"):
        conditions = [condition("QuotaReserved", "False", "Pending", held)]
        await patient.report(WORKLOADS, "appwrapper-patient", {"conditions": conditions}, namespace="default")
        for word in words:
            assert (await patient.why(word)).verdict.state is State.fine
    conditions = [condition("QuotaReserved", "False", reason, text)]
    await workload(patient, await wrapped(patient, phase="Suspended"), cpu="9", conditions=conditions)
    for word in words:
        verdict = (await patient.why(word)).verdict
        assert (verdict.state, verdict.text.partition("; ")[2]) == (State.stuck, "1 Workload can never be admitted")
        assert verdict.because == (f"Workload default/appwrapper-train (AppWrapper default/train): {text}",)
        assert "edit clusterqueues" in verdict.fix
        assert verdict.next
    assert (await patient.why("appwrapper/train")).verdict.state is State.stuck
    verdict = (await patient.why("appwrapper/patient")).verdict
    assert (verdict.state, verdict.text) == (State.waits, "Suspended, waits for quota")
    new = {
        "apiVersion": APP_WRAPPERS.api_version,
        "kind": "AppWrapper",
        "metadata": {"name": "new", "labels": {QUEUE_NAME: "user-queue"}},
    }
    new["spec"] = {"suspend": True, "components": [{"template": POD}]}
    assert (await patient.why(manifests=[new])).verdict.state is State.fine


@pytest.mark.parametrize("where", ["local", "cluster"])
async def test_a_queue_that_is_stopped_is_named_with_the_command_that_starts_it(patient: Patient, where: str) -> None:
    await queues(patient, **({"stopPolicy": "Hold"} if where == "cluster" else {}))
    if where == "local":
        body = {"spec": {"stopPolicy": "HoldAndDrain"}}
        await patient.client.patch(LOCAL_QUEUES, "user-queue", body, patch_type="merge", namespace="default")
    await workload(patient, await wrapped(patient, phase="Suspended"))
    verdict = (await patient.why("appwrapper/train")).verdict
    assert verdict.state is State.stuck
    assert any("spec.stopPolicy is Hold" in cause for cause in verdict.because)
    name = "ClusterQueue all" if where == "cluster" else "LocalQueue default/user-queue"
    assert verdict.next == f"an admin has stopped {name}: the admin decides whether the command may start it again"
    await patient.run(verdict.fix)
    assert (await patient.why("appwrapper/train")).verdict.state is State.waits


async def test_a_cluster_queue_that_is_missing(patient: Patient) -> None:
    await patient.create(LOCAL_QUEUES, "user-queue", namespace="default", spec={"clusterQueue": "al"})
    await patient.create(CLUSTER_QUEUES, "all", spec={})
    await workload(patient, await wrapped(patient, phase="Suspended"))
    verdict = (await patient.why("appwrapper/train")).verdict
    assert verdict.state is State.stuck
    assert verdict.because[-1] == "there is no ClusterQueue al; there is all"


async def test_an_admission_check_that_holds_it(patient: Patient) -> None:
    await queues(patient)
    check = {"name": "provision", "state": "Pending", "message": "no nodes yet", "lastTransitionTime": AT}
    status = {"conditions": [condition("QuotaReserved")], "admissionChecks": [check]}
    await workload(patient, await wrapped(patient, phase="Suspended"), **status)
    verdict = (await patient.why("appwrapper/train")).verdict
    assert (verdict.state, verdict.because) == (State.waits, ("check provision: Pending: no nodes yet",))


async def test_one_without_a_queue_waits_for_its_user(patient: Patient) -> None:
    await wrapped(patient, queue="")
    verdict = (await patient.why("appwrapper/train")).verdict
    assert verdict.state is State.waits
    await patient.run(verdict.fix)


async def test_one_without_a_workload_is_stuck_after_a_while(patient: Patient) -> None:
    await queues(patient)
    await wrapped(patient)
    assert (await patient.why("appwrapper/train")).verdict.state is State.waits
    patient.later = timedelta(minutes=10)
    verdict = (await patient.why("appwrapper/train")).verdict
    assert (verdict.state, verdict.codes, verdict.fix) == (State.stuck, ("BERTH4006",), "")
    assert verdict.next.startswith("have managedJobsNamespaceSelector in the configuration of Kueue select")
    await controller(patient, "berth", "--controllers=appwrappers", namespace=HOME)
    await kueue(patient, "batch/job")
    verdict = (await patient.why("appwrapper/train")).verdict
    assert verdict.because[-1] == "controller appwrapper-workloads does not run"
    assert "appwrapper-workloads,appwrappers" in verdict.fix


async def test_a_pod_that_crashes_is_named_although_no_condition_says_so(patient: Patient) -> None:
    await wrapped(
        patient, queue="", phase="Running", conditions=[condition("PodsReady"), condition("Unhealthy", "False")]
    )
    await patient.pod("p", labels={APP_WRAPPER: "train"}, spec={"nodeName": "n"})
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    ended = {"terminated": {"exitCode": 3, "reason": "Error"}}
    container = {"name": "app", "image": "", "imageID": "", "ready": False, "restartCount": 4}
    container |= {"state": state, "lastState": ended}
    await patient.report(PODS, "p", {"phase": "Running", "containerStatuses": [container]}, namespace="default")
    verdict = (await patient.why("appwrapper/train")).verdict
    assert (verdict.state, verdict.text) == (State.broken, "Running, not ready")
    assert verdict.because == (
        "Pod default/p: runs, and is not ready: CrashLoopBackOff",
        "container app: back-off 10s: container app ended with exit code 3",
    )
    assert verdict.more == "kubectl --namespace default logs p --container=app --previous"
    # Its other Pods may be well: nothing that deletes these.
    assert verdict.fix == ""
    assert verdict.next.startswith("its controller deletes and creates its objects again until its retries are used")


async def test_one_that_runs_unhealthy_has_no_command_that_deletes_it(patient: Patient) -> None:
    text = "1 failed pods: Pod p: container c: exit code 3"
    await wrapped(patient, queue="", phase="Running", conditions=[condition("Unhealthy", message=text)])
    verdict = (await patient.why("appwrapper/train")).verdict
    assert (verdict.state, verdict.text, verdict.fix) == (State.broken, "Running, unhealthy", "")
    assert verdict.next


async def test_one_that_failed_keeps_its_cause_after_its_pods_are_gone(patient: Patient) -> None:
    text = "1 failed pods: Pod p: container c: exit code 3; not retried: 1 of 1 retries are used"
    await wrapped(patient, queue="", phase="Failed", conditions=[condition("Unhealthy", message=text)])
    verdict = (await patient.why("appwrapper/train")).verdict
    assert (verdict.state, verdict.text, verdict.because) == (State.broken, "Failed", (text,))
    assert "deletes the AppWrapper with all its objects" in verdict.next
    before = await patient.client.get(APP_WRAPPERS, "train", namespace="default")
    await patient.run(f"export EDITOR=true; if {verdict.fix}; then exit 1; fi")
    assert await patient.client.get(APP_WRAPPERS, "train", namespace="default") == before
    await patient.run(f"export EDITOR='sed -i s/containers/initContainers/'; {verdict.fix}")
    after = await patient.client.get(APP_WRAPPERS, "train", namespace="default")
    assert before["metadata"]["uid"] != after["metadata"]["uid"]
    assert "initContainers" in after["spec"]["components"][0]["template"]["spec"]
    assert (await patient.why("appwrapper/train")).verdict.state is State.waits


async def test_one_that_is_created_again_has_nothing_of_its_admission(patient: Patient) -> None:
    infos = [{"nodeSelector": {"zone": "a"}}]
    spec = {"suspend": False, "components": [{"template": POD}, {"template": POD, "podSetInfos": infos}]}
    await patient.create(APP_WRAPPERS, "train", namespace="default", spec=spec)
    await patient.report(APP_WRAPPERS, "train", {"phase": "Failed"}, namespace="default")
    await patient.run((await patient.why("appwrapper/train")).verdict.fix)
    after = await patient.client.get(APP_WRAPPERS, "train", namespace="default")
    assert "podSetInfos" not in after["spec"]["components"][1]
    assert not after["spec"].get("suspend")


async def test_one_that_is_deleted_without_its_controller_has_a_way_out(patient: Patient) -> None:
    await wrapped(patient, queue="")
    body = {"metadata": {"finalizers": ["example.com/billing", FINALIZER]}}
    await patient.client.patch(APP_WRAPPERS, "train", body, patch_type="merge", namespace="default")
    await patient.client.delete(APP_WRAPPERS, "train", namespace="default")
    verdict = (await patient.why("appwrapper/train")).verdict
    assert (verdict.state, verdict.codes) == (State.stuck, ("BERTH4011",))
    assert verdict.more == "kubectl --namespace default get pod/p"
    await patient.run(verdict.fix)
    # That of another stays.
    left = (await patient.client.get(APP_WRAPPERS, "train", namespace="default"))["metadata"]["finalizers"]
    assert left == ["example.com/billing"]
    verdict = (await patient.why("appwrapper/train")).verdict
    assert (verdict.fix, verdict.because) == ("", ("finalizer example.com/billing",))


async def test_a_name_that_is_not_there_and_the_one_that_was_meant(patient: Patient) -> None:
    await wrapped(patient, queue="")
    answer = await patient.why("appwrapper/trian")
    assert answer.verdict.because == ("there is no AppWrapper trian in default; there is train",)
    assert answer.verdict.fix == "berth why appwrapper/train -n default"


async def deleted(patient: Patient) -> None:
    """An AppWrapper that is deleted for 10 minutes, and that its finalizer holds."""
    await wrapped(patient, queue="")
    body = {"metadata": {"finalizers": [FINALIZER]}}
    await patient.client.patch(APP_WRAPPERS, "train", body, patch_type="merge", namespace="default")
    await patient.client.delete(APP_WRAPPERS, "train", namespace="default")
    patient.later = timedelta(minutes=10)


async def controller(
    patient: Patient, release: str, *arguments: str, namespace: str = "elsewhere", labels: bool = True
) -> None:
    """A Deployment of the role `controller` in a release, and namespace, of its own; or of no chart."""
    marks = {"app.kubernetes.io/part-of": "berth", "app.kubernetes.io/component": "controller"}
    marks |= {"app.kubernetes.io/instance": release}
    if namespace != HOME:
        await patient.create(NAMESPACES, namespace)
    container = {"name": "c", "image": "image", "args": ["controller", *arguments]}
    template = {"metadata": {"labels": {"app": release}}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": {"app": release}}, "template": template}
    metadata = {"labels": marks if labels else {}}
    await patient.create(DEPLOYMENTS, f"{release}-controller", namespace=namespace, spec=spec, metadata=metadata)


async def asked_by_a_user(patient: Patient) -> Answer:
    """The answer for one who may read everything in namespace `default`, and nothing else."""
    await patient.bind(
        "dev", [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}], namespace="default", user=True
    )
    return await patient.why("appwrapper/train", kubeconfig=patient.kubeconfig_of("dev"))


@pytest.mark.parametrize("labels", [True, False], ids=["chart", "plain"])
async def test_a_controller_of_another_release_removes_the_finalizer(patient: Patient, *, labels: bool) -> None:
    await controller(patient, "berth", namespace=HOME)
    await controller(patient, "berth-appwrappers", "--controllers=appwrappers", labels=labels)
    await deleted(patient)
    verdict = (await patient.why("appwrapper/train")).verdict
    assert (verdict.state, verdict.because, verdict.fix) == (State.waits, ("its objects are deleted first",), "")


async def test_one_of_a_release_that_is_scaled_to_0_does_not(patient: Patient) -> None:
    await controller(patient, "berth-appwrappers", "--controllers=appwrappers")
    body = {"spec": {"replicas": 0}}
    name = "berth-appwrappers-controller"
    await patient.client.patch(DEPLOYMENTS, name, body, patch_type="merge", namespace="elsewhere")
    await deleted(patient)
    patient.later = timedelta(0)
    verdict = (await patient.why("appwrapper/train")).verdict
    assert (verdict.state, verdict.codes) == (State.stuck, ("BERTH4011",))
    named = f"controller appwrappers removes finalizer {FINALIZER}, and Deployment elsewhere/{name} has 0 replicas"
    assert verdict.because == (named,)
    assert verdict.fix == f"kubectl --namespace elsewhere scale deployment/{name} --replicas=2"
    (finding,) = [finding for finding in await patient.examine(checks.CHECK) if finding.code == "BERTH4011"]
    assert finding.command == verdict.fix
    await patient.run(verdict.fix)
    assert (await patient.why("appwrapper/train")).verdict.state is State.waits


async def test_a_controller_that_may_not_be_seen_is_not_said_to_be_missing(patient: Patient) -> None:
    await deleted(patient)
    answer = await asked_by_a_user(patient)
    assert (answer.verdict.state, answer.verdict.fix) == (State.waits, "")
    assert "not checked: you have no right to list deployments.apps in the whole cluster" in answer.unread


async def test_a_new_one_waits_for_a_controller_that_may_not_be_seen(patient: Patient) -> None:
    spec = {"components": [{"template": POD}]}
    await patient.create(APP_WRAPPERS, "train", namespace="default", spec=spec)
    patient.later = timedelta(minutes=10)
    assert (await patient.why("appwrapper/train")).verdict.codes == ("BERTH4011",)
    assert (await asked_by_a_user(patient)).verdict.state is State.waits


async def test_the_wrapped_kinds_are_those_of_all_releases_and_unread_no_reason(patient: Patient) -> None:
    template = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    spec = {"components": [{"template": template}]}
    await patient.create(APP_WRAPPERS, "train", namespace="default", spec=spec)
    verdict = (await patient.why("appwrapper/train")).verdict
    assert verdict.codes == ("BERTH4007",)
    assert verdict.fix == ""
    assert verdict.next.endswith("the API server serves no widget.example.com")
    assert (await asked_by_a_user(patient)).verdict.state is State.waits
    await controller(patient, "berth", namespace=HOME)
    words = ("--controllers=appwrappers", "--wrapped-kinds=widgets.example.com")
    await controller(patient, "berth-appwrappers", *words)
    assert (await patient.why("appwrapper/train")).verdict.state is State.waits


def definition(plural: str, kind: str, scope: str) -> JSON:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    spec = {"group": "example.com", "names": names, "scope": scope, "versions": [version]}
    return {"metadata": {"name": f"{plural}.example.com"}, "spec": spec}


async def of_kind(patient: Patient, api_version: str, kind: str) -> Verdict:
    template = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w"}}
    metadata = {"name": "train", "namespace": "default"}
    manifest = {"apiVersion": APP_WRAPPERS.api_version, "kind": "AppWrapper", "metadata": metadata}
    manifest |= {"spec": {"components": [{"template": template}]}}
    return (await patient.why(manifests=[manifest])).verdict


async def test_a_namespaced_kind_is_added_to_the_release_that_is_seen_by_its_own_plural(patient: Patient) -> None:
    await patient.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition("mice", "Mouse", "Namespaced"))
    verdict = await of_kind(patient, "example.com/v1", "Mouse")
    assert (verdict.codes, verdict.fix) == (("BERTH4007",), "")  # no release is seen
    assert verdict.next == "an admin decides whether the controller may create mice.example.com of every tenant"
    words = ("--controllers=appwrappers", "--wrapped-kinds=pods")
    await controller(patient, "berth", *words, namespace=HOME)
    body = {"metadata": {"labels": {BY_CHART: "berth-1"}}}
    await patient.client.patch(DEPLOYMENTS, "berth-controller", body, patch_type="merge", namespace=HOME)
    verdict = await of_kind(patient, "example.com/v1", "Mouse")
    assert verdict.fix.startswith("helm upgrade berth charts/berth --namespace berth-system --reset-then-reuse-values")
    assert verdict.fix.endswith("'controller.args.wrappedKinds={pods,mice.example.com}'")
    verdict = await of_kind(patient, "networking.k8s.io/v1", "NetworkPolicy")
    assert verdict.fix.endswith(",networkpolicies.networking.k8s.io}'")
    body = [
        {
            "op": "replace",
            "path": "/spec/template/spec/containers/0/args/2",
            "value": "--wrapped-kinds=mice.example.com",
        }
    ]
    await patient.client.patch(DEPLOYMENTS, "berth-controller", body, patch_type="json", namespace=HOME)
    assert (await of_kind(patient, "example.com/v1", "Mouse")).state is State.fine


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("v1", "ServiceAccount"),
        ("v1", "Secret"),
        ("v1", "Namespace"),
        ("example.com/v1", "Planet"),
    ],
)
async def test_no_command_gives_the_controller_rights_that_a_tenant_asked_for(
    patient: Patient, api_version: str, kind: str
) -> None:
    await patient.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition("planets", "Planet", "Cluster"))
    await controller(patient, "berth", "--controllers=appwrappers", "--wrapped-kinds=pods", namespace=HOME)
    body = {"metadata": {"labels": {BY_CHART: "berth-1"}}}
    await patient.client.patch(DEPLOYMENTS, "berth-controller", body, patch_type="merge", namespace=HOME)
    verdict = await of_kind(patient, api_version, kind)
    assert (verdict.codes, verdict.fix) == (("BERTH4007",), "")
    assert verdict.next.startswith("leave it out of the AppWrapper: an admin creates ")


async def test_one_in_a_file_that_asks_for_more_than_its_queue_has(patient: Patient) -> None:
    """What others hold now is no reason, and a resource without a quota may not be counted."""
    await queues(patient)
    await workload(patient, await wrapped(patient, "other"), **admission("4"))
    metadata = {"name": "mine", "labels": {QUEUE_NAME: "user-queue"}}
    manifest = {"apiVersion": APP_WRAPPERS.api_version, "kind": "AppWrapper", "metadata": metadata}
    never = "would never be admitted by queue user-queue"
    for cpu, expected in (
        ("4", (State.fine, "would wait in queue user-queue")),
        ("4100m", (State.stuck, never)),
    ):
        container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": cpu, "example.com/nic": "8"}}}
        pod = {**POD, "spec": {"containers": [container]}}
        new = {**manifest, "spec": {"components": [{"template": pod}]}}
        verdict = (await patient.why(manifests=[new])).verdict
        assert (verdict.state, verdict.text) == expected
    assert verdict.because == ("asks for cpu 4100m; ClusterQueue all has 4 in all",)
    assert verdict.codes == ("BERTH4012",)


@pytest.mark.parametrize("stopped", [False, True])
async def test_one_in_a_file_is_not_judged_by_the_workload_of_another(patient: Patient, *, stopped: bool) -> None:
    await queues(patient, **({"stopPolicy": "Hold"} if stopped else {}))
    await workload(patient, await wrapped(patient, "other"))
    body = {"spec": {"active": False}}
    await patient.client.patch(WORKLOADS, "appwrapper-other", body, patch_type="merge", namespace="default")
    metadata = {"name": "mine", "labels": {QUEUE_NAME: "user-queue"}}
    manifest = {"apiVersion": APP_WRAPPERS.api_version, "kind": "AppWrapper", "metadata": metadata}
    manifest |= {"spec": {"suspend": True, "components": [{"template": POD}]}, "status": {"phase": "Failed"}}
    verdict = (await patient.why(manifests=[manifest])).verdict
    assert verdict.state is (State.stuck if stopped else State.fine)
    assert verdict.text == "would wait in queue user-queue"
    metadata["labels"] = {QUEUE_NAME: "usr-queue"}
    verdict = (await patient.why(manifests=[manifest])).verdict
    assert verdict.because == ("there is no LocalQueue usr-queue in default; there is user-queue",)


async def test_a_queue_of_a_kueue_that_serves_only_the_old_version(patient: Patient) -> None:
    await queues(patient)
    await wrapped(patient)
    for kind in ("localqueues", "workloads", "clusterqueues"):
        body = [{"op": "replace", "path": "/spec/versions/0/served", "value": False}]
        name = f"{kind}.{LOCAL_QUEUES.group}"
        await patient.client.patch(CUSTOM_RESOURCE_DEFINITIONS, name, body, patch_type="json")
    answer = await asked_by_a_user(patient)
    assert answer.verdict.because == ("it waits in queue user-queue, and its Workload is not made yet",)
    await patient.client.delete(LOCAL_QUEUES_V1BETA1, "user-queue", namespace="default")
    verdict = (await patient.why("appwrapper/train", kubeconfig=patient.kubeconfig_of("dev"))).verdict
    assert verdict.because == ("there is no LocalQueue user-queue in default, nor any other",)
    assert verdict.fix == ""


async def report(patient: Patient, pod: str, *, ready: bool = True, of: str = "train", **status: Any) -> None:
    """A Pod of an AppWrapper, which crashes where it is not ready."""
    await patient.pod(pod, labels={APP_WRAPPER: of}, spec={"nodeName": "n"})
    state: JSON = {"running": {}} if ready else {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    container = {"name": "app", "image": "", "imageID": "", "ready": ready, "restartCount": 1, "state": state}
    container["lastState"] = {"terminated": {"exitCode": 1, "reason": "Error"}}
    status = {"phase": "Running", "containerStatuses": [container], "conditions": []} | status
    await patient.report(PODS, pod, status, namespace="default")


async def test_pods_that_have_failed_and_were_replaced_are_no_reason(patient: Patient) -> None:
    await wrapped(patient, queue="", phase="Running", conditions=[condition("PodsReady", message="1 pod ready")])
    await report(patient, "p-0", phase="Failed", reason="Evicted", message="the node was low on memory")
    await report(patient, "p-1", phase="Succeeded")
    await report(patient, "p-2")
    verdict = (await patient.why("appwrapper/train")).verdict
    assert (verdict.state, verdict.text) == (State.fine, "Running: 1 pod ready")
    await patient.report(APP_WRAPPERS, "train", {"conditions": [condition("PodsReady", "False")]}, namespace="default")
    verdict = (await patient.why("appwrapper/train")).verdict
    assert (verdict.state, verdict.because[0]) == (State.broken, "Pod default/p-0: Failed")


async def test_the_pod_that_crashes_is_judged_however_many_there_are(patient: Patient) -> None:
    conditions = [condition("PodsReady", "False", message="59 pods ready")]
    await wrapped(patient, queue="", phase="Running", conditions=conditions)
    for number in range(60):
        await report(patient, f"p-{number:02}", ready=number != 55)
    verdict = (await patient.why("appwrapper/train")).verdict
    assert verdict.state is State.broken
    assert verdict.because[0] == "Pod default/p-55: runs, and is not ready: CrashLoopBackOff"


async def test_a_workload_that_names_no_queue(patient: Patient) -> None:
    await queues(patient)
    await workload(patient, await wrapped(patient), queue="")
    verdict = (await patient.why("appwrapper/train")).verdict
    assert (verdict.state, verdict.because) == (State.stuck, ("it names no queue",))


async def test_the_doctor_judges_the_pods_of_some_and_says_of_how_many_it_does_not(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those whose Pods run cost nothing."""
    monkeypatch.setattr(app_wrappers, "MOST_JUDGED", 2)
    ready = [condition("PodsReady", message="1 pod ready")]
    for number in range(7):
        await wrapped(patient, f"w{number}", queue="", phase="Running", conditions=ready)
        await report(patient, f"p{number}", ready=number < 2, of=f"w{number}")
    findings = [finding for finding in await patient.examine(checks.CHECK) if finding.severity > Severity.ok]
    judged = [finding.subject for finding in findings if finding.code == "BERTH4013"]
    assert judged == ["AppWrapper default/w2", "AppWrapper default/w3"]
    (others,) = (finding for finding in findings if finding.code == "BERTH4014")
    assert others.severity is Severity.info
    assert others.message.startswith("not judged over Pods that do not run: 3 AppWrappers;")
    assert (await patient.why("appwrapper/w6")).verdict.codes == ("BERTH4013",)


async def test_components_that_are_no_objects_have_no_kind(patient: Patient) -> None:
    metadata = {"name": "odd", "namespace": "default"}
    manifest = {"apiVersion": APP_WRAPPERS.api_version, "kind": "AppWrapper", "metadata": metadata}
    manifest |= {"spec": {"components": [None, {"template": "x"}, {"template": None}]}}
    answer = await patient.why(manifests=[manifest])
    assert (answer.verdict.text, answer.unread) == ("would be created", ())


@pytest.mark.parametrize("between", [False, True])
async def test_of_a_pod_of_an_app_wrapper_the_app_wrapper_is_changed(patient: Patient, *, between: bool) -> None:
    """It would create the Pod, or the Job of the Pod, again as its components say."""
    resources = {"limits": {"example.com/nicc": "1"}, "requests": {"example.com/nicc": "1"}}
    pod = {**POD, "spec": {"containers": [{"name": "c", "image": "c", "resources": resources}]}}
    spec = {"suspend": False, "components": [{"template": pod, "podSetInfos": [{"nodeSelector": {"zone": "a"}}]}]}
    wrapper = await patient.create(APP_WRAPPERS, "train", namespace="default", spec=spec)
    owner = {"ownerReferences": [controlled(APP_WRAPPERS, wrapper)]}
    if between:
        template = {"template": {"spec": {**pod["spec"], "restartPolicy": "Never"}}}
        job = await patient.create(JOBS, "j", namespace="default", metadata=owner, spec=template)
        owner = {"ownerReferences": [controlled(JOBS, job)]}
    before = await patient.pod("p", spec=pod["spec"], **owner)
    unscheduled = condition("PodScheduled", "False", "Unschedulable", "0/1 nodes: Insufficient example.com/nicc")
    await patient.report(PODS, "p", {"phase": "Pending", "conditions": [unscheduled]}, namespace="default")
    verdict = (await patient.why("pod/p")).verdict
    assert verdict.codes == ("BERTH1207",)
    assert "the command deletes the AppWrapper with its Pods" in verdict.next
    await patient.run(f"export EDITOR='sed -i s/nicc/nic/'; {verdict.fix}")
    after = await patient.client.get(APP_WRAPPERS, "train", namespace="default")
    (component,) = after["spec"]["components"]
    assert component["template"]["spec"]["containers"][0]["resources"]["limits"] == {"example.com/nic": "1"}
    assert "podSetInfos" not in component
    assert (await patient.client.get(PODS, "p", namespace="default"))["metadata"]["uid"] == before["metadata"]["uid"]


def controlled(resource: Resource, obj: JSON) -> JSON:
    metadata = obj["metadata"]
    return controller_reference(resource, metadata["name"], metadata["uid"])
