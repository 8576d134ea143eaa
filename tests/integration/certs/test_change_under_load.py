"""The CA changes under a constant load of Pods, through the API server's own admission: none of them fails.

Real processes: `berth certificates` twice, `berth webhook` reading files that a stand-in of the kubelet copies from the
Secret, late. Every review is a connection of its own, so that each one verifies the certificate of its moment.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from app.certs.certificate_set import CertificateSet
from app.certs.controller import RENEW
from app.certs.folder import write_files
from app.certs.issuing import serving_names
from app.certs.rotation import successor, webhook
from app.definitions import read_definitions
from app.errors import ApiError
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, MUTATING_WEBHOOKS, NETWORK_ATTACHMENTS, SECRETS
from app.kube.secrets import StoredFiles, write_secret
from app.permissions import permissions_of
from tests.integration.certs.berthprocess import berth
from tests.integration.certs.registered import NAMESPACE, SECRET, SERVICE, change, configuration, register, stored
from tests.support.ports import lasting_port
from tests.support.rbac import allow
from tests.support.waiting import eventually

USER = "system:serviceaccount:berth:berth-certificates"
LAG = 1.0
"""Seconds from the Secret to the files."""
NETWORKS = "k8s.v1.cni.cncf.io/networks"
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "load-", "annotations": {NETWORKS: "net"}},
    "spec": {"containers": [{"name": "main", "image": "registry.example/app"}]},
}
ATTACHMENT: dict[str, Any] = NETWORK_ATTACHMENTS.body(
    {"name": "net", "annotations": {"k8s.v1.cni.cncf.io/resourceName": "example.com/vf"}},
    spec={"config": '{"cniVersion": "0.3.1", "type": "bridge", "name": "net"}'},
)


async def kubelet(client: Any, directory: Path) -> None:
    """Copies the Secret into the files of a Pod, as a whole and late; while there is none, the files stay."""
    shown = ""
    while True:
        with contextlib.suppress(ApiError):
            secret = await client.get(SECRETS, SECRET, namespace=NAMESPACE)
            if secret["metadata"]["resourceVersion"] != shown and "tls.crt" in secret["data"]:
                shown, files = secret["metadata"]["resourceVersion"], await stored(client)
                await asyncio.sleep(LAG)
                await asyncio.to_thread(write_files, directory, {n: files[n] for n in ("tls.crt", "tls.key")})
        await asyncio.sleep(0.05)


class Load:
    """Creates Pods with dry run, one after the other in each of some tasks, and counts what came of them."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.counted: Counter[str] = Counter()
        self.failures: list[str] = []

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(4):
                tasks.create_task(self._post())

    async def _post(self) -> None:
        while True:
            try:
                pod = await self._client.post("/api/v1/namespaces/default/pods?dryRun=All", POD)
                requests = pod["spec"]["containers"][0]["resources"]["requests"]
                self.counted["injected" if requests == {"example.com/vf": "1"} else "not injected"] += 1
            except ApiError as error:
                self.counted["failed"] += 1
                self.failures.append(str(error))
            await asyncio.sleep(0.02)

    async def more(self, count: int) -> None:
        goal = self.counted.total() + count
        await eventually(lambda: self.counted.total() >= goal)


@contextlib.asynccontextmanager
async def background(*coroutines: Any):
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        yield
        assert not any(task.done() for task in tasks), tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def served(cluster, client, kubeconfig, tmp_path):
    """A cluster whose Pods go through `berth webhook`, and keepers of its certificate; gives the load."""
    (definition,) = read_definitions([NETWORK_ATTACHMENTS])
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    await eventually(lambda: created(client))
    limited, files, port = tmp_path / "limited", tmp_path / "tls", lasting_port()
    limited.write_text(cluster.kubeconfig(user=USER, groups=()))
    await allow(client, USER, permissions_of("certificates"), role="certificates", release=NAMESPACE)
    await register(client)
    await an_hour_ago(client)
    cluster.services[(NAMESPACE, SERVICE, 443)] = ("127.0.0.1", port)
    caller = cluster.state.webhooks._caller
    caller._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True))
    keep = ("certificates", "--namespace", NAMESPACE, "--kubeconfig", str(limited))
    serve = ("webhook", "--insecure", "--port", str(port), "--namespace", NAMESPACE, "--kubeconfig", kubeconfig)
    serve += ("--tls-cert-file", str(files / "tls.crt"), "--tls-private-key-file", str(files / "tls.key"))
    serve += ("--certificate-poll-seconds", "0.2", "--drain-seconds", "0")
    load = Load(client)
    async with berth(*keep) as one, berth(*keep) as two, background(kubelet(client, files)):
        for keeper in (one, two):
            await keeper.until_ready()
        await eventually((files / "tls.key").exists)
        async with berth(*serve) as webhook:
            await webhook.until_ready()
            async with background(load.run()):
                yield load


async def an_hour_ago(client: Any) -> None:
    """A CA that every caller has known for long, so that another may follow at once."""
    names = serving_names(service=SERVICE, namespace=NAMESPACE)
    files = successor(CertificateSet(), webhook(names), now=datetime.now(UTC) - timedelta(hours=1)).files
    await write_secret(client, StoredFiles(NAMESPACE, SECRET, {}), files)


async def created(client: Any) -> bool:
    try:
        await client.create(NETWORK_ATTACHMENTS, ATTACHMENT, namespace="default")
    except ApiError:
        return False
    return True


async def test_a_forced_change_of_the_ca_fails_no_request(client, served, tmp_path) -> None:
    """Asked for by hand; the files follow a second later, while Pods keep coming.

    Every Pod is reviewed twice: for a configuration that is kept, and for one whose news have not arrived, as at an API
    server that is behind. That one trusts the old CA to the end.
    """
    await served.more(50)
    before = await stored(client)
    behind = configuration(MUTATING_WEBHOOKS, "behind")
    behind["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(before["ca.crt"]).decode()
    await client.create(MUTATING_WEBHOOKS, behind)
    await served.more(50)
    await change(client, {"metadata": {"annotations": {RENEW: "ca"}}})
    await eventually(lambda: changed(client, before, "ca.crt"))
    await served.more(50)
    after = await stored(client)
    await eventually(lambda: (tmp_path / "tls" / "tls.crt").read_bytes() == after["tls.crt"])
    await served.more(100)
    assert set(served.counted) == {"injected"}, (served.counted, served.failures[:5])


async def test_a_lost_key_of_the_ca_and_a_lost_secret_fail_no_request(client, served, tmp_path) -> None:
    """The keepers know the key; what is deleted comes back as it was."""
    await served.more(50)
    before = await stored(client)
    await change(client, {"data": {"ca.key": None}})
    await eventually(lambda: restored(client, before))
    await client.delete(SECRETS, SECRET, namespace=NAMESPACE)
    await eventually(lambda: restored(client, before))
    await change(client, {"metadata": {"annotations": {RENEW: "certificate"}}})
    await eventually(lambda: changed(client, before, "tls.crt"))
    after = await stored(client)
    await eventually(lambda: (tmp_path / "tls" / "tls.crt").read_bytes() == after["tls.crt"])
    await served.more(100)
    assert set(served.counted) == {"injected"}, (served.counted, served.failures[:5])


async def changed(client: Any, before: dict[str, bytes], name: str) -> bool:
    return (await stored(client))[name] != before[name]


async def restored(client: Any, before: dict[str, bytes]) -> bool:
    try:
        return await stored(client) == before
    except ApiError:
        return False
