"""Rules tell by Events what is wrong with them, once, and that it is well again."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.kube.events import EventRecorder, ReadyEvents, Regarding
from app.kube.resources import EVENTS, PODS
from app.runtime.composing import recording
from app.workloads.model import ADMIN_RULES, TENANT_RULES
from tests.support.waiting import eventually
from tests.support.workloads import SYSTEM, T1, Infra, companions_kit, rule

SPEC = rule("r")["spec"]["template"]["spec"]
OBJECT = Regarding("v1", "Thing", "t", "n", "u")


@contextlib.asynccontextmanager
async def controller(infra: Infra) -> AsyncIterator[None]:
    """With its Events, put together as the role is."""
    client = await infra.client()
    recorder = EventRecorder(lambda: client, role="controller", instance="i")
    part = companions_kit(client, status_interval=0.05, events=recorder)
    try:
        async with recording(recorder):
            task = asyncio.create_task(part.run())
            try:
                yield
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
    finally:
        await client.close()


def told(infra: Infra, kind: str) -> list[tuple[str, str]]:
    found = [event for event in infra.stored(EVENTS) if event["involvedObject"]["kind"] == kind]
    found.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
    return [(event["type"], event["reason"]) for event in found]


async def test_a_rule_that_cannot_have_its_companion_says_so_and_when_it_has(infra: Infra) -> None:
    body = {"metadata": {"name": "r-u1", "namespace": T1}, "spec": SPEC}
    await infra.admin.create(PODS, body, namespace=T1)
    await infra.workload("u1")
    await infra.rule("r")
    await infra.admin_rule("fine")
    async with controller(infra):
        await eventually(lambda: told(infra, TENANT_RULES.kind))
        await infra.admin.delete(PODS, "r-u1", namespace=T1)
        await eventually(lambda: len(told(infra, TENANT_RULES.kind)) == 2)
    assert told(infra, TENANT_RULES.kind) == [("Warning", "NameTaken"), ("Normal", "AsDesired")]
    assert told(infra, ADMIN_RULES.kind) == [], "what was never wrong is no news"
    (event, *_) = infra.stored(EVENTS, T1)
    (stored,) = infra.stored(TENANT_RULES, T1)
    assert event["involvedObject"]["uid"] == stored["metadata"]["uid"]
    assert event["message"]


async def test_a_broken_rule_of_the_admin_is_told_in_its_namespace(infra: Infra) -> None:
    await infra.admin_rule("broken", match=("not a key (", ["x"]))
    async with controller(infra):
        await eventually(lambda: told(infra, ADMIN_RULES.kind))
    assert told(infra, ADMIN_RULES.kind) == [("Warning", "InvalidRule")]
    assert [event["metadata"]["namespace"] for event in infra.stored(EVENTS)] == [SYSTEM]
    async with controller(infra):
        await asyncio.sleep(0.5)
    assert told(infra, ADMIN_RULES.kind) == [("Warning", "InvalidRule")], "a restart is no news"


async def test_a_rule_that_can_never_match_says_so_until_it_is_corrected(infra: Infra) -> None:
    await infra.workload("u1", labels={"app": "web"})
    await infra.rule("r", match=("metadata.labels.app", ["web"]))
    await infra.rule("quiet", match=("metadata.resourceName", ["to-come"]))
    text = "no workload can match: spec.workloadTerms[0].matchExpressions[0].key: "
    async with controller(infra):
        await eventually(lambda: told(infra, TENANT_RULES.kind))
        status = infra.status(TENANT_RULES, "r")
        assert (status["result"], status["message"][: len(text)]) == ("success", text)
        (event,) = infra.stored(EVENTS, T1)
        assert (event["message"], event["involvedObject"]["name"]) == (status["message"], "r")
        await infra.rule("r", match=("state.extra.labels.app", ["web"]))
        await eventually(lambda: len(told(infra, TENANT_RULES.kind)) == 2)
    assert told(infra, TENANT_RULES.kind) == [("Warning", "ImpossibleKey"), ("Normal", "AsDesired")]
    assert infra.status(TENANT_RULES, "r")["message"] == ""


class Heard:
    def __init__(self) -> None:
        self.said: list[tuple[str, str, str]] = []

    def record(self, regarding: Regarding, event: str, *, reason: str, message: str) -> None:
        self.said.append((event, reason, message))


def status(result: str, ready: str, reason: str = "", *, generation: int = 1, message: str = "m") -> dict[str, Any]:
    condition = {"type": "Ready", "status": ready, "reason": reason, "message": message}
    return {"result": result, "message": message, "observedGeneration": generation, "conditions": [condition]}


WELL, WAITING = status("success", "True", "AsDesired"), status("success", "False", "Waiting")
BAD = status("error", "False", "Denied")
BAD_TEXT = ("Warning", "Denied", "m")


@pytest.mark.parametrize(
    ("statuses", "said"),
    [
        ([{}, WAITING, WELL], []),
        ([{}, BAD], [BAD_TEXT]),
        ([BAD, BAD], []),
        ([BAD, WAITING, WELL, WELL], [("Normal", "AsDesired", "m")]),
        ([WELL, BAD, status("error", "False", "Denied", message="2 of 3")], [BAD_TEXT]),
        ([WELL, BAD, status("error", "False", "Denied", generation=2)], [BAD_TEXT, BAD_TEXT]),
        ([WELL, BAD, status("", "Unknown", "Pending"), BAD], [BAD_TEXT]),
        ([WELL, {"result": "error", "message": "odd"}], [("Warning", "Error", "odd")]),
        ([WELL, {"result": "error", "conditions": ["odd"]}], [("Warning", "Error", "")]),
    ],
)
def test_only_changes_are_told(statuses: list[dict[str, Any]], said: list[tuple[str, str, str]]) -> None:
    heard = Heard()
    events = ReadyEvents(heard)
    for before, after in itertools.pairwise(statuses):
        events.changed(OBJECT, before=before, after=after)
    assert heard.said == said


def test_a_view_that_lags_tells_nothing_twice() -> None:
    heard = Heard()
    events = ReadyEvents(heard)
    for _ in range(3):
        events.changed(OBJECT, before=WELL, after=BAD)
    for _ in range(3):
        events.changed(OBJECT, before=WELL, after=WELL)
    assert [one[0] for one in heard.said] == ["Warning", "Normal"]


def test_memory_is_bounded() -> None:
    heard = Heard()
    events = ReadyEvents(heard)
    for after in (BAD, WELL):
        for number in range(6000):
            events.changed(Regarding("v1", "Thing", "t", "n", str(number)), before=WELL, after=after)
    # Of those that are not remembered nothing is said when they are well again.
    assert Counter(one[0] for one in heard.said) == {"Warning": 6000, "Normal": 4096}
