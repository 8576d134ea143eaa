"""The state machine of an AppWrapper: what it asks for on its way to the next status, and that status. Pure.

Facts: phases, conditions, reasons and messages are those of AppWrapper v1.2. What differs is in docs/appwrappers.md:
each timer has a recorded time of its own, absence is retryable, and what was preempted says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from app.appwrappers.controller.health import Health
from app.appwrappers.controller.objects import name_of
from app.appwrappers.controller.observing import Creation, Deletion, Eviction, Observation, Pass, Step, requeued
from app.appwrappers.controller.outcomes import forget_end, remember_end
from app.appwrappers.controller.stored import AppWrapper
from app.appwrappers.model import (
    DELETED,
    DELETING_RESOURCES,
    DELETION_PAUSED,
    NO_AUTHOR,
    PODS_READY,
    PREEMPTED,
    QUOTA_RESERVED,
    REQUEUED,
    RESETTING,
    RESOURCES_DEPLOYED,
    UNHEALTHY,
    Phase,
    pod_set_name,
)
from app.appwrappers.options import DELETION_ON_FAILURE, AppWrapperOptions
from app.appwrappers.podsets.paths import component_problem
from app.appwrappers.sizes import REMARK, component_status, size_problems
from app.kube.conditions import Truth, changed_at, condition, cut_as_stored, is_true, set_condition
from app.text import enumerated
from app.wire import JSON, copied

_NOT_SUSPENDED = "Suspend is false"
_SUSPENDED = "Suspend is true"
_FIRST_RETRY, _LAST_RETRY = 1.0, 10.0
_ONLY_READ = 60.0
"""Seconds between two looks at objects that may not be watched."""


def next_step(wrapper: AppWrapper, options: AppWrapperOptions, now: datetime) -> Pass[Step]:
    """The next step of an AppWrapper; one phase at most is left behind. A step that changes nothing waits."""
    return _Pass(wrapper, options, now).step()


class _Pass:
    def __init__(self, wrapper: AppWrapper, options: AppWrapperOptions, now: datetime) -> None:
        self._wrapper, self._options, self._now = wrapper, options, now
        self._status = copied(wrapper.status)

    def step(self) -> Pass[Step]:
        phases: dict[str, Callable[[], Step | Pass[Step]]] = {
            "": self._new,
            "Suspended": self._suspended,
            "Resuming": self._resuming,
            "Running": self._running,
            "Suspending": self._suspending,
            "Resetting": self._resetting,
            "Failed": self._failed,
            "Succeeded": self._succeeded,
        }
        step = self._terminating() if self._wrapper.deleting else phases.get(self._wrapper.phase, self._wait)()
        return step if isinstance(step, Step) else (yield from step)

    def _new(self) -> Step:
        if unusable := self._unusable():
            return unusable
        components, statuses = self._wrapper.components, list[JSON]()
        for index, component in enumerate(components):
            try:
                statuses.append(component_status(component))
            except ValueError as error:
                return self._never("InvalidComponent", f"spec.components[{index}]: {error}")
        try:
            problem = next(size_problems(components), "")
        except ValueError as error:
            return self._never("InvalidComponent", f"spec.components: {error}")
        if problem:
            return self._never("TooLarge", problem)
        self._status["componentStatus"] = statuses
        return self._go("Suspended")

    def _never(self, reason: str, message: str) -> Step:
        """It fails before anything is created."""
        self._set(UNHEALTHY, "True", reason, message)
        return self._go("Failed", "Unhealthy", f"{reason}: {message}")

    def _unusable(self) -> Step | None:
        """The end of an AppWrapper with a component of which no object can be made; None of any other."""
        for index, component in enumerate(self._wrapper.components):
            if problem := component_problem(component):
                return self._never("InvalidComponent", f"spec.components[{index}].{problem}")
        return None

    def _suspended(self) -> Step:
        if self._wrapper.suspend:
            return self._wait()
        if unusable := self._unusable():
            return unusable
        if not self._wrapper.finalized:
            return Step(self._status, "finalize")
        if len(self._status.get("componentStatus") or ()) != len(self._wrapper.documents):
            return self._new()
        for kind in (QUOTA_RESERVED, RESOURCES_DEPLOYED):
            self._set(kind, "True", "Resuming", _NOT_SUSPENDED)
        for kind in (PODS_READY, UNHEALTHY):
            self._set(kind, "False", "Resuming", _NOT_SUSPENDED)
        self._clear(PREEMPTED, "Resuming", _NOT_SUSPENDED)
        self._clear(REQUEUED, "Resuming", _NOT_SUSPENDED)
        self._initiate()
        return self._go("Resuming")

    def _resuming(self) -> Pass[Step]:
        if self._wrapper.suspend:
            return (yield from self._suspend())
        creation: Creation = yield "create"
        if creation.unauthored:
            self._set(UNHEALTHY, "True", NO_AUTHOR, creation.problem)
            return self._wait()
        for index, name in creation.created.items():
            self._component(index, "True", "ComponentCreatedSuccessfully", name=name)
        if creation.failed is None:
            return self._go("Running")
        self._component(creation.failed, "False", "ComponentCreationErrored", creation.problem)
        passed = self._passed(RESOURCES_DEPLOYED)
        left = self._options.admission_grace - passed
        if not creation.fatal and left > 0:
            return self._wait(after=min(left, max(_FIRST_RETRY, min(_LAST_RETRY, passed / 4))))
        status = self._status["componentStatus"][creation.failed]
        message = f"error creating components: {status['kind']} {status['name']}: {creation.problem}"
        final = "it can never be created as it is" if creation.fatal else ""
        return self._reset_or_fail("CreateFailed", message, terminal=final)

    def _running(self) -> Pass[Step]:
        if self._wrapper.suspend:
            return (yield from self._suspend())
        seen: Observation = yield "observe"
        health = seen.health
        for index, outcome in health.endings.items():
            remember_end(self._status["componentStatus"][index], outcome, now=self._now)
        step = self._troubled(health, seen.missing) or self._pods_ready(health)
        if seen.watched:
            return step
        return replace(step, after=_ONLY_READ if step.after is None else min(step.after, _ONLY_READ))

    def _troubled(self, health: Health, missing: str) -> Step | None:
        """What follows where something has failed or ended; None where Pods may only be late."""
        if health.failed_components:
            why = health.with_cause(enumerated(health.failed_components))
            message = f"Found {len(health.failed_components)} failed components: {why}"
            return self._reset_or_fail("FailedComponent", message, terminal=health.terminal)
        if health.succeeded:
            message = f"{health.total.succeeded} pods succeeded and no running, pending, or failed pods"
            self._set(QUOTA_RESERVED, "False", "Succeeded", message)
            self._set(RESOURCES_DEPLOYED, "True", "Succeeded", message)
            return self._go("Succeeded")
        if missing:
            message = health.with_cause(missing)
            return self._reset_or_fail("MissingComponent", message, terminal=health.terminal)
        self._reclaim(health)
        if health.failed:
            message = health.with_cause(f"{health.failed} failed pods")
            self._set(UNHEALTHY, "True", "FoundFailedPods", message)
            left = self._options.failure_grace - self._passed(UNHEALTHY)
            if left > 0:
                return self._wait(after=left)
            return self._reset_or_fail("FoundFailedPods", message, terminal=health.terminal)
        if health.evicted:
            message = f"Workload contains pods using NoExecute resources on Nodes: {enumerated(health.evicted)}"
            self._set(UNHEALTHY, "True", "AutopilotNoExecute", message)
            return self._reset_or_fail("", message, count=0)
        self._clear(UNHEALTHY, "FoundNoFailedPods")
        return None

    def _pods_ready(self, health: Health) -> Step:
        if health.ready:
            message = f"{health.total.running} pods running; {health.total.succeeded} pods succeeded"
            self._set(PODS_READY, "True", "SufficientPodsReady", message)
            return self._wait(after=self._forgive())
        options, message = self._options, health.total.said + (f": {health.unready}" if health.unready else "")
        self._clear(PODS_READY, "InsufficientPodsReady", message)
        all_there = health.total.active + health.total.succeeded >= health.total.expected
        grace = options.warmup_grace if all_there else options.admission_grace
        left = grace - min(self._passed(RESOURCES_DEPLOYED), self._passed(PODS_READY))
        if left > 0:
            return self._wait(after=left)
        return self._reset_or_fail("InsufficientPodsReady", message, terminal=health.terminal)

    def _suspending(self) -> Pass[Step]:
        if self._is(RESOURCES_DEPLOYED):
            if waits := (yield from self._delete()):
                return waits
            self._set(RESOURCES_DEPLOYED, "False", "Suspended", _SUSPENDED)
        self._set(QUOTA_RESERVED, "False", "Suspended", _SUSPENDED)
        self._clear(PODS_READY, "Suspended")
        self._clear(UNHEALTHY, "Suspended")
        self._clear(RESETTING, "Suspended")
        self._status.pop("reclaimablePods", None)
        if self._is(PREEMPTED):
            eviction = condition(self._status, PREEMPTED)
            self._set(REQUEUED, *requeued(eviction.get("reason") or "", self._wrapper.queue))
        return self._go("Suspended")

    def _resetting(self) -> Pass[Step]:
        if self._wrapper.suspend:
            return (yield from self._suspend())
        self._clear(PODS_READY, "Resetting")
        if not self._is(RESETTING):
            self._set(RESETTING, "True", "Resetting")  # an AppWrapper that another controller has begun to reset
        if self._is(RESOURCES_DEPLOYED):
            if waits := (yield from self._delete()):
                return waits
            self._set(RESOURCES_DEPLOYED, "False", "Resetting", "Resources deleted for resetting AppWrapper")
        if unusable := self._unusable():
            return unusable
        left = self._options.retry_pause - self._passed(RESETTING)
        if left > 0:
            return self._wait(after=left)
        self._set(RESETTING, "False", "Resuming", "Reset complete; resuming")
        self._set(RESOURCES_DEPLOYED, "True", "Resuming", "Reset complete; resuming")
        self._clear(UNHEALTHY, "Resuming", "Reset complete; resuming")
        self._status.pop("reclaimablePods", None)
        self._initiate()
        return self._go("Resuming")

    def _failed(self) -> Pass[Step]:
        delay, forced = self._options.deletion_on_failure, self._wrapper.suspend
        if self._is(RESOURCES_DEPLOYED):
            if delay > 0 and not forced and not self._is(DELETING_RESOURCES):
                message = f"{DELETION_ON_FAILURE} has value {delay:g}s"
                self._set(DELETION_PAUSED, "True", "DeletionPaused", message)
                left = delay - self._passed(DELETION_PAUSED)
                if left > 0:
                    self._set(DELETING_RESOURCES, "False", "DeletionPaused", message)
                    return self._wait(after=left)
            self._clear(DELETION_PAUSED, "DeletionInitiated")
            if waits := (yield from self._delete()):
                return waits
            message = "Resources deleted for failed AppWrapper"
            if delay > 0 and forced:
                message = "Kueue forced resource deletion by suspending AppWrapper"
            self._set(RESOURCES_DEPLOYED, "False", "Failed", message)
        self._set(QUOTA_RESERVED, "False", "Failed", "No resources deployed")
        self._clear(RESETTING, "Failed")
        return self._wait()

    def _succeeded(self) -> Pass[Step]:
        if not self._is(RESOURCES_DEPLOYED):
            return self._wait()
        left = self._options.success_ttl - self._passed(QUOTA_RESERVED)
        if left > 0:
            return self._wait(after=left)
        if waits := (yield from self._delete()):
            return waits
        expired = f"Time to live after success of {self._options.success_ttl:g}s expired"
        self._set(RESOURCES_DEPLOYED, "False", "Succeeded", expired)
        return self._wait()

    def _terminating(self) -> Pass[Step]:
        if not self._wrapper.finalized:
            return self._wait()
        if self._is(RESOURCES_DEPLOYED):
            self._status["phase"] = "Terminating"
            if waits := (yield from self._delete()):
                return waits
            self._set(RESOURCES_DEPLOYED, "False", "Terminating", "Resources successfully deleted")
        if self._is(QUOTA_RESERVED):
            self._set(QUOTA_RESERVED, "False", "Terminating", "No resources deployed")
        return Step(self._status, "release")

    def _suspend(self) -> Pass[Step]:
        eviction: Eviction | None = (yield "eviction") if self._wrapper.queue else None
        if eviction is not None:
            self._set(PREEMPTED, "True", eviction.reason, eviction.message)
        message = f"Externally suspended while in the {self._wrapper.phase} phase"
        return self._go("Suspending", "Suspending", message)

    def _reset_or_fail(self, cause: str, message: str, *, count: int = 1, terminal: str = "") -> Step:
        """`terminal` says why a retry is pointless, "" where it is not."""
        used, limit = self._status.get("resettingCount") or 0, max(self._options.retry_limit, 0)
        if terminal or used >= limit:
            why = terminal or f"{used} of {limit} retries are used"
            message = f"{message}; not retried: {why}"
        text = f"{cause}: {message}" if cause else message
        self._set(UNHEALTHY, "True", cause or "AutopilotNoExecute", message)
        if terminal or used >= limit:
            return self._go("Failed", "Unhealthy", text)
        if count:
            self._status["resettingCount"] = used + count
        self._set(RESETTING, "True", cause or "AutopilotNoExecute", message)
        return self._go("Resetting", "Unhealthy", text)

    def _forgive(self) -> float | None:
        """Forget the retries of an AppWrapper that has been healthy long enough; else the seconds until then."""
        if not self._options.retry_reset or not self._status.get("resettingCount"):
            return None
        left = self._options.retry_reset - self._passed(PODS_READY)
        if left > 0:
            return left
        self._status["resettingCount"] = 0
        return None

    def _delete(self) -> Pass[Step | None]:
        """None where nothing is left; else the step that waits."""
        if not self._is(DELETING_RESOURCES):
            self._set(DELETING_RESOURCES, "True", "DeletionInitiated")
        left = self._options.deletion_grace - self._passed(DELETING_RESOURCES)
        deletion: Deletion = yield "delete" if left > 0 else "force"
        for index, remark in deletion.gone.items():
            self._component(index, "False", DELETED, remark)
        if not deletion.components and not deletion.pods:
            self._clear(DELETING_RESOURCES, "DeletionComplete")
            return None
        if deletion.problem or left <= 0:
            left = _LAST_RETRY
        return self._wait(after=left)

    def _initiate(self) -> None:
        attempt = self._status.get("resettingCount") or 0
        for index, component in enumerate(self._wrapper.components):
            name = name_of(component["template"]["metadata"], self._wrapper.uid, index, attempt)
            template = component["template"]
            self._status["componentStatus"][index] |= {"kind": template["kind"], "apiVersion": template["apiVersion"]}
            self._component(index, "Unknown", "ComponentCreationInitiated", name=name)
            forget_end(self._status["componentStatus"][index])

    def _reclaim(self, health: Health) -> None:
        """Tell which Pods are not needed any more, as Kueue calls their podSets."""
        counts = [
            {"name": pod_set_name(self._wrapper.key[1], index), "count": count}
            for index, count in enumerate(health.reclaimable)
            if count
        ]
        if counts:
            self._status["reclaimablePods"] = counts

    def _component(self, index: int, truth: Truth, reason: str, message: str = "", *, name: str = "") -> None:
        status = self._status["componentStatus"][index]
        if name:
            status["name"] = name
        # Only what was created here says the generation: by that the marks of its Pods are known to be there.
        observed = condition(status, RESOURCES_DEPLOYED).get("observedGeneration", 0)
        generation = observed if truth == "False" else self._wrapper.generation
        message = cut_as_stored(message, REMARK)
        set_condition(status, RESOURCES_DEPLOYED, truth, reason, message, now=self._now, generation=generation)

    def _is(self, kind: str) -> bool:
        return is_true(self._status, kind)

    def _set(self, kind: str, truth: Truth, reason: str, message: str = "") -> None:
        set_condition(self._status, kind, truth, reason, message, now=self._now)

    def _clear(self, kind: str, reason: str, message: str = "") -> None:
        if self._is(kind):
            self._set(kind, "False", reason, message)

    def _passed(self, kind: str) -> float:
        """Seconds since the status of the condition changed."""
        passed: timedelta = self._now - changed_at(self._status, kind, now=self._now)
        return passed.total_seconds()

    def _go(self, phase: Phase, reason: str = "", message: str = "") -> Step:
        self._status["phase"] = phase
        return Step(self._status, event=(reason, message) if reason else None, after=0.0)

    def _wait(self, *, after: float | None = None) -> Step:
        return Step(self._status, after=after)
