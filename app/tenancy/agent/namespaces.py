"""Which namespaces' Pods are workloads: the ConfigMap `workload-plugin-config`, followed while the agent runs.

Its key `config` holds YAML, `namespaces: [a, b]`. No ConfigMap, no key or an empty list: all namespaces. A text that
cannot be read changes nothing. Nothing is sent before the first text that can be read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from app.kube.kit import Kit
from app.kube.names import check_dns_label
from app.kube.resources import CONFIG_MAPS
from app.kube.store import Store
from app.tenancy.agent.settings import AgentSettings
from app.wire import JSON, load_yaml

log = structlog.get_logger(__name__)

CONFIG_KEY = "config"


def parse_namespaces(text: str) -> frozenset[str]:
    """The namespaces named in a config; none means all. Raises ValueError where it cannot be read."""
    try:
        document = load_yaml(text)
    except ValueError as error:
        raise ValueError(f"no YAML: {error}") from error
    if not isinstance(document, dict | None):
        raise ValueError("want a map with the key namespaces")  # noqa: TRY004  a fault of the text
    names = (document or {}).get("namespaces")
    if not isinstance(names, list | None):
        raise ValueError("namespaces: want a list of names")  # noqa: TRY004  as above
    for index, name in enumerate(names or ()):
        if not isinstance(name, str):
            raise ValueError(f"namespaces[{index}]: want a name")  # noqa: TRY004  as above
        try:
            check_dns_label(name)
        except ValueError as error:
            raise ValueError(f"namespaces[{index}]: {error}") from None
    return frozenset(names or ())


class Namespaces:
    """The filter in force, of a cache of the kit; `problem` is for readiness.

    `on_change` is called after each change of the filter.
    """

    def __init__(self, kit: Kit, settings: AgentSettings) -> None:
        self._namespace, self._name = settings.configmap_namespace, settings.configmap_name
        self.store: Store[str] = kit.cache(
            CONFIG_MAPS, _text, namespace=self._namespace, fields=f"metadata.name={self._name}"
        )
        self.store.subscribe(lambda *_: self._load())
        self._allowed: frozenset[str] | None = None
        self._known = asyncio.Event()
        self.on_change: Callable[[], None] = lambda: None
        self.problem = ""

    async def wait_known(self) -> None:
        await self.store.wait_synced()
        self._load()
        await self._known.wait()

    def allows(self, namespace: str) -> bool:
        """False for every namespace while nothing is known."""
        return self._allowed is not None and (not self._allowed or namespace in self._allowed)

    def _load(self) -> None:
        try:
            found = parse_namespaces(self.store.get(self._namespace, self._name) or "")
        except ValueError as error:
            problem = str(error)
            if self.problem != problem:
                log.warning("namespaces of workloads: the last good ones stay", config_map=self._name, problem=problem)
            self.problem = problem
            return
        self.problem = ""
        if found != self._allowed:
            log.info("namespaces of workloads", namespaces=sorted(found) or "all")
            self._allowed = found
            self._known.set()
            self.on_change()


def _text(config_map: JSON) -> str:
    text = (config_map.get("data") or {}).get(CONFIG_KEY)
    return text if isinstance(text, str) else ""
