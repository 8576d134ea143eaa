"""The wall of a task: what one object raises is counted, and the task goes on."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from app.errors import ApiError
from app.kube.running import stand
from app.kube.turns import Turns, request_place, requests_under
from app.kube.walls import Apart, standing, wall
from app.metrics import HANDLING_FAULTS
from tests.support.counting import value
from tests.support.running import running
from tests.support.waiting import eventually

pytestmark = pytest.mark.simulated


def faults(loop: str) -> float:
    return value(HANDLING_FAULTS.labels(loop))


async def test_a_task_that_raises_goes_on_after_pauses_that_grow() -> None:
    begun: list[float] = []
    loop, before = asyncio.get_running_loop(), faults("t")

    async def work() -> None:
        begun.append(loop.time())
        if len(begun) < 8:
            raise ValueError("poison")
        await asyncio.Event().wait()

    async with running(standing("t", work)):
        await eventually(lambda: len(begun) == 8)
    assert faults("t") == before + 7
    assert min(later - earlier for earlier, later in pairwise(begun)) > 0


async def test_work_that_ends_is_not_begun_again() -> None:
    begun = 0

    async def work() -> None:
        nonlocal begun
        begun += 1

    await standing("t", work)
    assert begun == 1


def test_one_object_is_dropped_and_the_next_is_handled() -> None:
    handled, before = [], faults("w")
    for item in ("1", "poison", "3"):
        with wall("w", item=item):
            handled.append(int(item))
    assert handled == [1, 3]
    assert faults("w") == before + 1


def test_an_error_that_is_expected_goes_on() -> None:
    before = faults("w")
    with pytest.raises(KeyError), wall("w", leave=(KeyError,)):
        raise KeyError("expected")
    assert faults("w") == before


async def test_a_task_that_a_worker_starts_does_not_take_turns_with_the_namespace_of_the_worker() -> None:
    turns, listed = Turns(total=1, each=1), []

    async def work() -> None:
        async with request_place():
            listed.append("page")

    async with asyncio.TaskGroup() as group:
        with requests_under(turns, "alice"):
            async with request_place():  # all places of alice are taken
                task = stand(group, "wrapped-kinds", work)
                for _ in range(10):
                    await asyncio.sleep(0)
                assert (task.done(), listed) == (True, ["page"])


def _meet(fault: Exception | None) -> None:
    if fault is not None:
        raise fault


def _steps(*faults: Exception | None) -> tuple[int, Exception | None]:
    """How many of the steps began, and what is raised, by a step or at the end."""
    apart, begun = Apart(), 0
    try:
        for fault in faults:
            with apart.step():
                begun += 1
                _meet(fault)
        apart.end()
    except Exception as error:  # noqa: BLE001  what the caller of a pass gets
        return begun, error
    return begun, None


REFUSED, LATE = ApiError("r", status=422, reason="Invalid"), ApiError("l", status=504, reason="Timeout")
GONE = ApiError("g", status=503, reason="ServiceUnavailable")


def test_one_object_that_fails_keeps_no_other_from_its_turn() -> None:
    assert _steps(None, None) == (2, None)
    assert _steps(REFUSED, None, LATE, None) == (4, REFUSED)
    bug = KeyError("x")
    assert _steps(LATE, REFUSED, bug, None) == (4, bug)


def test_an_api_server_that_fails_ends_the_pass() -> None:
    assert _steps(REFUSED, GONE, None) == (2, GONE)
    # The second that is not answered in time: all that follow would wait as long.
    assert _steps(LATE, REFUSED, LATE, None) == (3, LATE)
