"""What a view is: the interface between the views of wings and what serves them.

A view is data: its name, its model, the function that makes the model, and the template that writes a part of it. The
JSON and the HTML are made of the same model, so a view says nothing twice and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from app.doctor.aiming import AIMLESS, Aim
from app.doctor.cluster import Cluster
from app.ui.footprints import Footprint, Results, Signal
from app.ui.reader import Reader
from app.ui.rights import Rights
from app.ui.stores import Stores

T = TypeVar("T")


class Model(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a view shows: texts, numbers, and lists and mappings of them. Its docstrings are those of the schema."""

    def fragments(self) -> Mapping[str, Any]:
        """The parts of the page in their order, by names of letters, digits and dashes: each is sent when it changes.

        By default one for each member.
        """
        return {name: getattr(self, name) for name in self.__struct_fields__}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A word of the query that a view knows, with its meaning in the reference."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class View:
    """`name` is its place in paths, `title` its name on the page, `text` what it shows, in a sentence.

    `read` makes the model, and raises ApiError where the API server does not answer, UsageError for a query that is
    wrong. `template` is the path below `app` of a template that writes one fragment: it gets `fragment`, the name,
    `value`, what the model has of it, the `model` and `asked`. `judge` makes the model
    of a text that a form of the page sends (POST, in `text`); it writes nothing.
    """

    name: str
    title: str
    text: str
    model: type[Model]
    read: Callable[[Asked], Awaitable[Model]]
    template: str
    parameters: tuple[Parameter, ...] = ()
    judge: Callable[[Asked, str], Awaitable[Model]] | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A cluster that can be looked at: what is known of it, and how commands of `berth` name it."""

    name: str
    stores: Stores
    results: Results
    aim: Aim = AIMLESS
    namespace: str = ""
    release: str = "berth"

    def cluster(self, rights: Rights, footprint: Footprint) -> Cluster:
        """What checks, sections and judges read, for one caller."""
        return Cluster(
            Reader(self.stores, rights, footprint),
            namespace=self.namespace,
            release=self.release,
            aim=self.aim,
            sought=bool(self.namespace),
            calls=rights.tries,
        )


@dataclass(slots=True)
class Asked:
    """One request for a view: by whom, of which cluster, with which query. `names` are those of all clusters."""

    source: Source
    rights: Rights
    view: str
    query: Mapping[str, str] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    used: list[Signal] = field(default_factory=list)
    """The results that the model was made of: when one of them is stale, the model is."""

    async def kept(self, key: Hashable, compute: Callable[[Cluster], Awaitable[T]]) -> T:
        """What `compute` returns; computed again only after something that it read has changed.

        `key` names it among what is kept for this caller and this cluster, whichever view asks. What is kept is shared:
        it must not be changed.
        """
        whole = (self.rights.key, key)
        run = self._computing(compute)
        result = await self.source.results.get(whole, run)
        for right in tuple(result.footprint.rights):
            if not await self.rights.allowed(right):
                self.source.results.forget(whole)
                result = await self.source.results.get(whole, run)
                break
        self.used.append(result)
        await asyncio.sleep(0)  # others have their turn
        return result.task.result()

    async def later(self, key: Hashable, compute: Callable[[Cluster], Awaitable[T]], *, every: float) -> T | None:
        """What `compute` returned last, None before the first time; nothing waits for it.

        For what asks much: it is computed again at most once in so many seconds, while a page shows it.
        """
        whole = (self.rights.key, key)
        last, signal = self.source.results.later(whole, self._computing(compute), every=every)
        self.used.append(signal)
        if last is None:
            return None
        for right in tuple(last.footprint.rights):
            if not await self.rights.allowed(right):
                self.source.results.forget_later(whole)
                return None
        return last.task.result()

    async def series(
        self, key: Hashable, compute: Callable[[Cluster], Awaitable[T]], *, every: float, most: int
    ) -> tuple[T, ...]:
        """What `compute` returned the last times, the newest last, as `later` does it; () before the first time."""
        results, whole = self.source.results, (self.rights.key, key)

        async def run(cluster: Cluster) -> tuple[T, ...]:
            value = await compute(cluster)
            return (*(results.last(whole) or ()), value)[-most:]

        return await self.later(key, run, every=every) or ()

    def _computing(self, compute: Callable[[Cluster], Awaitable[T]]) -> Callable[[Footprint], Awaitable[T]]:
        async def run(footprint: Footprint) -> T:
            cluster = self.source.cluster(self.rights, footprint)
            try:
                return await compute(cluster)
            finally:
                await cluster.close()

        return run

    def link(self, view: str = "", **query: str) -> str:
        """The path of a view of the same cluster; of this one, with its query changed, where none is named.

        A word of the query with the value "" is left out.
        """
        words = dict(query) if view else {**self.query, **query}
        if self.source.name != self.names[0]:
            words["cluster"] = self.source.name
        words = {name: text for name, text in words.items() if text}
        return f"/{view or self.view}" + (f"?{urlencode(words)}" if words else "")

    def at(self, name: str) -> str:
        """The path of this view of another cluster: objects there are others, so without the query."""
        return f"/{self.view}" + (f"?{urlencode({'cluster': name})}" if name != self.names[0] else "")

    @property
    def words(self) -> str:
        """The query of this page, with its question mark, as other paths of the same view take it."""
        return self.link()[len(self.view) + 1 :]


def schema_of(model: type[Model]) -> dict[str, Any]:
    """The JSON schema of what `/api/NAME` answers."""
    return msgspec.json.schema(model)
