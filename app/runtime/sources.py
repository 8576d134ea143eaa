"""Provides the webhook's caches of attachments and of the control switches, and the tasks that fill them.

The source is a cluster (list and watch) or a directory of manifests; readers see no difference.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from app.errors import Transient, UsageError
from app.kube.client import KubeClient
from app.kube.manifests import ManifestSource
from app.kube.polling import Poller
from app.kube.reflector import Reflector
from app.kube.resources import CONFIG_MAPS, NAMESPACES, NETWORK_ATTACHMENTS
from app.kube.store import Store
from app.kube.transport import connect
from app.networks.model import Attachment, project
from app.networks.settings import NetworksSettings
from app.networks.switches import CONFIG_MAP_KEY, CONFIG_MAP_NAME, Switches, parse_switches
from app.placement.namespaces import tenant_of
from app.placement.settings import ConfinementSettings
from app.settings.source import settings_as
from app.settings.webhook import WebhookSettings
from app.wire import JSON

_log = structlog.get_logger(__name__)
_TOLD = 20
"""Problems of one ConfigMap that are logged one by one."""


class Sources:
    """The stores and their feeders. `run()` keeps them true until cancelled; `waiting()` says what is not ready."""

    def __init__(self, settings: WebhookSettings) -> None:
        if settings.manifests is not None and not Path(settings.manifests).is_dir():
            raise UsageError(f"--manifests {settings.manifests}: no such directory")
        self._settings = settings
        keys = settings_as(settings, NetworksSettings).resource_name_keys
        self._initial = settings_as(settings, NetworksSettings).initial_switches
        confine = settings_as(settings, ConfinementSettings).confine_tenants
        self.attachments: Store[Attachment] = Store(lambda obj: project(obj, keys))
        self.config_maps: Store[str] = Store(self._switches_text)
        self.config_maps.subscribe(lambda *_: self._reload_switches())
        # Listed only where tenants are confined: elsewhere the role of the webhook may not read namespaces.
        self.namespaces: Store[str] | None = Store(tenant_of) if confine else None
        self._switches = self._initial
        self.client: KubeClient | None = None
        self._problems: Callable[[], list[str]] = lambda: ["not started"]

    def switches(self) -> Switches:
        """The switches in force; raises Transient before the ConfigMap (or its absence) is known."""
        if not self.config_maps.synced:
            raise Transient(f"ConfigMap {CONFIG_MAP_NAME} is not loaded yet")
        return self._switches

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each."""
        return self._problems()

    def kinds(self) -> tuple[str, ...]:
        """What is cached."""
        tenants = (NAMESPACES.kind,) if self.namespaces is not None else ()
        return (NETWORK_ATTACHMENTS.kind, CONFIG_MAPS.kind, *tenants)

    async def run(self) -> None:
        """Fill the stores and follow every change until cancelled."""
        if self._settings.manifests is not None:
            await self._run_manifests(self._settings.manifests)
        else:
            await self._run_cluster()

    async def _run_manifests(self, directory: str) -> None:
        source = ManifestSource(
            Path(directory),
            {NETWORK_ATTACHMENTS.kind: self.attachments, CONFIG_MAPS.kind: self.config_maps},
        )
        self._problems = lambda: [] if source.healthy else [source.reason]
        await source.run()

    async def _run_cluster(self) -> None:
        client = await connect(kubeconfig=self._settings.kubeconfig, context=self._settings.context)
        async with client:
            self.client = client
            attachments = Reflector(client, NETWORK_ATTACHMENTS, self.attachments)
            config_map = Reflector(
                client,
                CONFIG_MAPS,
                self.config_maps,
                namespace=self._settings.namespace,
                field_selector=f"metadata.name={CONFIG_MAP_NAME}",
            )
            # The role that Network Resources Injector's deployment brings may get ConfigMaps, and nothing else.
            poller = Poller(client, config_map, namespace=self._settings.namespace, name=CONFIG_MAP_NAME)

            feeders: list[Reflector | Poller] = [attachments, config_map, poller]
            namespaces: Reflector | None = None
            if self.namespaces is not None:
                namespaces = Reflector(client, NAMESPACES, self.namespaces)
                feeders.append(namespaces)

            def problems() -> list[str]:
                found = [_problem(attachments), "" if poller.healthy else _problem(config_map)]
                if namespaces is not None:
                    found.append(_problem(namespaces))
                return [problem for problem in found if problem]

            self._problems = problems
            async with asyncio.TaskGroup() as tasks:
                for feeder in feeders:
                    tasks.create_task(feeder.run())

    def _switches_text(self, obj: JSON) -> str | None:
        """Projection: the text of the switches; None for every other ConfigMap and one without the key."""
        metadata = obj["metadata"]
        if metadata.get("name") != CONFIG_MAP_NAME or metadata.get("namespace") != self._settings.namespace:
            return None
        text = (obj.get("data") or {}).get(CONFIG_MAP_KEY)
        return text if isinstance(text, str) else None

    def _reload_switches(self) -> None:
        text = self.config_maps.get(self._settings.namespace, CONFIG_MAP_NAME)
        self._switches = parse_switches(text, initial=self._initial, previous=self._switches)
        problems = self._switches.problems
        for problem in problems[:_TOLD]:
            _log.warning("control switches", config_map=CONFIG_MAP_NAME, problem=problem)
        if len(problems) > _TOLD:
            _log.warning("control switches", config_map=CONFIG_MAP_NAME, problem=f"and {len(problems) - _TOLD} more")
        _log.info(
            "control switches loaded",
            hugepage_down_api=self._switches.hugepage_down_api,
            honor_existing=self._switches.honor_existing,
            injections=len(self._switches.injections),
        )


def _problem(reflector: Reflector) -> str:
    """Why the cache cannot be relied on; "" where it can.

    A cluster without attachments' definition has no attachments: Berth must not stay unready there, for with
    failurePolicy Fail no Pod could start. A lookup then asks the API server.
    """
    if reflector.healthy or reflector.missing:
        return ""
    return f"{reflector.resource.plural}: {reflector.reason}"
