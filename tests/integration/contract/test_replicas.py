"""Two replicas on one API server while attachments come and go: each Pod is injected or denied, never let through bare."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import app.networks
from app.devtools.sandbox.server import Cluster
from app.kube.client import KubeClient
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NETWORK_ATTACHMENTS
from app.kube.transport import connect
from tests.support.waiting import PATIENCE

JSON = dict[str, Any]
CRD = Path(app.networks.__file__).parent / "crds" / "network-attachment-definitions.yaml"


def attachment(name: str, resource: str) -> JSON:
    return NETWORK_ATTACHMENTS.body(
        {"name": name, "annotations": {"k8s.v1.cni.cncf.io/resourceName": resource}}, spec={"config": ""}
    )


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[KubeClient]:
    async with Cluster("replicas") as cluster:
        (tmp_path / "kubeconfig").write_text(cluster.kubeconfig())
        async with await connect(kubeconfig=str(tmp_path / "kubeconfig"), deadline=PATIENCE) as connected:
            body = yaml.safe_load(CRD.read_text())
            await connected.create(CUSTOM_RESOURCE_DEFINITIONS, body)
            yield connected


@pytest.fixture
async def replicas(launch, pki, client: KubeClient, tmp_path: Path) -> AsyncIterator[list[Any]]:
    command = ("--insecure", f"--kubeconfig={tmp_path / 'kubeconfig'}")
    started = [launch(pki, *command, source=None) for _ in range(2)]
    yield [await asyncio.to_thread(each.until_ready) for each in started]
    for each in started:
        await asyncio.to_thread(each.stop)


async def test_attachments_come_and_go_under_two_replicas(client, replicas, review) -> None:
    def ask(replica: Any, name: str) -> JSON:
        asked = review("webhook-demo")
        asked["request"]["object"]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = name
        code, body = replica.post(asked)
        assert code == 200
        return body["response"]

    async def outcomes(name: str) -> set[str]:
        """What the replicas inject for one Pod, "denied" where they refuse it."""
        found = await asyncio.gather(*(asyncio.to_thread(ask, replica, name) for replica in replicas))
        return {resource_of(response) for response in found}

    async def until(name: str, wanted: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while await outcomes(name) != {wanted}:  # noqa: ASYNC110  the replicas' caches follow by themselves
                await asyncio.sleep(0.02)

    for number in range(25):
        name, old, new = f"net-{number}", f"example.com/old-{number}", f"example.com/new-{number}"
        await client.create(NETWORK_ATTACHMENTS, attachment(name, old), namespace="default")
        assert await outcomes(name) == {old}, "known at once: a miss in the cache is looked up"
        await client.delete(NETWORK_ATTACHMENTS, name, namespace="default")
        assert await outcomes(name) <= {old, "denied"}
        await client.create(NETWORK_ATTACHMENTS, attachment(name, new), namespace="default")
        assert await outcomes(name) <= {old, new}, "it exists again: nobody may be refused"
        await until(name, new)
        await client.delete(NETWORK_ATTACHMENTS, name, namespace="default")
        await until(name, "denied")


def resource_of(response: JSON) -> str:
    if not response["allowed"]:
        assert "could not find network attachment definition" in response["status"]["message"]
        return "denied"
    patch = json.loads(base64.b64decode(response["patch"]))
    prefix = "/spec/containers/0/resources/limits/"
    (path,) = [step["path"] for step in patch if step["path"].startswith(prefix)]
    return path.removeprefix(prefix).replace("~1", "/")
