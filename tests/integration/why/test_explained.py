"""`berth explain` with a cluster that has a release of Berth: its flags, its registrations, who is left out."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from app.kube.resources import (
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NETWORK_ATTACHMENTS,
    NODES,
    VALIDATING_WEBHOOKS,
)
from tests.integration.doctor.installation import Place
from tests.support.forking import BerthProcess

NETWORKS = "k8s.v1.cni.cncf.io/networks"


async def explained(place: Place, folder: Path, *words: str, namespace: str = "default", **pod: Any) -> dict[str, Any]:
    """The one Pod, as JSON has it."""
    return (await document(place, folder, *words, namespace=namespace, **pod))["objects"][0]  # type: ignore[no-any-return]


async def document(place: Place, folder: Path, *words: str, namespace: str = "default", **pod: Any) -> dict[str, Any]:
    """The whole answer about one Pod."""
    metadata = {"name": "web", "namespace": namespace, "annotations": {NETWORKS: "default/net"}, **pod}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    (folder / "pod.json").write_text(json.dumps(body))
    command = ("explain", "-f", str(folder / "pod.json"), "-o", "json", *words)
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = os.environ | {"KUBECONFIG": str(place.patient.kubeconfig)}
    with BerthProcess(*command, env=environment, **pipes) as process:
        out, err = await asyncio.to_thread(process.communicate)
    assert out, err
    return json.loads(out)  # type: ignore[no-any-return]


async def test_a_pod_of_a_namespace_that_has_opted_out_is_not_injected(place: Place, tmp_path: Path) -> None:
    await place.patient.attachment("net")
    assert (await explained(place, tmp_path))["operations"]
    out = {"key": "berth.dev/inject", "operator": "NotIn", "values": ["false"]}
    await place.register("namespaceSelector", {"matchExpressions": [out]})
    quiet = {"metadata": {"name": "quiet", "labels": {"berth.dev/inject": "false"}}}
    await place.client.create(NAMESPACES, quiet)
    pod = await explained(place, tmp_path, namespace="quiet")
    assert pod["operations"] == []
    assert pod["message"] == (
        "Berth is not asked: Namespace quiet has the label berth.dev/inject=false (namespaceSelector of pods.berth.dev)"
    )


async def test_without_a_registration_nothing_is_injected(place: Place, tmp_path: Path) -> None:
    await place.patient.attachment("net")
    await place.client.delete(MUTATING_WEBHOOKS, "berth")
    pod = await explained(place, tmp_path)
    assert (pod["operations"], pod["message"]) == ([], "no MutatingWebhookConfiguration calls Berth")


async def test_flags_are_those_of_the_release_and_those_that_are_given_win(place: Place, tmp_path: Path) -> None:
    """The key of an attachment that names its resource."""
    await place.patient.attachment("net")
    path = "/spec/template/spec/containers/0/args/-"
    flag = {"op": "add", "path": path, "value": "--network-resource-name-keys=other.io/resource"}
    await place.change(DEPLOYMENTS, "berth-webhook", flag)
    assert "example.com/nic" not in json.dumps(await explained(place, tmp_path))
    given = ("--network-resource-name-keys", "k8s.v1.cni.cncf.io/resourceName")
    assert "example.com/nic" in json.dumps(await explained(place, tmp_path, *given))


async def test_pods_beside_berth_are_left_alone(place: Place, tmp_path: Path) -> None:
    await place.patient.attachment("net")
    pod = await explained(place, tmp_path, namespace="berth-system")
    assert (pod["operations"], "berth-system" in pod["message"]) == ([], True)


async def test_a_broken_attachment_of_the_cluster_is_a_warning(place: Place, tmp_path: Path) -> None:
    """It was there before Berth checked any."""
    await place.client.delete(VALIDATING_WEBHOOKS, "berth")
    await place.patient.create(NETWORK_ATTACHMENTS, "net", namespace="default", spec={"config": "{"})
    answer = await document(place, tmp_path)
    (finding,) = answer["findings"]
    assert (finding["severity"], finding["reason"], finding["name"]) == ("warning", "BrokenAttachment", "web")
    assert finding["message"].startswith(
        "NetworkAttachmentDefinition default/net of the cluster is broken: spec.config"
    )
    assert answer["summary"]["warnings"] == 1


async def test_a_resource_that_nothing_offers_is_a_warning(place: Place, tmp_path: Path) -> None:
    await place.patient.attachment("net")
    answer = await document(place, tmp_path)
    (finding,) = answer["findings"]
    assert (finding["severity"], finding["reason"], finding["message"]) == (
        "warning",
        "Unoffered",
        "example.com/nic: nothing offers it: the Pod would stay Pending",
    )
    assert answer["summary"]["warnings"] == 1
    node = await place.patient.create(NODES, "n1")
    await place.patient.report(NODES, node["metadata"]["name"], {"allocatable": {"example.com/nic": "1"}})
    assert (await document(place, tmp_path))["findings"] == []
