"""Explaining says where a Pod would be confined to: by its annotation, and by Namespaces among the manifests."""

from __future__ import annotations

from typing import Any

from app.explain.answer import Answer
from app.explain.explaining import explain
from app.explain.rehearsal import Rehearsal
from app.explain.rendering import render
from app.placement.model import DPU_OF_HOST, HOST_LABEL, TENANT_LABEL
from app.registry import settings_of
from tests.support.explaining import given
from tests.support.pods import pod


async def explained(*objects: dict[str, Any], **flags: Any) -> Answer:
    settings = settings_of("webhook").load({"confine_tenants": True, **flags}, environment=False)
    return await explain(given(*objects), Rehearsal(settings, "kube-system"))


def namespace(name: str, labels: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def text(explanation: Answer) -> str:
    return "\n".join(line.text for line in render(explanation.pods, "text"))


async def test_the_annotation_is_shown_with_its_affinity() -> None:
    shown = text(await explained(pod(annotations={DPU_OF_HOST: "host-a"})))
    assert f"annotation {DPU_OF_HOST}: host-a" in shown
    assert f'"key": "{HOST_LABEL}", "operator": "In", "values": ["host-a"]' in shown


async def test_a_namespace_among_the_manifests_confines_its_pods() -> None:
    explanation = await explained(
        pod(namespace="ns"), pod(namespace="other"), namespace("ns", {TENANT_LABEL: "t1"}), namespace("odd", ["x"])
    )
    assert explanation.notes == []
    confined, free = explanation.pods
    assert confined.decision.reason == "Injected"
    assert "namespace ns belongs to tenant t1" in text(explanation)
    assert free.decision.operations == []


async def test_the_name_of_a_tenants_namespace_confines_its_pods_too() -> None:
    assert "namespace tenant-t1 belongs to tenant t1" in text(await explained(pod(namespace="tenant-t1")))


async def test_the_labels_of_nodes_are_those_of_the_surroundings() -> None:
    shown = text(await explained(pod(annotations={DPU_OF_HOST: "host-a"}), host_label="example.com/host"))
    assert '"key": "example.com/host"' in shown


async def test_a_contradiction_would_be_denied() -> None:
    """A template counts like a Pod."""
    template = {"metadata": {"annotations": {DPU_OF_HOST: "host-a"}}, "spec": {"nodeName": "n", "containers": []}}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": template}}
    (result,) = (await explained(owner)).pods
    assert result.denied
    assert "spec.nodeName: 'n' bypasses the scheduler" in result.verdict
