"""Follows the ConfigMap with the configuration of AppWrappers, for webhook and controller alike."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from app.appwrappers.config import OperatorConfig, parse_config
from app.kube.store import Store
from app.wire import JSON

_log = structlog.get_logger(__name__)


def data_of(config_map: JSON) -> JSON:
    """What the cache keeps of the ConfigMap."""
    return {"data": config_map.get("data")}


class Configuration:
    """`current` is what the one object of the `store` says, the defaults without it.

    While it cannot be read, what it said before stays in force: a typing error must not change what runs. `name` is
    that of the ConfigMap; `changed` is called after a change.
    """

    def __init__(self, store: Store[JSON], *, name: str, changed: Callable[[], object] = lambda: None) -> None:
        self.current = OperatorConfig()
        self._name, self._problem, self._changed = name, "", changed
        store.subscribe(lambda _event, _key, _old, new: self._read(new))

    def problems(self) -> list[str]:
        """What is not used, one line each."""
        return [self._problem] if self._problem else []

    def _read(self, config_map: JSON | None) -> None:
        try:
            self.current = OperatorConfig() if config_map is None else parse_config(config_map)
        except ValueError as error:
            self._problem = f"configmaps/{self._name}: {error}"
            _log.warning("configuration not used", problem=self._problem)
            return
        self._problem = ""
        self._changed()
