"""The command that `berth why` prints as `fix`, typed into a shell as it is printed: the object is fine after it.

Here are the kinds of object whose fixes no other test of this folder types. A command that opens an editor has one that
makes the change which the answer asks for.
"""

from __future__ import annotations

from typing import Any

import pytest

from app.appwrappers.kueue.model import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS
from app.devtools.kueue.definitions import kueue_definitions
from app.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    JOBS,
    NETWORK_ATTACHMENTS,
    NODES,
    PODS,
    controller_reference,
)
from app.permissions import permissions_of
from app.why.model import State, Verdict
from tests.integration.doctor.installation import Place, labels_of
from tests.integration.doctor.patient import HOME, NETWORKS, Patient
from tests.integration.why.test_rules import NO_MATCH, rule, spec, term

JSON = dict[str, Any]
BROKEN_BUNDLE = "bm90IGEgY2VydGlmaWNhdGU="
RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


async def typed(patient: Patient, asked: str, *, namespace: str = "default", editor: str = "") -> Verdict:
    """The verdict after its fix was typed; before, the object was not fine."""
    before = (await patient.why(asked, namespace=namespace)).verdict
    assert before.state > State.fine, before
    assert before.fix, before
    shell = f"export EDITOR={editor!r}\n" if editor else ""
    for command in before.fix.split("\n"):
        await patient.run(f"{shell}{command}")
    return (await patient.why(asked, namespace=namespace)).verdict


@pytest.mark.parametrize(
    "asked", ["mutatingwebhookconfiguration/berth", "deployment/berth-webhook", "pod/berth-webhook-1"]
)
async def test_a_bundle_that_is_broken(place: Place, asked: str) -> None:
    """Asked of whatever has to do with it."""
    await place.patient.enroll("webhook", permissions_of("webhook"))
    await place.patient.pod("berth-webhook-1", namespace=HOME, labels=labels_of("webhook"), spec={"nodeName": "n"})
    await place.patient.report(PODS, "berth-webhook-1", RUNNING, namespace=HOME)
    await place.register("clientConfig/caBundle", BROKEN_BUNDLE)
    after = await typed(place.patient, asked, namespace=HOME)
    assert after.state is State.fine, after


async def test_a_role_that_is_scaled_to_nothing(place: Place) -> None:
    await place.patient.enroll("webhook", permissions_of("webhook"))
    await place.change(DEPLOYMENTS, "berth-webhook", {"op": "replace", "path": "/spec/replicas", "value": 0})
    await place.report("webhook", replicas=0, ready=0)
    before = (await place.patient.why("deployment/berth-webhook", namespace=HOME)).verdict
    await place.patient.run(before.fix)
    await place.report("webhook", replicas=2, ready=2)  # as its controller does
    await place.patient.pod("berth-webhook-1", namespace=HOME, labels=labels_of("webhook"), spec={"nodeName": "n"})
    await place.patient.report(PODS, "berth-webhook-1", RUNNING, namespace=HOME)
    after = (await place.patient.why("deployment/berth-webhook", namespace=HOME)).verdict
    assert after.codes == ()
    assert "role webhook of Berth works" in after.text


async def kueue(patient: Patient, *, queue: str = "all", **spec: Any) -> None:
    for body in kueue_definitions():
        await patient.client.create(CUSTOM_RESOURCE_DEFINITIONS, body)
    flavors = [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    await patient.create(CLUSTER_QUEUES, "all", spec={"resourceGroups": groups, "namespaceSelector": {}} | spec)
    await patient.create(LOCAL_QUEUES, "mine", namespace="default", spec={"clusterQueue": queue})


@pytest.mark.parametrize("asked", ["clusterqueue/all", "localqueue/mine"])
async def test_a_queue_that_is_stopped(patient: Patient, asked: str) -> None:
    """The command is for the queue that was stopped, whichever was asked about."""
    await kueue(patient, stopPolicy="HoldAndDrain")
    after = await typed(patient, asked)
    assert after.state is State.fine, after


async def test_a_queue_of_a_cluster_queue_whose_name_is_mistyped(patient: Patient) -> None:
    await kueue(patient, queue="al")
    after = await typed(patient, "localqueue/mine", editor="sed -i s/al$/all/")
    assert after.state is State.fine, after


async def test_a_workload_that_is_deactivated(patient: Patient) -> None:
    await kueue(patient)
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    spec = {"queueName": "mine", "active": False, "podSets": [{"name": "a", "count": 1, "template": template}]}
    await patient.create(WORKLOADS, "w", namespace="default", spec=spec)
    after = await typed(patient, "workload.kueue.x-k8s.io/w")
    assert (after.state, after.text) == (State.waits, "waits to be looked at")


async def test_an_attachment_that_is_broken(patient: Patient) -> None:
    config = '{"cniVersion": "1.0.0", "type": "macvlan", "master": "eth0",}'
    await patient.create(NETWORK_ATTACHMENTS, "broken-net", namespace="default", spec={"config": config})
    after = await typed(patient, "net-attach-def/broken-net", editor="sed -i s/,}/}/")
    assert "BERTH1101" not in after.codes, after


async def test_a_rule_with_a_key_that_no_workload_has(patient: Patient) -> None:
    await patient.pod("web")
    await rule(patient, spec(term(("metadata.resourceNamespace", "In", "defualt"))), NO_MATCH)
    after = await typed(patient, "workloadrule/r", namespace="universe", editor="sed -i s/defualt/default/")
    assert not any("defualt" in cause for cause in after.because), after


@pytest.mark.parametrize("kind", ["deployment", "job"])
async def test_a_mistyped_network_of_what_makes_pods(patient: Patient, kind: str) -> None:
    """Asked of the Pod, changed where it is made."""
    await patient.register()
    await patient.attachment("foo")
    labels = {"app": "web"}
    pod = {"restartPolicy": "Never" if kind == "job" else "Always", "containers": [{"name": "c", "image": "c"}]}
    template = {"metadata": {"labels": labels, "annotations": {NETWORKS: "fooo"}}, "spec": pod}
    resource = JOBS if kind == "job" else DEPLOYMENTS
    spec = {"template": template} | ({} if kind == "job" else {"selector": {"matchLabels": labels}})
    maker = await patient.create(resource, "web", namespace="default", spec=spec)
    owner = controller_reference(resource, "web", maker["metadata"]["uid"])
    await patient.pod("web-1", labels=labels, annotations={NETWORKS: "fooo"}, ownerReferences=[owner])
    before = (await patient.why("pod/web-1")).verdict
    assert before.codes == ("BERTH1203",)
    await patient.run(f"export EDITOR='sed -i s/fooo/foo/'; {before.fix}")
    after = await patient.client.get(resource, "web", namespace="default")
    assert after["spec"]["template"]["metadata"]["annotations"] == {NETWORKS: "foo"}
    planned = (
        await patient.why(manifests=[PODS.body({"name": "n", **after["spec"]["template"]["metadata"]}, spec=pod)])
    ).verdict
    assert planned.text.startswith("would be injected")


async def test_a_node_that_is_cordoned(patient: Patient) -> None:
    await patient.create(NODES, "n", spec={"unschedulable": True})
    after = await typed(patient, "node/n")
    assert after.state is State.fine, after


async def test_a_pod_that_runs_has_its_network_whatever_became_of_the_attachment(patient: Patient) -> None:
    await patient.register()
    for name in ("waits", "runs"):
        await patient.pod(name, annotations={NETWORKS: "fooo"}, spec={"nodeName": "n"})
    await patient.report(PODS, "runs", RUNNING, namespace="default")
    said = [(await patient.why(f"pod/{name}")).verdict.so for name in ("waits", "runs")]
    assert said[0].startswith("Multus cannot attach it")
    assert said[1] == "it runs on, but a Pod that is to replace it is denied"
