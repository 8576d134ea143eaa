"""The node of a bare sandbox: Pods of Berth's image are real processes with their volumes, identity, probes and end."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import pytest
import pytest_asyncio

from app.certs.folder import make
from app.certs.issuing import serving_names
from app.devtools.clusters import definitions
from app.devtools.clusters.node.addresses import claim
from app.devtools.clusters.node.node import BerthNode
from app.devtools.clusters.node.pod_process import is_berth
from app.devtools.sandbox.server import Cluster
from app.devtools.sandbox.standins.kubelet import NodeSpec
from app.devtools.sandbox.standins.standins import StandIns
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import DEPLOYMENTS, JOBS, PODS, SECRETS, SERVICES, Resource
from app.kube.transport import connect
from tests.support.command_line import kubectl, start_kubectl
from tests.support.waiting import PATIENCE

JSON = dict[str, Any]
T = TypeVar("T")
HERE = "default"


class Stage:
    """A cluster with a node that runs Berth."""

    def __init__(self, cluster: Cluster, client: KubeClient, folder: Path) -> None:
        self.cluster, self.client, self.folder = cluster, client, folder

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    async def until(self, look: Callable[[], Awaitable[T]], true: Callable[[T], Any]) -> T:
        found: Any = None
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    found = await look()
                    if true(found):
                        return found
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"never so: {found}\n{self.logs()}") from None

    async def pods(self) -> list[JSON]:
        return (await self.client.list_page(PODS, namespace=HERE)).items

    def logs(self) -> str:
        return "".join(path.read_text() for path in sorted((self.folder / "logs").glob("*.log")))

    async def secret(self, files: dict[str, bytes]) -> None:
        data = {name: base64.b64encode(content).decode() for name, content in files.items()}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tls"}, "data": data}
        with contextlib.suppress(ApiError):
            await self.client.delete(SECRETS, "tls", namespace=HERE)
        await self.client.create(SECRETS, body, namespace=HERE)


@pytest_asyncio.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with Cluster() as cluster:
        path = tmp_path / "kubeconfig"
        path.write_text(cluster.kubeconfig())
        async with await connect(kubeconfig=str(path), deadline=PATIENCE) as client:
            await definitions.install(client, definitions.BARE)
            node = BerthNode(
                client,
                kubeconfig=path,
                directory=tmp_path,
                found=cluster.services.__setitem__,
                processes=cluster.state.processes,
            )
            parts = [StandIns(client, [NodeSpec("node")], elsewhere=is_berth), node]
            running = [asyncio.create_task(part.run()) for part in parts]
            yield Stage(cluster, client, tmp_path)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


def certificates() -> dict[str, bytes]:
    return make({}, names=serving_names(service="berth", namespace=HERE), now=datetime.now(UTC))


def template(*args: str, restart: str = "Always", **container: Any) -> JSON:
    spec = {
        "restartPolicy": restart,
        "serviceAccountName": "berth",
        "containers": [{"name": "c", "image": "ghcr.io/berth/berth:0.1.0", "args": list(args), **container}],
    }
    return {"metadata": {"labels": {"app": "berth"}}, "spec": spec}


def webhook(replicas: int = 1) -> JSON:
    made = template(
        "webhook",
        "--insecure",
        "--tls-cert-file=/etc/berth/tls/tls.crt",
        "--tls-private-key-file=/etc/berth/tls/tls.key",
        "--certificate-poll-seconds=0.2",
        "--drain-seconds=0",
        ports=[{"name": "https", "containerPort": 8443}, {"name": "health", "containerPort": 8444}],
        readinessProbe={"httpGet": {"path": "/readyz", "port": "health"}},
        volumeMounts=[{"name": "tls", "mountPath": "/etc/berth/tls"}],
        env=[{"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
    )
    made["spec"]["volumes"] = [{"name": "tls", "secret": {"secretName": "tls"}}]
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "berth"}}, "template": made}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "berth"}, "spec": spec}


def service() -> JSON:
    spec = {"selector": {"app": "berth"}, "ports": [{"port": 443, "targetPort": "https"}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "berth"}, "spec": spec}


async def grant(client: KubeClient) -> None:
    """What the webhook may read."""
    group = "rbac.authorization.k8s.io"
    rules = [
        {
            "apiGroups": ["k8s.cni.cncf.io", ""],
            "resources": ["network-attachment-definitions", "configmaps"],
            "verbs": ["get", "list", "watch"],
        }
    ]
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": "berth"}, "rules": rules}
    subject = {"kind": "ServiceAccount", "name": "berth", "namespace": HERE}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "berth"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "berth"},
        "subjects": [subject],
    }
    for plural, body in (("clusterroles", role), ("clusterrolebindings", binding)):
        await client.create(Resource(group, "v1", plural, body["kind"], namespaced=False), body)


def ready(pods: list[JSON], count: int) -> bool:
    conditions = [one for pod in pods for one in pod["status"].get("conditions") or [] if one["type"] == "Ready"]
    return [one["status"] for one in conditions] == ["True"] * count


async def test_a_deployment_of_the_webhook_serves_behind_its_service(stage: Stage) -> None:
    """It waits for its Secret, speaks as its ServiceAccount (without rights it is not ready), and is then reached."""
    await stage.client.create(DEPLOYMENTS, webhook(2), namespace=HERE)
    await stage.client.create(SERVICES, service(), namespace=HERE)
    await stage.until(stage.pods, lambda pods: len(pods) == 2 and all(pod["spec"].get("nodeName") for pod in pods))
    assert not stage.logs()
    files = certificates()
    await stage.secret(files)
    await stage.until(stage.pods, lambda pods: pods and all(pod["status"]["phase"] == "Running" for pod in pods))
    await stage.until(_text(stage), lambda text: 'User \\"system:serviceaccount:default:berth\\" cannot list' in text)
    pods = await stage.pods()
    assert not ready(pods, 2)
    # What it waits for can be read through the API server.
    path = PODS.path(namespace=HERE, name=f"{pods[0]['metadata']['name']}:8444", subresource="proxy")
    await stage.until(lambda: _readiness(stage, path), lambda said: said.get("ready") is False and said["waitingFor"])
    await grant(stage.client)
    await stage.until(stage.pods, lambda pods: ready(pods, 2))
    assert json.loads(await stage.client.relayed(f"{path}/readyz"))["ready"]
    pods = await stage.pods()
    assert len({pod["status"]["podIP"] for pod in pods}) == 2
    assert await _answer(stage, files) == 405


async def _readiness(stage: Stage, path: str) -> JSON:
    """{} where the process does not listen yet."""
    said: JSON = {}
    with contextlib.suppress(ApiError):
        said = json.loads(await stage.client.relayed(f"{path}/readyz"))
    return said


async def test_a_secret_that_changes_reaches_the_process(stage: Stage) -> None:
    await grant(stage.client)
    await stage.secret(certificates())
    await stage.client.create(DEPLOYMENTS, webhook(), namespace=HERE)
    await stage.client.create(SERVICES, service(), namespace=HERE)
    await stage.until(stage.pods, lambda pods: ready(pods, 1))
    later = certificates()
    await stage.secret(later)
    await stage.until(lambda: _answer(stage, later), lambda status: status == 405)


async def test_a_job_ends_with_the_exit_code_of_its_process(stage: Stage) -> None:
    """The one that may not is Failed, and what it printed can be read."""
    for name, args in (("good", ("crds", "infra")), ("bad", ("crds", "nowhere"))):
        spec = {"backoffLimit": 0, "template": template(*args, restart="Never")}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
        await stage.client.create(JOBS, body, namespace=HERE)
    ends = {"good": "Complete", "bad": "Failed"}
    for name, end in ends.items():
        await stage.until(
            lambda name=name: stage.client.get(JOBS, name, namespace=HERE),
            lambda job, end=end: end in [one["type"] for one in (job.get("status") or {}).get("conditions") or []],
        )
    said = await kubectl(stage.kubeconfig, "logs", "job/good")
    assert said.startswith("$ berth crds infra\n")
    assert "CustomResourceDefinition" in said
    assert await kubectl(stage.kubeconfig, "logs", "job/good", "--tail=1") == said.splitlines(keepends=True)[-1]
    assert await kubectl(stage.kubeconfig, "logs", "job/good", "--follow", "-c", "c") == said
    refused = await start_kubectl(stage.kubeconfig, "logs", "job/good", "--since=1m")
    assert b"the sandbox does not know when a line was written: " in (await refused.communicate())[1]
    assert "nowhere" in await kubectl(stage.kubeconfig, "logs", "job/bad")
    codes = {
        pod["metadata"]["ownerReferences"][0]["name"]: pod["status"]["containerStatuses"][0]["state"]["terminated"]
        for pod in await stage.pods()
    }
    assert codes["good"]["exitCode"] == 0
    assert codes["bad"]["exitCode"] == 2


async def test_a_container_that_ends_is_started_again(stage: Stage) -> None:
    body = {"apiVersion": "v1", "kind": "Pod", **template("webhook", "--no-such-flag")}
    body["metadata"] = {"name": "restless", **body["metadata"]}
    await stage.client.create(PODS, body, namespace=HERE)
    found = await stage.until(
        stage.pods, lambda pods: pods and (pods[0]["status"].get("containerStatuses") or [{}])[0].get("restartCount")
    )
    assert found[0]["status"]["phase"] == "Running"
    assert "--no-such-flag" in await kubectl(stage.kubeconfig, "logs", "restless", "--previous")


async def test_logs_are_followed_until_the_process_ends(stage: Stage) -> None:
    """It says where it listens, for ports are not forwarded."""
    await grant(stage.client)
    await stage.secret(certificates())
    await stage.client.create(DEPLOYMENTS, webhook(), namespace=HERE)
    follower = await start_kubectl(stage.kubeconfig, "logs", "--follow", "deployment/berth", "--pod-running-timeout=1m")
    assert follower.stdout is not None
    assert (await follower.stdout.readline()).startswith(b"$ berth webhook ")
    for arguments in (["port-forward", "deployment/berth", ":8443"], ["exec", "deployment/berth", "--", "ls"]):
        refused = await start_kubectl(stage.kubeconfig, *arguments)
        _, text = await refused.communicate()
        assert b" is a process of this machine, at 127.66." in text
    await stage.until(stage.pods, lambda pods: ready(pods, 1))
    await stage.client.delete(DEPLOYMENTS, "berth", namespace=HERE)
    rest, _ = await follower.communicate()
    assert b'"drained"' in rest
    assert follower.returncode == 0


async def test_a_pod_that_is_deleted_takes_its_process_along(stage: Stage) -> None:
    await grant(stage.client)
    files = certificates()
    await stage.secret(files)
    await stage.client.create(DEPLOYMENTS, webhook(), namespace=HERE)
    await stage.client.create(SERVICES, service(), namespace=HERE)
    await stage.until(stage.pods, lambda pods: ready(pods, 1))
    await stage.client.delete(DEPLOYMENTS, "berth", namespace=HERE)
    await stage.until(stage.pods, lambda pods: not pods)
    assert await _answer(stage, files) == 0
    assert '"drained"' in stage.logs()


def test_no_two_sandboxes_give_one_address() -> None:
    """The claim is the machine's, not the process's; what was given back can be had again."""
    first = claim()
    command = [sys.executable, "-c", f"import socket; socket.socket(2, 2).bind(({first.address!r}, 61066))"]
    try:
        assert b"in use" in subprocess.run(command, capture_output=True, check=False).stderr
        second = claim()
        second.release()
        assert second.address != first.address
    finally:
        first.release()
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [{"image": "ghcr.io/berth/berth:0.1.0"}]}, True),
        ({"containers": [{"image": "registry:5000/x/berth@sha256:0"}]}, True),
        ({"containers": [{"image": "berth"}]}, True),
        ({"containers": [{"image": "berth", "command": ["sh", "-c", "id"]}]}, False),
        ({"containers": [{"image": "ghcr.io/berth/berth-other:1"}]}, False),
        ({"containers": [{"image": "busybox"}]}, False),
        ({"containers": [{"image": "berth"}, {"image": "busybox"}]}, False),
        ({}, False),
    ],
)
def test_nothing_but_berth_itself_is_started(*, spec: JSON, expected: bool) -> None:
    assert is_berth({"spec": spec}) is expected


def _text(stage: Stage) -> Callable[[], Awaitable[str]]:
    async def look() -> str:
        return stage.logs()

    return look


async def _answer(stage: Stage, files: dict[str, bytes]) -> int:
    """The HTTP status of a GET through the Service, 0 where nobody answers with the certificate of `files`."""
    host, port = stage.cluster.services[HERE, "berth", 443]
    context = ssl.create_default_context(cadata=files["ca.crt"].decode())
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"https://{host}:{port}/mutate", ssl=context, server_hostname="berth.default.svc") as answer,
        ):
            json.loads(await answer.read())
            return answer.status
    except (aiohttp.ClientError, OSError):
        return 0
