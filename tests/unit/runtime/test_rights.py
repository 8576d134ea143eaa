"""What a role may list and watch is what its kits cache, and each of these caches has its series before it is filled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from app.admission.parts import Context, ReviewCaches
from app.appwrappers.kueue import controller as kueue
from app.appwrappers.kueue.model import WORKLOADS
from app.kube.client import KubeClient
from app.kube.events import EventRecorder
from app.kube.kit import Kit, Watches, declare
from app.kube.metrics import CACHE_OBJECTS, QUEUE_DEPTH
from app.kube.reflector import Reflector, Scope
from app.kube.store import Store
from app.permissions import permissions_of, places
from app.registry import BY_NAME, CONTROLLERS, parts_of, settings_of
from app.runtime.serving import Sources
from app.settings.reconciling import ControllerContext, RoleContext, Runnable
from app.wiring import resolve

CLIENT = cast("KubeClient", KubeClient(cast("Any", None)))
SETTINGS: dict[str, dict[str, Any]] = {
    "agent": {"gateway": "gateway.example:443", "tenant": "acme"},
    "certificates": {"namespace": "release", "gateway": True},
    "claims-node": {"node_name": "n"},
    "gateway": {},
    "rmd-node": {"node_name": "n"},
    "webhook": {"namespace": "release", "claims": True, "appwrappers": True, "rmd_backend": "daemon"},
}
"""The settings of each role with caches, so that it makes all of them. The controllers of the controller are apart."""


class Followed(list[Scope]):
    """The scopes that are followed from now on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        follow = Watches.follow

        def record(watches: Watches, scope: Scope, store: Store[Any], *, called: str = "") -> Reflector:
            self.append(scope)
            return follow(watches, scope, store, called=called)

        monkeypatch.setattr(Watches, "follow", record)


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> Followed:
    return Followed(monkeypatch)


@dataclass(frozen=True)
class Right:
    """A list and a watch. `name` "" is every object."""

    group: str
    plural: str
    namespace: str
    name: str


def right_of(scope: Scope) -> Right:
    field, _, value = scope.field_selector.partition("=")
    name = scope.name or (value if field == "metadata.name" else "")
    return Right(scope.resource.group, scope.resource.plural, scope.namespace or "", name)


def rights_of(role: str, settings: dict[str, Any], *, controllers: tuple[str, ...] = ()) -> Iterable[Right]:
    namespaces = places(release="release", settings=settings)
    chosen = {"controllers": controllers} if controllers else settings
    for permission in permissions_of(role, **chosen):
        if {"list", "watch"} <= {*permission.verbs}:
            for plural in permission.resources:
                for name in permission.names or ("",):
                    yield Right(permission.group, plural, namespaces[permission.scope], name)


def covering(right: Right) -> set[Right]:
    """The right, and those of the whole cluster or of all names that have it in them."""
    return {right, replace(right, namespace=""), replace(right, name=""), replace(right, namespace="", name="")}


def built(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Callable[[KubeClient], Kit], list[Any]]:
    """How a controller is made, and the tasks of its kit that declare more when they run."""
    begins = list[Callable[[], Awaitable[None]]]()
    events = EventRecorder(lambda: None, role="controller", instance="i")
    settings = settings_of("controller")(namespace="release")
    monkeypatch.setattr(kueue.WorkloadsOfAppWrappers, "_served", lambda _: asyncio.sleep(0, WORKLOADS))
    monkeypatch.setattr(Kit, "beside", lambda _kit, task, work: begins.append(work) if task == name else None)
    build = resolve(CONTROLLERS[name].build)
    return lambda client: build(ControllerContext(client, settings, events, Watches(client))), begins


@pytest.mark.parametrize("name", CONTROLLERS)
async def test_a_controller_may_list_and_watch_what_it_caches_and_nothing_else(
    name: str, followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, begins = built(name, monkeypatch)
    build(CLIENT)
    for begin in begins:
        await begin()
    settings = settings_of("controller")(namespace="release")
    granted = {*rights_of("controller", dict(settings), controllers=(name,))}
    # A kind is watched while an AppWrapper has one in it.
    wrapped = {
        Right(group, plural, "", "") for plural, _, group in (kind.partition(".") for kind in settings.wrapped_kinds)
    }
    cached = {right_of(scope) for scope in followed}
    assert cached <= granted
    assert granted - cached <= (wrapped if name == "appwrappers" else set())


@pytest.mark.parametrize("name", SETTINGS)
def test_a_role_may_list_and_watch_what_it_caches_and_nothing_else(name: str, followed: Followed) -> None:
    settings = settings_of(name)(**SETTINGS[name])
    events = EventRecorder(lambda: None, role=name, instance="i")
    if name == "webhook":
        caches = ReviewCaches()
        parts_of(Context(settings, settings.namespace, caches, logs=True))
        Sources(settings, caches).follow(CLIENT)
    else:

        def connected(_make: Callable[[KubeClient], Runnable]) -> Runnable:
            return Kit(CLIENT)  # such a role declares its caches before it is connected

        def elected(make: Callable[[KubeClient, EventRecorder], Runnable]) -> Runnable:
            return make(CLIENT, events)

        resolve(BY_NAME[name].build)(RoleContext(settings, connected, elected))
    cached, granted = {right_of(scope) for scope in followed}, {*rights_of(name, dict(settings))}
    assert cached
    assert not [right for right in cached if not granted & covering(right)]
    assert not [right for right in granted if not any(right in covering(used) for used in cached)]


@pytest.mark.parametrize("name", CONTROLLERS)
async def test_a_standby_has_the_series_of_all_that_its_controllers_will_cache(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of what a controller declares later."""
    build, begins = built(name, monkeypatch)
    kits = list[Kit]()
    for metric in (QUEUE_DEPTH, CACHE_OBJECTS):
        metric.clear()
    declare(lambda client: kits.append(build(client)))
    declared = {
        tuple(sample.labels.values())
        for metric in (QUEUE_DEPTH, CACHE_OBJECTS)
        for family in metric.collect()
        for sample in family.samples
    }
    for begin in begins:
        await begin()
    (kit,) = kits
    assert declared == {(watched.called,) for watched in kit.watches.declared} | {
        (controller.name,) for controller in kit.controllers
    }
