"""The control switches in force, out of the cache of their ConfigMap."""

from __future__ import annotations

import structlog

from app.errors import Transient
from app.kube.store import Store
from app.networks.switches import CONFIG_MAP_KEY, CONFIG_MAP_NAME, Switches, parse_switches
from app.wire import JSON

_log = structlog.get_logger(__name__)
_LOGGED = 20
"""Problems of one ConfigMap that are logged one by one."""


def text_of(config_map: JSON) -> str | None:
    """What the cache keeps of the ConfigMap."""
    data = config_map.get("data")
    text = data.get(CONFIG_MAP_KEY) if isinstance(data, dict) else None
    return text if isinstance(text, str) else None


class ControlSwitches:
    """Follows the ConfigMap in `namespace`, and `logs` what it says. `initial` are the switches without it."""

    def __init__(self, store: Store[str], *, namespace: str, initial: Switches, logs: bool = False) -> None:
        self._store, self._namespace, self._initial, self._logs = store, namespace, initial, logs
        self._switches = initial
        store.subscribe(lambda *_: self._reload())

    def __call__(self) -> Switches:
        """The switches in force; raises Transient before the ConfigMap (or its absence) is known."""
        if not self._store.synced:
            raise Transient(f"ConfigMap {CONFIG_MAP_NAME} is not loaded yet")
        return self._switches

    def problems(self) -> list[str]:
        """What of the ConfigMap is not used."""
        return [f"ConfigMap {CONFIG_MAP_NAME}: {problem}" for problem in self._switches.problems]

    def _reload(self) -> None:
        text = self._store.get(self._namespace, CONFIG_MAP_NAME)
        self._switches = parse_switches(text, initial=self._initial, previous=self._switches)
        if self._logs:
            self._log_all()

    def _log_all(self) -> None:
        problems = self._switches.problems
        for problem in problems[:_LOGGED]:
            _log.warning("control switches", config_map=CONFIG_MAP_NAME, problem=problem)
        if len(problems) > _LOGGED:
            more = f"and {len(problems) - _LOGGED} more"
            _log.warning("control switches", config_map=CONFIG_MAP_NAME, problem=more)
        _log.info(
            "control switches loaded",
            hugepage_down_api=self._switches.hugepage_down_api,
            honor_existing=self._switches.honor_existing,
            injections=len(self._switches.injections),
        )
