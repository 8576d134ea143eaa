"""Which namespaces' Pods are workloads: the ConfigMap `workload-plugin-config`, followed while the agent runs.

Its key `config` holds YAML, `namespaces: [a, b]`. No ConfigMap, no key or an empty list: all namespaces. A text that
cannot be read changes nothing; where there was no good one before, nothing is known and nothing may be sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog
import yaml

from app.kube.names import check_dns_label
from app.kube.store import Store
from app.tenancy.agent.options import AgentOptions
from app.wire import JSON, load_yaml

log = structlog.get_logger(__name__)

CONFIG_KEY = "config"


def parse_namespaces(text: str) -> frozenset[str]:
    """The namespaces named in a config; none means all. Raises ValueError where it cannot be read."""
    try:
        document = load_yaml(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ValueError(f"no YAML: {' '.join(str(error).split())}") from error
    if document is None:
        return frozenset()
    if not isinstance(document, dict):
        raise ValueError("want a map with the key namespaces")  # noqa: TRY004  a fault of the text
    names = document.get("namespaces")
    if names is None:
        return frozenset()
    if not isinstance(names, list):
        raise ValueError("namespaces: want a list of names")  # noqa: TRY004  as above
    for index, name in enumerate(names):
        if not isinstance(name, str):
            raise ValueError(f"namespaces[{index}]: want a name")  # noqa: TRY004  as above
        try:
            check_dns_label(name)
        except ValueError as error:
            raise ValueError(f"namespaces[{index}]: {error}") from None
    return frozenset(names)


class Namespaces:
    """The filter in force.

    `store` is to be filled with the ConfigMap, a reflector's work; `problem` is for readiness.
    """

    def __init__(self, options: AgentOptions) -> None:
        self._namespace, self._name = options.config_map_namespace, options.config_map
        self.store: Store[str] = Store(self._text)
        self.store.subscribe(lambda *_: self._load())
        self._allowed: frozenset[str] | None = None
        self._known = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []
        self.problem = ""

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Calls `listener` when another filter comes into force."""
        self._listeners.append(listener)

    async def wait_known(self) -> None:
        """Returns once it is known which namespaces there are to watch."""
        await self.store.wait_synced()
        self._load()
        await self._known.wait()

    def allows(self, namespace: str) -> bool:
        """False for every namespace while nothing is known."""
        return self._allowed is not None and (not self._allowed or namespace in self._allowed)

    def _text(self, obj: JSON) -> str | None:
        metadata = obj["metadata"]
        if (metadata.get("namespace"), metadata.get("name")) != (self._namespace, self._name):
            return None
        text = (obj.get("data") or {}).get(CONFIG_KEY)
        return text if isinstance(text, str) else ""

    def _load(self) -> None:
        try:
            found = parse_namespaces(self.store.get(self._namespace, self._name) or "")
        except ValueError as error:
            if self.problem != str(error):
                log.warning(
                    "namespaces of workloads: the last good ones stay", config_map=self._name, problem=str(error)
                )
            self.problem = str(error)
            return
        self.problem = ""
        if found == self._allowed:
            return
        log.info("namespaces of workloads", namespaces=sorted(found) or "all")
        self._allowed = found
        self._known.set()
        for listener in self._listeners:
            listener()
