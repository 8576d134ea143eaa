"""Why a Pod finds no node: what it wants of one, what Berth wants of one, and its tenant's DPUs."""

from __future__ import annotations

from typing import Any

import pytest

from app.kube.resources import DEPLOYMENTS, NAMESPACES, NODES, PODS
from app.placement.model import DPU_OF_HOST, HOST_LABEL, TENANT_LABEL
from app.why.model import State
from tests.integration.doctor.patient import HOME, Patient

JSON = dict[str, Any]
AT = "2026-01-01T00:00:00Z"
MESSAGE = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
PENDING = {
    "phase": "Pending",
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": MESSAGE,
            "lastTransitionTime": AT,
        }
    ],
}


async def dpus(patient: Patient, **tenants: str) -> None:
    """Nodes by name, each the DPU of host h-NAME, and the tenant's of the value."""
    for name, tenant in tenants.items():
        labels = {HOST_LABEL: f"h-{name}", **({TENANT_LABEL: tenant} if tenant else {}), "bf": "two"}
        await patient.create(NODES, name, metadata={"labels": labels})


def affinity(**labels: str) -> JSON:
    keys = {"host": HOST_LABEL, "tenant": TENANT_LABEL}
    terms = [{"key": keys.get(key, key), "operator": "In", "values": [value]} for key, value in labels.items()]
    required = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


async def pending(patient: Patient, spec: JSON, *, namespace: str = "default", **metadata: Any) -> None:
    await patient.pod("p", namespace=namespace, spec=spec, **metadata)
    await patient.report(PODS, "p", PENDING, namespace=namespace)


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        (affinity(host="h-c"), f"no node is the DPU of host h-c: none has label {HOST_LABEL}=h-c"),
        (affinity(host="h-b", tenant="red"), "node b, the DPU of host h-b, is not tenant red's"),
        (affinity(tenant="blue"), f"tenant blue has no DPU: no node has label {TENANT_LABEL}=blue"),
        (
            {**affinity(tenant="red"), "nodeSelector": {"bf": "three"}},
            "node selector bf=three matches none of the tenant's 1 DPU: they have bf=two",
        ),
        (
            {"nodeSelector": {"disk": "fast"}},
            "node selector disk=fast matches none of the 2 nodes: none has label disk",
        ),
    ],
)
async def test_a_pod_that_no_node_can_take(patient: Patient, spec: JSON, cause: str) -> None:
    await dpus(patient, a="red", b="")
    await pending(patient, spec)
    verdict = (await patient.why("pod/p")).verdict
    assert (verdict.state, verdict.text) == (State.stuck, "Pending")
    assert verdict.because == (cause, MESSAGE)
    assert verdict.so == "no node can take it"


async def test_the_command_that_gives_a_dpu_to_its_tenant(patient: Patient) -> None:
    await dpus(patient, a="red", b="")
    await pending(patient, affinity(host="h-b", tenant="red"))
    await patient.run((await patient.why("pod/p")).verdict.fix)
    assert (await patient.why("pod/p")).verdict.because == (MESSAGE,)
    await patient.client.patch(PODS, "p", {"metadata": {"labels": {"a": "b"}}}, patch_type="merge", namespace="default")
    await patient.client.patch(NODES, "b", {"spec": {"unschedulable": True}}, patch_type="merge")
    verdict = (await patient.why("pod/p")).verdict
    assert verdict.because[0] == "node b, the DPU of host h-b, is cordoned"
    await patient.run(verdict.fix)
    assert (await patient.why("pod/p")).verdict.because == (MESSAGE,)


async def test_a_pod_of_a_file_that_asks_for_the_dpu_of_a_host(patient: Patient) -> None:
    await dpus(patient, a="red")
    spec = {"containers": [{"name": "app", "image": "app"}]}
    metadata = {"name": "new", "annotations": {DPU_OF_HOST: "h-z"}}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    verdict = (await patient.why(manifests=[manifest])).verdict
    assert (verdict.state, verdict.text) == (State.stuck, "would stay Pending")
    assert verdict.because == (f"no node is the DPU of host h-z: none has label {HOST_LABEL}=h-z",)
    metadata["annotations"] = {DPU_OF_HOST: "h-a"}
    assert (await patient.why(manifests=[manifest])).verdict.state is State.fine
    manifest["spec"] = {**spec, "nodeSelector": {HOST_LABEL: "other"}}
    verdict = (await patient.why(manifests=[manifest])).verdict
    assert (verdict.state, verdict.text) == (State.broken, "would be denied; would stay Pending")


async def test_a_pod_of_a_file_in_a_tenants_namespace(patient: Patient) -> None:
    await dpus(patient, a="red", b="blue")
    await patient.client.patch(NODES, "b", {"metadata": {"labels": {"bf": "three"}}}, patch_type="merge")
    await patient.client.create(NAMESPACES, {"metadata": {"name": "of-red", "labels": {TENANT_LABEL: "red"}}})
    container = {"name": "webhook", "image": "berth", "args": ["webhook", "--confine-tenants"]}
    labels = {"app": "berth"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    whole = {"selector": {"matchLabels": labels}, "template": template}
    await patient.create(DEPLOYMENTS, "berth-webhook", namespace=HOME, spec=whole)
    spec = {"containers": [{"name": "app", "image": "app"}], "nodeSelector": {"bf": "three"}}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}, "spec": spec}
    verdict = (await patient.why(namespace="of-red", manifests=[manifest])).verdict
    assert verdict.because == ("node selector bf=three matches none of the tenant's 1 DPU: they have bf=two",)
    assert (await patient.why(manifests=[manifest])).verdict.state is State.fine


async def test_a_deployment_whose_node_selector_matches_nothing_is_edited(patient: Patient) -> None:
    await dpus(patient, a="red")
    spec = {"containers": [{"name": "app", "image": "app"}], "nodeSelector": {"disk": "fast"}}
    labels = {"app": "web"}
    whole = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}}
    await patient.create(DEPLOYMENTS, "web", namespace="default", spec=whole)
    verdict = (await patient.why("deployment/web")).verdict
    assert (verdict.state, verdict.fix) == (State.stuck, "kubectl --namespace default edit deployment/web")
    assert verdict.because == ("node selector disk=fast matches none of the 1 node: none has label disk",)


async def test_a_tenants_pod_that_is_not_confined(patient: Patient) -> None:
    await dpus(patient, a="red")
    await patient.client.create(NAMESPACES, {"metadata": {"name": "tenant-red", "labels": {TENANT_LABEL: "red"}}})
    await patient.pod("loose", namespace="tenant-red", spec={"nodeName": "a"})
    verdict = (await patient.why("pod/loose", namespace="tenant-red")).verdict
    assert verdict.state is State.broken
    assert f"lacks the node affinity {TENANT_LABEL}=red" in verdict.text
    assert verdict.codes == ("BERTH1205",)
    upgrade, renew = verdict.fix.split("\n")
    assert "webhook.args.confineTenants=true" in upgrade
    assert renew == "kubectl --namespace tenant-red delete pod loose"


async def test_nodes_that_may_not_be_read_are_not_missing(patient: Patient) -> None:
    await dpus(patient, a="red")
    await pending(patient, {"nodeSelector": {"disk": "fast"}})
    rules = [{"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list"]}]
    await patient.bind("member", rules, namespace="default", user=True)
    answer = await patient.why("pod/p", kubeconfig=patient.kubeconfig_of("member"))
    assert answer.verdict.because == (MESSAGE,)
    assert any("list nodes in the whole cluster" in text for text in answer.unread)
