"""Classes of service (COS): which are free, which are taken, and what each gives to its CPUs and tasks.

`.` is the class of the operating system, `COS1` that of the infrastructure; the daemon gives out the others in turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from app.devtools.rmd.bits import lowest, mask_of, runs
from app.devtools.rmd.failures import INTERNAL, Failure
from app.devtools.rmd.machine import Machine

OS, INFRA = ".", "COS1"
_FIRST_FREE = 2


@dataclass(slots=True)
class Settings:
    """What a class gives: masks of ways and MBA values by cache; `cpus` as bits."""

    ways: dict[int, int]
    mba: dict[int, int] = field(default_factory=dict)
    cpus: int = 0
    tasks: tuple[str, ...] = ()


class Classes:
    """The classes of one machine. `available` and `used` have their names, `shared` that of the shared pool or ""."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.available = [f"COS{number}" for number in range(_FIRST_FREE, machine.classes)]
        self.used: list[str] = []
        self.shared = ""
        self._settings = {OS: Settings(self._full()), INFRA: Settings(self._infra(), cpus=mask_of(machine.infra.cpus))}

    def restarted(self, machine: Machine) -> Classes:
        """The classes as a daemon finds them that starts on this machine: all free, with the settings they had."""
        found = Classes(machine)
        found._settings = {name: self._settings.get(name, one) for name, one in found._settings.items()} | {
            name: one for name, one in self._settings.items() if name in found.available
        }
        return found

    def present(self) -> dict[str, Settings]:
        """The settings of all classes that are not free."""
        return {name: settings for name, settings in self._settings.items() if name not in self.available}

    def take(self) -> str:
        """The next free class, which is used from now on. Raises Failure where there is none."""
        if not self.available:
            raise Failure("No free CLOS available", INTERNAL)
        name = self.available.pop(0)
        self.used.append(name)
        return name

    def take_shared(self) -> str:
        """The class of the shared pool; it is taken when it is first needed."""
        if not self.available and not self.shared:
            raise Failure("No free CLOS left to create shared group", INTERNAL)
        self.shared = self.shared or self.take()
        return self.shared

    def give_back(self, name: str) -> None:
        """Make a class free again. What is not a used class is left alone, as the daemon only logs it."""
        if name == self.shared:
            # The daemon leaves the name among the used ones; it is not looked for there again.
            self.shared = ""
            self.available.append(name)
        elif name in self.used:
            self.used.remove(name)
            self.available.append(name)

    def mark_used(self, name: str) -> bool:
        """Take this class; False where it is not free."""
        if name not in self.available:
            return False
        self.available.remove(name)
        self.used.append(name)
        return True

    def commit(self, name: str, settings: Settings) -> None:
        """Give a class these settings. CPUs and tasks leave the classes they were in."""
        self.leave(settings.cpus, settings.tasks)
        before = self._settings.get(name)
        if before is not None:
            settings.cpus |= before.cpus
        self._settings[name] = settings

    def leave(self, cpus: int, tasks: tuple[str, ...]) -> None:
        """Move CPUs and tasks to the class of the operating system."""
        for settings in self._settings.values():
            settings.cpus &= ~cpus
            settings.tasks = tuple(task for task in settings.tasks if task not in tasks)

    def destroy(self, name: str) -> None:
        """Forget the settings of a class; its name stays taken."""
        self._settings.pop(name, None)

    def reset(self, name: str) -> None:
        """Give a class all ways and all bandwidth."""
        if name in self._settings:
            self._settings[name].ways, self._settings[name].mba = self._full(), {}

    def free_ways(self, pool: str, *, ignored: tuple[str, ...]) -> dict[int, int]:
        """The ways of a pool, by cache, that no class has but the ignored ones. A class that has all ways has none.

        Raises Failure with the daemon's text where all classes are taken, or the pool is not configured.
        """
        present = self.present()
        if len(present) >= self._machine.classes:
            raise Failure(f"error, not enough CLOS on host, {len(present)} used", INTERNAL)
        reserved = self._machine.reserved(pool)
        if reserved is None:
            raise Failure(f"error doesn't support pool {pool}", INTERNAL)
        taken = [settings.ways for name, settings in present.items() if name not in ignored]
        for ways in taken:
            for cache in reserved:
                mask = ways.get(cache, 0)
                reserved[cache] &= ~(0 if mask == self._machine.full else mask)
        return reserved

    def set_os(self) -> None:
        """Give the operating system the lowest ways that are free, and always those reserved for it."""
        least = (1 << self._machine.os.ways) - 1
        for cache, mask in self.free_ways("none", ignored=(INFRA, OS)).items():
            found = runs(mask | least)
            self._settings[OS].ways[cache] = lowest(mask | least, found[0][1]) if found and not found[0][0] else 0

    def _full(self) -> dict[int, int]:
        return {cache.id: self._machine.full for cache in self._machine.caches}

    def _infra(self) -> dict[int, int]:
        reserved = self._machine.reserved("infra") or {}
        return {cache: mask or self._machine.full for cache, mask in (self._full() | reserved).items()}
