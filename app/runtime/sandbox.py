"""Stands up the sandbox: API servers with nodes, the CRDs, a webhook for each, and the configurations that call it.

Berth itself is what runs anywhere else: it is given a kubeconfig and certificates and does not know where it is.
The API servers are our own stand-ins, or real ones where kubeconfigs are given.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog
import yaml

import app.networks
from app.admission.server import bind
from app.certs import files as certificate_files
from app.certs.holdings import make
from app.certs.issuing import serving_names
from app.certs.registration import Terms, attachments_to, pods_to
from app.errors import BerthError, UsageError
from app.kube.client import KubeClient
from app.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    MUTATING_WEBHOOKS,
    NETWORK_ATTACHMENTS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from app.kube.transport import connect
from app.runtime.clusters import CLUSTERS, ClusterPlan
from app.runtime.serving import Serving
from app.sandbox.server import Cluster
from app.sandbox.standins.standins import StandIns
from app.settings.webhook import load
from app.wire import JSON

_log = structlog.get_logger(__name__)
_CRDS = Path(app.networks.__file__).parent / "crds"
_START_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Running:
    """One cluster that is up: how to reach it, and its webhook's port."""

    name: str
    url: str
    kubeconfig: Path
    nodes: tuple[str, ...]
    webhook_port: int
    health_port: int


class Sandbox:
    """`async with Sandbox(directory) as clusters:` yields when every webhook is ready and registered.

    `kubeconfigs` maps cluster names to kubeconfigs of API servers that already run; the rest are stand-ins. Files
    that the sandbox writes: `<cluster>.kubeconfig` and `webhook/` (certificates).
    """

    def __init__(
        self,
        directory: Path,
        *,
        kubeconfigs: Mapping[str, Path] | None = None,
        stand_ins: bool = True,
        log_level: str = "warning",
    ) -> None:
        self._directory = directory
        self._kubeconfigs = dict(kubeconfigs or {})
        self._stand_ins = stand_ins
        self._log_level = log_level
        self._running_stand_ins: list[asyncio.Task[None]] = []
        unknown = sorted(set(self._kubeconfigs) - {plan.name for plan in CLUSTERS})
        if unknown:
            raise UsageError(f"no cluster {unknown[0]!r} in the sandbox: want {', '.join(p.name for p in CLUSTERS)}")
        # Given API servers stand alone: what was not given is not made up beside them.
        self._plans = [plan for plan in CLUSTERS if not kubeconfigs or plan.name in self._kubeconfigs]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[list[Running]]:
        """The clusters, for as long as the block runs."""
        bundle = self._issue_certificates()
        stop = asyncio.Event()
        try:
            async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
                try:
                    yield [await self._start(plan, bundle, stack=stack, tasks=tasks, stop=stop) for plan in self._plans]
                finally:
                    stop.set()
                    for stand_in in self._running_stand_ins:
                        stand_in.cancel()
        except* BerthError as group:
            raise group.exceptions[0] from None

    async def _start(
        self,
        plan: ClusterPlan,
        bundle: str,
        *,
        stack: contextlib.AsyncExitStack,
        tasks: asyncio.TaskGroup,
        stop: asyncio.Event,
    ) -> Running:
        kubeconfig = await self._api_server(plan, stack)
        client = await stack.enter_async_context(await connect(kubeconfig=str(kubeconfig)))
        await _install_crds(client)
        if self._stand_ins:
            self._running_stand_ins.append(tasks.create_task(StandIns(client, plan.nodes).run()))
        listener, health = bind("127.0.0.1", 0), bind("127.0.0.1", 0)
        serving = self._serving(kubeconfig, listener=listener, health=health)
        tasks.create_task(serving.run(stop))
        await _until_ready(serving, cluster=plan.name)
        port = listener.getsockname()[1]
        await _register(client, url=f"https://127.0.0.1:{port}", bundle=bundle)
        return Running(
            name=plan.name,
            url=client.server,
            kubeconfig=kubeconfig,
            nodes=tuple(node.name for node in plan.nodes),
            webhook_port=port,
            health_port=health.getsockname()[1],
        )

    async def _api_server(self, plan: ClusterPlan, stack: contextlib.AsyncExitStack) -> Path:
        """The kubeconfig of the cluster, in our directory; starts a stand-in where none was given."""
        target = self._directory / f"{plan.name}.kubeconfig"
        if plan.name in self._kubeconfigs:
            _write_private(target, _standing_alone(self._kubeconfigs[plan.name]))
            return target
        cluster = await stack.enter_async_context(Cluster(plan.name))
        _write_private(target, cluster.kubeconfig())
        return target

    def _serving(self, kubeconfig: Path, *, listener: socket.socket, health: socket.socket) -> Serving:
        folder = self._directory / "webhook"
        settings = load(
            {
                "kubeconfig": str(kubeconfig),
                "insecure": True,
                "tls_cert_file": str(folder / "tls.crt"),
                "tls_private_key_file": str(folder / "tls.key"),
                "drain_seconds": 0.0,
                "log_level": self._log_level,
            },
            environment=False,
        )
        return Serving(settings, listener=listener, health=health)

    def _issue_certificates(self) -> str:
        """A CA and a serving certificate for loopback, in `webhook/`; returns the caBundle value."""
        names = serving_names(dns=("localhost",), addresses=("127.0.0.1",))
        files = make({}, names=names, now=datetime.now(UTC), days=30)
        certificate_files.write_files(self._directory / "webhook", files)
        return base64.b64encode(files["ca.crt"]).decode()


async def _register(client: KubeClient, *, url: str, bundle: str) -> None:
    def calling(path: str) -> JSON:
        return {"url": url + path, "caBundle": bundle}

    mutating = pods_to(calling("/mutate"), name="berth", webhook="mutate.berth.dev", terms=Terms())
    validating = attachments_to(calling("/validate"), name="berth", webhook="validate.berth.dev", terms=Terms())
    await client.apply(MUTATING_WEBHOOKS, "berth", mutating)
    await client.apply(VALIDATING_WEBHOOKS, "berth", validating)


async def _install_crds(client: KubeClient) -> None:
    for path in sorted(_CRDS.glob("*.yaml")):
        body: JSON = yaml.safe_load(path.read_text())
        await client.apply(CUSTOM_RESOURCE_DEFINITIONS, body["metadata"]["name"], body)
    await _until_served(client, NETWORK_ATTACHMENTS)


async def _until_served(client: KubeClient, resource: Resource) -> None:
    """A CRD is served a moment after it was written."""
    async with asyncio.timeout(_START_SECONDS):
        while True:
            try:
                await client.list_page(resource, limit=1)
            except BerthError:
                await asyncio.sleep(0.05)
            else:
                return


async def _until_ready(serving: Serving, *, cluster: str) -> None:
    try:
        async with asyncio.timeout(_START_SECONDS):
            while serving.waiting():  # noqa: ASYNC110  readiness is a question, not an event
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise BerthError(f"{cluster}: the webhook is not ready: {'; '.join(serving.waiting())}") from None


_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


def _standing_alone(path: Path) -> str:
    """The kubeconfig at `path` with absolute paths in it, so that a copy elsewhere says the same."""
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        entries = [named[kind] for kind in ("cluster", "user") for named in config[f"{kind}s"]]
        for entry in entries:
            entry.update({key: str((path.parent / entry[key]).absolute()) for key in _PATHS if entry.get(key)})
    except OSError as error:
        raise UsageError(f"--kubeconfig {path}: {error.strerror}") from error
    except (UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"--kubeconfig {path}: not a kubeconfig") from error
    return yaml.safe_dump(config)


def _write_private(path: Path, text: str) -> None:
    """A kubeconfig holds a key: only its owner may read it, from the first byte on."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
