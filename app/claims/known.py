"""The definitions that are in force: those of the ConfigMap, and those of DeviceClasses."""

from __future__ import annotations

from collections.abc import Callable

from app.claims.definitions import (
    CLASS_PREFIX,
    Definition,
    Definitions,
    DeviceClass,
    all_definitions,
    of_class,
    parse_definitions,
)
from app.kube.configuration import Configuration
from app.kube.store import Store
from app.wire import JSON


class KnownDefinitions:
    """`name` is that of the ConfigMap, the one object of its store. `changed` is called after a change.

    While the ConfigMap cannot be read, what it said before stays in force.
    """

    def __init__(
        self,
        config_maps: Store[JSON],
        classes: Store[DeviceClass],
        *,
        name: str,
        changed: Callable[[], object] = lambda: None,
        logs: bool = True,
    ) -> None:
        self._classes, self._changed = classes, changed
        self._current: Definitions | None = None
        self._configured: Configuration[Definitions] = Configuration(
            config_maps, name=name, parse=parse_definitions, usual={}, changed=self._renew, logs=logs
        )
        self.problems = self._configured.problems
        classes.subscribe(lambda *_change: self._renew())

    @property
    def current(self) -> Definitions:
        if self._current is None:
            self._current = all_definitions(self._configured.current, self._classes.values())
        return self._current

    def find(self, name: str) -> Definition | None:
        """What the template of this name is made from; also for those with one device of a DeviceClass."""
        found = self.current.get(name)
        if found is None and name.startswith(CLASS_PREFIX):
            classes = self._classes.values()
            return next(
                (of_class(device_class, name) for device_class in classes if device_class.template == name), None
            )
        return found

    def _renew(self) -> None:
        self._current = None
        self._changed()
