"""Each work queue of each role that serves more than one user gives turns to their namespaces."""

from __future__ import annotations

import ast
import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

import app
from app.appwrappers.kueue import controller as kueue
from app.appwrappers.kueue.model import WORKLOADS
from app.kube import kit
from app.kube.client import KubeClient
from app.kube.controller import Controller
from app.kube.events import EventRecorder
from app.kube.kit import Kit, Watches
from app.registry import BY_NAME, CONTROLLERS, settings_of
from app.settings.reconciling import ControllerContext, RoleContext
from app.wiring import resolve

WITHOUT_NAMESPACE = {
    "tenants": "a Tenant has one key, and only cloud admins write them",
    "tenant-links": "a Tenant has one key, and only cloud admins write them",
    "tenant-nodes": "a node has one key, and sends a request or two",
    "rmd-nodes": "a node has one key; a daemon that hangs takes one of its workers",
    "rmd-config": "there is one RmdConfig",
    "policies": "all policies are one key: each attachment is in the same objects",
}
"""Controllers whose keys are in no namespace, and why one user keeps no other waiting there."""
ONE_USER = {
    "app/certs/controller.py": "the certificates of one release",
    "app/tenancy/agent/syncing.py": "the objects of one tenant",
    "app/tenancy/gateway/workload_writer.py": "one stream of one tenant; tenants take turns in `Backend.turns`",
}
"""Where a queue serves a single user."""
FOLDER = Path(app.__file__).parent


class Made(list[Controller[Any]]):
    """The controllers that are made from now on; `places` are where, by path and line."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.places: set[tuple[str, int]] = set()
        make = Controller.__init__

        def remember(controller: Controller[Any], *args: Any, **options: Any) -> None:
            make(controller, *args, **options)
            self.append(controller)
            caller = sys._getframe(1)
            if caller.f_code.co_filename == kit.__file__:
                caller = caller.f_back or caller
            self.places.add((Path(caller.f_code.co_filename).relative_to(FOLDER.parent).as_posix(), caller.f_lineno))

        monkeypatch.setattr(Controller, "__init__", remember)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    return Made(monkeypatch)


async def all_controllers(made: Made, monkeypatch: pytest.MonkeyPatch) -> dict[str, Controller[Any]]:
    """The controllers of all wings, and those of the roles of a node, by their names."""
    client = cast("KubeClient", KubeClient(cast("Any", None)))
    events = EventRecorder(lambda: client, role="controller", instance="i")
    context = ControllerContext(client, settings_of("controller")(), events, Watches(client))
    beside: dict[str, Callable[[], Awaitable[None]]] = {}
    monkeypatch.setattr(Kit, "beside", lambda _kit, name, work: beside.setdefault(name, work))
    monkeypatch.setattr(kueue.WorkloadsOfAppWrappers, "_served", lambda _: asyncio.sleep(0, WORKLOADS))
    for controller in CONTROLLERS.values():
        resolve(controller.build)(context)
    # This one knows only when it runs which version it is about.
    await beside["appwrapper-workloads"]()

    def elected(make: Callable[[KubeClient, EventRecorder], Any]) -> Any:
        return make(client, events)

    for role in ("claims-node", "rmd-node"):
        settings = settings_of(role)(node_name="n")
        resolve(BY_NAME[role].build)(RoleContext(settings, connected=lambda make: make(client), elected=elected))
    return {controller.name: controller for controller in made}


async def test_every_controller_gives_turns_to_namespaces(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    controllers = await all_controllers(made, monkeypatch)
    assert set(controllers) == {
        *WITHOUT_NAMESPACE,
        *("appwrappers", "appwrapper-workloads", "claim-templates", "claims", "companions", "network-services"),
        *("rmd-workloads", "rule-status", "workload-status", "claims-node", "rmd-node-pods"),
    }
    for name, controller in controllers.items():
        if name in WITHOUT_NAMESPACE:
            continue
        for number in range(100):
            controller.enqueue(("loud", str(number)))
        controller.enqueue(("quiet", "a"))
        taken = [await controller.queue.get() for _ in range(2)]
        assert ("quiet", "a") in taken, name
        for _ in range(100):
            more = asyncio.ensure_future(controller.queue.get())
            await asyncio.sleep(0)
            if not more.done():
                more.cancel()
                break
            taken.append(more.result())
        assert len(taken) < 100, f"{name}: one namespace has all workers"


def calls_of(*names: str) -> dict[str, list[ast.Call]]:
    """The calls of these names in the modules of the product, by path."""
    found: dict[str, list[ast.Call]] = {}
    for path in sorted(FOLDER.rglob("*.py")):
        relative = path.relative_to(FOLDER.parent).as_posix()
        if relative.startswith(("app/devtools/", "app/kube/")) or path.name == "wing.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in names:
                found.setdefault(relative, []).append(node)
    return found


async def test_no_controller_and_no_queue_is_forgotten(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made is all that there is in the sources, but for queues of a single user."""
    controllers = await all_controllers(made, monkeypatch)
    calls = calls_of("Controller", "WorkQueue", "kit.reconcile")
    assert set(ONE_USER) <= set(calls)
    for path, found in calls.items():
        for call in found if path not in ONE_USER else ():
            lines = range(call.lineno, (call.end_lineno or call.lineno) + 1)
            assert any((path, line) in made.places for line in lines), f"{path}:{call.lineno} is not looked at"
    assert {name for name, one in controllers.items() if one._turn is None} == set(WITHOUT_NAMESPACE)
