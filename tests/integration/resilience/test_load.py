"""Reviews that never cease, while everything that is replaced in a year is replaced in seconds: none of them fails."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

import app.networks
from app.certs.certificate_set import encode_bundle, parse_bundle
from app.certs.folder import make
from app.certs.issuing import serving_names
from app.devtools.sandbox.server import Cluster
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NETWORK_ATTACHMENTS
from tests.integration.contract.test_lifecycle import alive, workers_of
from tests.integration.resilience.balancer import DELAY, Balancer
from tests.integration.resilience.load import Load
from tests.integration.resilience.stage import PATIENCE, Stage, busy, fill, staged
from tests.support.waiting import eventually
from tests.support.webhook_process import ATTACHMENTS, Webhook, load_review

NAMES = serving_names(dns=["localhost"], addresses=["127.0.0.1"])
CRD = Path(app.networks.__file__).parent / "crds" / "network-attachment-definitions.yaml"
DRAIN = 8.0
"""Seconds for the balancer to notice, also on a busy machine."""
BODY = json.dumps(load_review("webhook-demo")).encode()


class Secret:
    """The certificates as a Secret holds them, mounted where the replicas read them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        self.files: dict[str, bytes] = {}
        self.renew()

    def renew(self, *, new_authority: bool = False) -> int:
        """Another leaf, under another CA if asked; the serial number that is served from now on."""
        self.files = make(self.files, names=NAMES, now=datetime.now(UTC), new_authority=new_authority)
        for name in ("tls.crt", "tls.key"):
            fresh = self.directory / f"{name}.new"
            fresh.write_bytes(self.files[name])
            fresh.replace(self.directory / name)
        return parse_bundle(self.files["tls.crt"], source="tls.crt")[0].serial_number

    @property
    def bundle(self) -> bytes:
        return self.files["ca-bundle.crt"]

    @property
    def authority(self) -> bytes:
        """The present CA alone."""
        return encode_bundle(parse_bundle(self.files["ca.crt"], source="ca.crt"))


@pytest.fixture
def secret(tmp_path: Path) -> Secret:
    return Secret(tmp_path / "secret")


@pytest.fixture
def replicas(secret: Secret) -> Any:
    started: list[Webhook] = []

    def start(*flags: str) -> Webhook:
        files = (f"--tls-cert-file={secret.directory}/tls.crt", f"--tls-private-key-file={secret.directory}/tls.key")
        ports = ("--bind-address=127.0.0.1", "--port=0", "--health-check-port=0", "--certificate-poll-seconds=0.2")
        pki: Any = secret  # all that a replica wants of it is a directory
        started.append(Webhook(pki, "--insecure", "--drain-seconds=0", *ports, *files, *flags))
        return started[-1]

    yield start
    for webhook in started:
        webhook.stop()


@pytest_asyncio.fixture
async def balancer() -> AsyncIterator[Balancer]:
    async with Balancer() as made:
        yield made


@pytest_asyncio.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    """An infra cluster with two controllers at work, and with attachments."""
    async with staged(tmp_path, monkeypatch) as made:
        for _ in range(2):
            await made.controller()
        client = made.side.client
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, yaml.safe_load(CRD.read_text()))
        for body in yaml.safe_load_all(ATTACHMENTS):
            await client.create(NETWORK_ATTACHMENTS, body, namespace="default")
        await fill(made)
        yield made


async def test_no_review_fails_while_everything_is_replaced(
    stage: Stage, replicas: Callable[..., Webhook], balancer: Balancer, secret: Secret, tmp_path: Path
) -> None:
    """Leaf, CA and its bundle, both replicas, and the leader of the controllers; thousands of reviews meanwhile."""
    source = f"--kubeconfig={_kubeconfig(stage.side.cluster, tmp_path)}"
    old = [replicas(source, f"--drain-seconds={DRAIN}") for _ in range(2)]
    await _join(balancer, *old)
    async with Load(balancer.port, BODY, secret.bundle, kept=6, fresh=2) as load, busy(stage):
        await load.more(300)
        first = await stage.leader()
        first.process.send(signal.SIGKILL)

        serial = secret.renew()
        await load.until(lambda: load.serials[serial] > 10)
        former = secret.bundle
        serial = secret.renew(new_authority=True)
        await load.until(lambda: load.serials[serial] > 10)  # by the bridge: the callers know the old CA alone
        assert former not in secret.authority
        load.trust(secret.bundle)
        await load.more(200)
        load.trust(secret.authority)
        await load.more(200)

        new = [replicas(source), replicas(source)]
        await _join(balancer, *new)
        for replica in old:
            await load.until(lambda: min(balancer.counts[each] for each in new) > 5)
            balancer.leave(replica)
            # A preStop hook that is too short: draining has to make up for it.
            await asyncio.sleep(DELAY / 2)
            replica.signal()
            assert await asyncio.to_thread(replica.wait) == 0
            await load.more(100)
        await stage.leader(but=first)
        await load.until(lambda: load.answered >= 2000)
    assert load.failures == []
    assert load.answered >= 2000
    for replica in (*old, *new):
        assert [event for event in replica.events("review") if event["decision"] != "allowed"] == []
    stage.ledger.prove()


async def test_a_killed_worker_fails_no_more_than_what_it_had_under_way(
    replicas: Callable[..., Webhook], balancer: Balancer, secret: Secret, tmp_path: Path
) -> None:
    """Its connections are reset: one review each at most. Whoever connects after that is answered."""
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    (manifests / "nads.yaml").write_text(ATTACHMENTS)
    replica = replicas(f"--manifests={manifests}", "--workers=2")
    other = replicas(f"--manifests={manifests}")
    await _join(balancer, replica, other)
    kept, fresh = 8, 2
    async with Load(balancer.port, BODY, secret.bundle, kept=kept, fresh=fresh) as load:
        await load.more(200)
        workers = workers_of(replica)
        os.kill(workers[0], signal.SIGKILL)
        await eventually(lambda: not alive(workers[0]))  # until then connections still go to it
        killed = time.monotonic()
        await asyncio.to_thread(replica.until, lambda: set(workers_of(replica)) - set(workers), "another worker")
        await eventually(lambda: _ready(replica), seconds=PATIENCE)
        first = len(load.failures)
        answered = load.answered
        await eventually(lambda: load.answered >= answered + 500, seconds=PATIENCE)
    assert len(load.failures) == first, "it was over when the next worker was ready"
    assert first <= kept + fresh
    connections = [failure.opened for failure in load.failures]
    assert len(set(connections)) == len(connections), "one review a connection"
    assert all(opened <= killed for opened in connections), load.failures


def _kubeconfig(cluster: Cluster, folder: Path) -> Path:
    path = folder / "webhook.kubeconfig"
    path.write_text(cluster.kubeconfig(user="webhook"))
    return path


async def _join(balancer: Balancer, *replicas: Webhook) -> None:
    """Until each gets its share of the connections."""
    for replica in replicas:
        await asyncio.to_thread(lambda each=replica: each.address)
        balancer.add(replica)
    await eventually(lambda: balancer.serves(*replicas), seconds=PATIENCE)


async def _ready(replica: Webhook) -> bool:
    return (await asyncio.to_thread(replica.get, "/readyz"))[0] == 200
