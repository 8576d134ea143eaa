"""AppWrappers under random changes, crashes and faults at every request, against a model of what has to come of them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from app.appwrappers.controller.controller import AppWrappers
from app.appwrappers.model import (
    APP_WRAPPER_UID,
    APP_WRAPPERS,
    FINALIZER,
    PODS_READY,
    QUOTA_RESERVED,
    RESOURCES_DEPLOYED,
)
from app.devtools.sandbox.storage import Storage
from app.errors import ApiError
from app.kube.client import Request
from app.kube.kit import Kit
from app.kube.resources import PODS
from tests.support.appwrappers import CONFIG, NAMESPACE, SYSTEM, AppWrapperCluster, open_cluster, pod
from tests.support.simulated import SimulatedLoop
from tests.support.waiting import eventually
from tests.support.workloads import CountingClient

_SHORT = {
    "retryPausePeriodDuration": "1s",
    "failureGracePeriodDuration": "1s",
    "admissionGracePeriodDuration": "2s",
    "warmupGracePeriodDuration": "3s",
    "forcefulDeletionGracePeriodDuration": "3s",
    "retryLimit": "100000",
}
_NAMES = st.sampled_from(("a", "b", "c"))
_NUMBERS = st.integers(0, 1)
_NEXT = {
    "": {"Suspended", "Failed"},
    "Suspended": {"Resuming"},
    "Resuming": {"Running", "Suspending", "Resetting", "Failed"},
    "Running": {"Suspending", "Resetting", "Succeeded", "Failed"},
    "Suspending": {"Suspended"},
    "Resetting": {"Resuming", "Suspending"},
    "Succeeded": set(),
    "Failed": set(),
}
"""What may follow upon a phase, beside Terminating."""


class Faults:
    """Answers of the API server that do not come, or come too late to be known; by chance, `share` of them."""

    def __init__(self, seed: int) -> None:
        self.random, self.share = random.Random(seed), 0.0

    def around(self, client: CountingClient) -> CountingClient:
        session, send = client.session, client.session.json

        async def json(request: Request, **how: Any) -> Any:
            fault = self.random.choice(("before", "after", "conflict", "busy")) if self._strikes() else ""
            if fault in ("before", "busy"):
                raise ApiError(f"{request.what}: injected", status=503 if fault == "before" else 429)
            if fault == "conflict" and request.verb in ("PATCH", "PUT"):
                raise ApiError(f"{request.what}: injected", status=409, reason="Conflict")
            answer = await send(request, **how)
            if fault == "after":
                raise ApiError(f"{request.what}: the answer is lost", status=0)
            return answer

        session.json = json  # type: ignore[method-assign]
        return client

    def _strikes(self) -> bool:
        return self.random.random() < self.share


class AppWrapperMachine(RuleBasedStateMachine):
    """`suspended` is what users ask of the AppWrappers that exist, by name."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = SimulatedLoop()
        self._opened = contextlib.AsyncExitStack()
        self._task: asyncio.Task[None] | None = None
        self._client: CountingClient | None = None
        self.suspended: dict[str, bool] = {}
        self.phases: dict[str, str] = {}

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)

    @initialize(seed=st.integers(0, 2**16))
    def begin(self, seed: int) -> None:
        self.faults = Faults(seed)
        folder = Path(self._opened.enter_context(tempfile.TemporaryDirectory()))
        self.cluster: AppWrapperCluster = self._do(self._opened.enter_async_context(open_cluster(folder)))
        storage: Storage = self.cluster.cluster.storage
        self._storage = storage
        self._do(self.cluster.admin.create(PODS, pod("foreign"), namespace=NAMESPACE))
        self.foreign = self.cluster.uid("foreign")
        self._do(self._start())

    async def _start(self) -> None:
        self._client = self.faults.around(await self.cluster.client())
        kit = Kit(self._client, resync=None)
        AppWrappers(kit, config=CONFIG, namespace=SYSTEM, now=self.cluster.now)
        self._task = asyncio.create_task(kit.run())

    async def _stop(self) -> None:
        """The connections first, so that what was under way stays half done."""
        assert self._client is not None
        assert self._task is not None
        await self._client.close()
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    @rule(name=_NAMES, suspend=st.booleans())
    def create(self, name: str, *, suspend: bool) -> None:
        if self.cluster.object(APP_WRAPPERS, name) is None:
            templates = (pod(f"{name}-0"), pod(f"{name}-1"))
            self._do(self.cluster.wrap(name, *templates, suspend=suspend, **_SHORT))
            self.suspended[name], self.phases[name] = suspend, ""

    @rule(name=_NAMES, value=st.booleans())
    def suspend(self, name: str, *, value: bool) -> None:
        if name in self.suspended:
            self.suspended[name] = value
            self._do(self.cluster.suspend(name) if value else self.cluster.resume(name))

    @rule(name=_NAMES)
    def delete(self, name: str) -> None:
        if self.suspended.pop(name, None) is not None:
            self._do(self.cluster.admin.delete(APP_WRAPPERS, name, namespace=NAMESPACE))

    @rule(name=_NAMES, number=_NUMBERS, what=st.sampled_from(("runs", "succeeds", "fails", "is deleted")))
    def a_pod(self, name: str, number: int, what: str) -> None:
        found = f"{name}-{number}"
        if found not in self.cluster.pods():
            return
        with contextlib.suppress(ApiError):  # the controller may have deleted it by then
            if what == "runs":
                self._do(self.cluster.running(found))
            elif what == "is deleted":
                self._do(self.cluster.admin.delete(PODS, found, namespace=NAMESPACE))
            else:
                self._do(self.cluster.ended(found, int(what == "fails")))

    @rule(share=st.sampled_from((0.0, 0.2, 0.6)))
    def requests_fail(self, share: float) -> None:
        self.faults.share = share

    @rule()
    def the_controller_crashes(self) -> None:
        self._do(self._stop())
        self._do(self._start())

    @rule(seconds=st.sampled_from((0.001, 0.05, 1.0, 4.0)))
    def time_passes(self, seconds: float) -> None:
        self._do(asyncio.sleep(seconds))

    @invariant()
    def what_holds_at_any_time(self) -> None:
        if not self.phases and not hasattr(self, "foreign"):
            return
        wrappers = {one["metadata"]["uid"]: one for one in self.cluster.stored(APP_WRAPPERS)}
        pods = self.cluster.pods()
        assert pods.pop("foreign")["metadata"]["uid"] == self.foreign
        for found in pods.values():
            wrapper = wrappers[found["metadata"]["labels"][APP_WRAPPER_UID]]
            assert FINALIZER in wrapper["metadata"]["finalizers"]
            for kind in (RESOURCES_DEPLOYED, QUOTA_RESERVED):
                # Kueue gives the quota to others as soon as this is False.
                said = self.cluster.condition(wrapper["metadata"]["name"], kind)["status"]
                assert said == "True" or wrapper["status"]["phase"] == "Succeeded"

    @precondition(lambda self: bool(self.suspended))
    @rule()
    def all_settles(self) -> None:
        self.faults.share = 0.0
        self._do(self._settled())

    async def _settled(self) -> None:
        for name, suspended in self.suspended.items():
            if suspended:
                assert await self.cluster.reaches(name, "Suspended", "Succeeded")
                if self.cluster.phase(name) == "Suspended":
                    assert not {f"{name}-0", f"{name}-1"} & self.cluster.pods().keys()
            else:
                await eventually(lambda name=name: self._ready(name))
                assert self.cluster.status(APP_WRAPPERS, name).get("phase") in ("Running", "Succeeded")

    async def _ready(self, name: str) -> bool:
        """Help its Pods to run, until all of them are known to."""
        if self.cluster.phase(name) == "Succeeded":
            return True
        for found in (f"{name}-0", f"{name}-1"):
            stored = self.cluster.pods().get(found)
            if stored and stored.get("status", {}).get("phase") == "Pending":
                with contextlib.suppress(ApiError):
                    await self.cluster.running(found)
        return self.cluster.phase(name) == "Running" and self.cluster.condition(name, PODS_READY)["status"] == "True"

    def teardown(self) -> None:
        if not hasattr(self, "foreign"):
            self._loop.close()
            return
        try:
            self.faults.share = 0.0
            self._do(self._settled())
            for name in list(self.suspended):
                self.delete(name)
            self._do(eventually(lambda: not self.cluster.stored(APP_WRAPPERS)))
            assert list(self.cluster.pods()) == ["foreign"]
        finally:
            self._do(self._stop())
            self._do(self._opened.aclose())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()


AppWrapperMachine.TestCase.settings = settings(
    max_examples=15, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
test_random_changes_and_faults = AppWrapperMachine.TestCase
