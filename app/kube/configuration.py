"""Follows a ConfigMap with configuration, of which the last one that could be read stays in force."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import structlog

from app.kube.store import Store
from app.kube.walls import fault
from app.wire import JSON, load_yaml
from app.yaml_documents import YamlError

_log = structlog.get_logger(__name__)
T = TypeVar("T")


def data_of(config_map: JSON) -> JSON:
    """What the cache keeps of the ConfigMap."""
    return {"data": config_map.get("data")}


def yaml_in(text: str, key: str) -> Any:
    """What the YAML of an entry says. Raises ValueError that names the entry."""
    try:
        return load_yaml(text)
    except YamlError as error:
        raise ValueError(f"data[{key}]: this is not YAML: {error}") from error


class Configuration(Generic[T]):
    """`current` is what `parse` reads in the one object of the `store`, and `usual` without that object.

    While `parse` raises ValueError, what it read before stays in force: a typing error must not change what runs.
    `name` is that of the ConfigMap; `changed` is called after a change. What is not used is logged if it `logs`.
    """

    def __init__(
        self,
        store: Store[JSON],
        *,
        name: str,
        parse: Callable[[JSON], T],
        usual: T,
        changed: Callable[[], object] = lambda: None,
        logs: bool = True,
    ) -> None:
        self._logs = logs
        self.current = usual
        self._name, self._parse, self._usual, self._changed = name, parse, usual, changed
        self._problem = ""
        store.subscribe(lambda _event, _key, _old, new: self._read(new))

    def problems(self) -> list[str]:
        """What is not used, one line each."""
        return [self._problem] if self._problem else []

    def _read(self, config_map: JSON | None) -> None:
        try:
            self.current = self._usual if config_map is None else self._parse(config_map)
        except Exception as error:  # noqa: BLE001  the wall: whatever an admin writes, what was read before stays
            if not isinstance(error, ValueError):
                if self._logs:
                    fault("configuration", "configuration not read", name=self._name)
                error = ValueError(f"it cannot be read ({type(error).__name__}); the log has it")
            self._problem = f"configmaps/{self._name}: {error}"
            if self._logs:
                _log.warning("configuration not used", problem=self._problem)
            return
        self._problem = ""
        self._changed()
