"""The parts of reviews: what each wing puts into the chains, and the caches that these parts read.

A wing asks for caches and does not know what fills them: a cluster, a directory of manifests, or objects read once.
What it keeps of a namespace is found in the cache, else with one GET.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from app.admission.chain import Chain, Check, Injector, PodInjector
from app.admission.pods import Pod
from app.errors import Denied, Transient
from app.kube.client import KubeClient
from app.kube.lookup import Lookup, Steps
from app.kube.resources import NAMESPACES, Resource
from app.kube.store import Key, PoisonError, Store
from app.settings.source import RoleSettings
from app.wire import JSON

EXEMPT = "kube-system"
"""The namespace whose Pods are never changed, beside that of the webhook itself."""
T = TypeVar("T")


class Cached(NamedTuple):
    """A cache: of all objects of a kind, or of `only` one (namespace and name)."""

    resource: Resource
    store: Store[Any]
    only: Key | None


class ReviewCaches:
    """What the parts of reviews read of a cluster. `client` reads what no cache has; None where it cannot (yet)."""

    def __init__(self) -> None:
        self.all: list[Cached] = []
        self._listeners: list[Callable[[], object]] = []
        self._lookups: dict[Hashable, Lookup[Any]] = {}
        self.client: KubeClient | None = None

    def cache(
        self,
        resource: Resource,
        project: Callable[[JSON], T | None],
        *,
        only: Key | None = None,
        indices: Mapping[str, Callable[[T], Iterable[Hashable]]] | None = None,
        volatile: bool = False,
    ) -> Store[T]:
        """A cache that is filled from now on, or when `fill` is called.

        A `volatile` one changes with every Pod or two: an injector that reads it sets `MutationPlan.keep` to False.
        """
        kept = project if only is None else lambda obj: project(obj) if _key(obj) == only else None
        store: Store[T] = Store(kept, indices=indices)
        if not volatile:
            store.subscribe(self._change)
        self.all.append(Cached(resource, store, only))
        return store

    def namespaces(self, project: Callable[[JSON], T]) -> Namespaces[T]:
        """Namespaces by a cache of them, and by `client` where it lacks one."""
        return Namespaces(self.lookup(NAMESPACES, project, called="namespace", field="metadata.namespace"))

    def lookup(
        self, resource: Resource, project: Callable[[JSON], T], *, called: str, field: str, volatile: bool = False
    ) -> Lookup[T]:
        """Such a cache, with one GET for what it lacks; one for all who ask with the same function.

        `called` and `field` are as of a `Lookup`.
        """
        key = (resource, project)
        if key not in self._lookups:
            cache = self.cache(resource, project, volatile=volatile)
            self._lookups[key] = Lookup(
                resource, cache, project, client=lambda: self.client, called=called, field=field
            )
        return self._lookups[key]

    def on_changed(self, listener: Callable[[], object]) -> None:
        """Calls `listener` on every later change of a cache that is not volatile, before a review can see it."""
        self._listeners.append(listener)

    def _change(self, *_: object) -> None:
        for listener in self._listeners:
            listener()

    async def fill(
        self,
        read: Callable[[Cached], AsyncIterable[JSON]],
        *,
        unreadable: Callable[[JSON, PoisonError], None] | None = None,
    ) -> None:
        """Fill all caches once with what `read` finds for each.

        `unreadable` is called with an object that cannot be kept. Without it, raises PoisonError.
        """
        for cached in self.all:
            replacement = cached.store.replacement()
            async for obj in read(cached):
                try:
                    replacement.add(obj)
                except PoisonError as error:
                    if unreadable is None:
                        raise
                    unreadable(obj, error)
            replacement.commit()
            cached.store.mark_synced()


Claimed = Callable[[Pod, str], Steps[Mapping[str, int]]]
"""Of a Pod in a namespace: how many devices its claims ask for, by extended resource."""

Named = Callable[[Pod, Mapping[str, int]], Steps[Mapping[str, int]]]
"""Of a Pod, and how many devices its networks need by extended resource: how many of these containers ask for by
another name of the same devices.
"""


@dataclass(frozen=True, slots=True)
class Context:
    """What the parts of a wing are made with; `namespace` is the webhook's own. With `logs` they log what they read.

    A wing adds to `pod_injectors` what can inject into Pod templates of other objects too, in the order of wings, and
    to `claimed` and `named` what finds the extended resources that claims of a Pod, or other names, serve already.
    """

    settings: RoleSettings
    namespace: str
    caches: ReviewCaches
    logs: bool = False
    pod_injectors: list[PodInjector] = field(default_factory=list)
    claimed: list[Claimed] = field(default_factory=list)
    named: list[Named] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Parts:
    """Injectors and checks of one wing. `problems` says what of the wing's own configuration is not used.

    `injects` says whether its injectors can have put a part into an object, by the kind and the name that it has in
    the annotation `berth.dev/injected`.
    """

    injectors: tuple[Injector, ...] = ()
    checks: tuple[Check, ...] = ()
    problems: Callable[[], list[str]] = list
    injects: Callable[[str, str], bool] = lambda _kind, _name: False


def chains(parts: list[Parts], *, namespace: str) -> dict[str, Chain]:
    """The chains by webhook, out of the parts of all wings in their order."""
    return {
        "mutate": Chain(
            injectors=[injector for part in parts for injector in part.injectors],
            exempt_namespaces=frozenset({EXEMPT, namespace}),
        ),
        "validate": Chain(checks=[check for part in parts for check in part.checks]),
    }


class Namespaces(Generic[T]):
    """Namespaces as a lookup shows them. Never guesses: one that cannot be read or is missing is an error."""

    def __init__(self, lookup: Lookup[T]) -> None:
        self._lookup = lookup

    def cached(self, namespace: str) -> T | None:
        """None where the cache does not have the namespace."""
        return self._lookup.cached("", namespace)

    async def find(self, namespace: str) -> T:
        """As `cached`, but reads what the cache lacks. Raises Transient where that fails, Denied where there is none.

        The GET is not answered from a cache of the API server, and the server looks the namespace up before it asks a
        webhook. So a namespace that is not found is gone, as for the server's own plugin NamespaceLifecycle.
        """
        kept = await self._lookup.find("", namespace)
        if kept is not None:
            return kept
        if not self._lookup.connected:
            raise Transient(f"could not read namespace {namespace}: there is no connection to the cluster yet")
        raise Denied(
            f"metadata.namespace: namespace {namespace} was not found; create it first, or name one that exists",
            reason="NamespaceNotFound",
            code=404,
        )


def _key(obj: JSON) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata.get("name") or ""
