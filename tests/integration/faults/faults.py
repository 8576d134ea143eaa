"""The faults that a driver injects at random: killed roles, failing connections, restarts, second lives."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from app.devtools.sandbox.storage import Snapshot
from app.workloads.model import ADMIN_RULES, UVS_PODS
from tests.integration.faults.oracle import Book
from tests.integration.faults.reading import _is_mirror, guest_of
from tests.integration.faults.world import Life, Side, World


class Faults:
    """What a driver inherits; it has a world, a source of chance, and a history to write into."""

    world: World
    random: random.Random
    history: list[str]
    book: Book
    snapshots: dict[str, Snapshot]
    _owed: dict[str, Any]
    _down: list[str]

    def _note(self, text: str) -> None:
        self.history.append(text)

    def _tenant(self) -> tuple[str, Side]:
        return self.random.choice(sorted(self.world.tenants.items()))

    async def _kill_controller(self) -> None:
        await self._kill("controller")

    async def _kill_gateway(self) -> None:
        await self._kill("gateway")

    async def _kill_agent(self) -> None:
        await self._kill(f"agent-{self._tenant()[0]}")

    async def _kill(self, role: str) -> None:
        """One of the role dies; another life begins at once, or only at the end of the round."""
        if lives := self.world.lives.get(role):
            life = self.random.choice(lives)
            self.world.kill(life)
            later = self.random.random() < 0.5
            self._note(f"FAULT kill {life.name}" + (", stays down" if later else ""))
            if later:
                self._down.append(role)
            else:
                await self.world.start(role)

    async def _second(self, role: str) -> None:
        if len(self.world.lives.get(role, [])) < 2:
            life = await self.world.start(role)
            self._note(f"FAULT second {life.name}")

    async def _second_controller(self) -> None:
        await self._second("controller")

    async def _second_gateway(self) -> None:
        await self._second("gateway")

    async def _second_agent(self) -> None:
        await self._second(f"agent-{self._tenant()[0]}")

    def _life(self) -> Life | None:
        lives = [life for role in self.world.roles for life in self.world.lives.get(role, [])]
        return self.random.choice(lives) if lives else None

    async def _cut(self) -> None:
        if (life := self._life()) is not None:
            number = self.random.randrange(len(life.proxies))
            self._note(f"FAULT cut {life.name}[{number}]")
            life.proxies[number].cut()

    async def _stall(self) -> None:
        if (life := self._life()) is not None:
            proxy, seconds = self.random.choice(life.proxies), self.random.random() * 0.3
            self._note(f"FAULT stall {life.name} {seconds:.2f}")
            proxy.stall()
            asyncio.get_running_loop().call_later(seconds, proxy.resume)

    async def _refuse(self) -> None:
        if (life := self._life()) is not None:
            proxy, seconds = self.random.choice(life.proxies), self.random.random() * 0.2
            self._note(f"FAULT refuse {life.name} {seconds:.2f}")
            proxy.refusing = True
            proxy.cut()
            asyncio.get_running_loop().call_later(seconds, proxy.resume)

    async def _restart_api(self) -> None:
        name, side = self.random.choice([("infra", self.world.infra), *self.world.tenants.items()])
        self._note(f"FAULT restart API server of {name}")
        await side.restart(self.random.random() * 0.1)

    async def _restore_behind(self) -> None:
        await self._restore(ahead=False)

    async def _restore_ahead(self) -> None:
        await self._restore(ahead=True)

    async def _restore(self, *, ahead: bool) -> None:
        """A cluster becomes what it was at the end of the last round."""
        name, snapshot = self.random.choice(sorted(self.snapshots.items()))
        side = self.world.infra if name == "infra" else self.world.tenants[name]
        self._note(f"FAULT restore {name}, {'ahead' if ahead else 'behind'}")
        await side.restore(snapshot, ahead=ahead)
        self._forget_lost(name, side)

    def _forget_lost(self, name: str, side: Side) -> None:
        """What others keep there, and what was known to last, is what the snapshot held."""
        book, storage = self.book, side.cluster.storage
        book.stable.clear()
        for place, (uid, version) in list(book.foreign.items()):
            cluster, plural, *rest = place
            if cluster == name:
                found = (storage.get(("", plural), *rest) or {"metadata": {}})["metadata"]
                if (found.get("uid"), found.get("resourceVersion")) != (uid, version):
                    del book.foreign[place]
        if name == "infra":
            book.admin = {obj["metadata"]["name"]: obj["spec"] for obj in side.all(ADMIN_RULES)}
            self._owed.clear()
        else:
            guests = {obj["metadata"]["name"]: guest_of(obj) for obj in side.all(UVS_PODS) if not _is_mirror(obj)}
            for place in [place for place in book.guests if place[0] == name]:
                if place[1] in guests:
                    book.guests[place] = guests[place[1]]
                else:
                    del book.guests[place]

    async def _compact(self) -> None:
        """All versions are too old from now on, and every watch is cut: it has to list again."""
        self._note("FAULT compact and cut all")
        for side in (self.world.infra, *self.world.tenants.values()):
            side.cluster.storage.compact()
        for lives in self.world.lives.values():
            for life in lives:
                life.proxies[0].cut()
