"""What the controller remembers between watch and write: its own writes, and the pauses after losses."""

from __future__ import annotations

from dataclasses import replace

from app.errors import ApiError
from app.kube.own_writes import OwnWrites
from app.workloads.companions.marks import Companion
from app.workloads.controller.caches import own_writes
from app.workloads.controller.statuses import Restarts, pause_of, problem_of
from app.workloads.model import ObjectKey
from tests.support.clock import Clock

W, KEY = ("tenant-t", "workload-u"), ("tenant-t", "r-u")
ONE = Companion("tenant-t", "r-u", "uid-1", ("tenant-t", "r"), W, "h", b"", (), version=5)


def made() -> tuple[OwnWrites[Companion], dict[ObjectKey, Companion], Clock]:
    cache: dict[ObjectKey, Companion] = {}
    clock = Clock()
    return own_writes(cache.get, clock=clock), cache, clock


def test_a_write_stands_until_the_watch_shows_the_same() -> None:
    writes, _, _ = made()
    writes.wrote(KEY, ONE)
    assert writes.of(W) == [ONE]
    assert writes.shown(KEY, None, replace(ONE))
    assert not writes.of(W)
    assert not len(writes)


def test_older_news_leaves_it_and_newer_ends_it() -> None:
    writes, _, _ = made()
    writes.wrote(KEY, ONE)
    assert not writes.shown(KEY, None, replace(ONE, digest=b"x", version=4))
    assert writes.of(W) == [ONE]
    assert not writes.shown(KEY, None, replace(ONE, digest=b"x", version=6))
    assert not writes.of(W)


def test_end_of_a_predecessor_is_not_its_end() -> None:
    writes, _, _ = made()
    writes.wrote(KEY, ONE)
    assert not writes.shown(KEY, replace(ONE, uid="uid-0", version=3), None)
    assert writes.of(W) == [ONE]
    assert not writes.shown(KEY, ONE, None)
    assert not writes.of(W)


def test_answer_that_comes_after_the_watch_is_no_news() -> None:
    writes, cache, _ = made()
    cache[KEY] = replace(ONE, digest=b"newer", version=6)
    writes.wrote(KEY, ONE)
    assert not writes.of(W)
    del cache[KEY]
    writes.shown(KEY, ONE, None)
    writes.wrote(KEY, replace(ONE, ending=True, version=9))
    assert not writes.of(W)


def test_news_during_a_write_cause_no_reconcile() -> None:
    writes, _, _ = made()
    with writes.under_way(KEY):
        assert writes.shown(KEY, None, ONE)
    assert not writes.shown(KEY, ONE, replace(ONE, lost=True, version=6))


def test_a_write_that_the_watch_does_not_show_expires() -> None:
    writes, _, clock = made()
    writes.wrote(KEY, ONE)
    clock.now = 9.0
    assert writes.expire() == []
    clock.now = 10.0
    assert writes.expire() == [ONE]
    assert not writes.of(W)
    assert writes.expire() == []


def test_pauses_after_losses_grow_and_start_small_again_after_a_calm() -> None:
    clock = Clock()
    clock.now = 1e6
    restarts = Restarts(pause=10.0, cap=60.0, clock=clock)
    waits = []
    for _ in range(6):
        waits.append(restarts.wait(KEY))
        clock.now += waits[-1]
        restarts.made(KEY)
    assert waits == [0.0, 10.0, 20.0, 40.0, 60.0, 60.0]
    clock.now += 1000.0
    restarts.made(KEY)
    assert restarts.wait(KEY) == 10.0
    restarts.forget(KEY)
    assert restarts.wait(KEY) == 0.0


def test_losses_are_forgotten_after_a_calm() -> None:
    clock = Clock()
    restarts = Restarts(pause=10.0, cap=60.0, clock=clock)
    for n in range(100):
        restarts.made(("tenant-t", f"r-u{n}"))
    clock.now = 500.0
    restarts.made(("tenant-t", "r-u0"))
    clock.now = 1000.0
    restarts.made(KEY)
    for n in (0, 1):
        restarts.made(("tenant-t", f"r-u{n}"))
    assert [restarts.wait(("tenant-t", f"r-u{n}")) for n in (0, 1)] == [40.0, 10.0]


def test_refusals_have_a_reason_and_faults_that_pass_have_none() -> None:
    def reason(status: int, text: str = "no") -> str | None:
        problem = problem_of(ApiError(f"POST /x: HTTP {status}: {text}", status=status))
        assert problem is None or problem.message == text
        return problem.reason if problem else None

    assert reason(403, "pods x is forbidden: exceeded quota: q") == "QuotaExceeded"
    assert reason(403, "namespace x is being terminated") == "NamespaceTerminating"
    assert reason(403) == "Denied"
    assert reason(400, "admission webhook w denied the request: x") == "Denied"
    assert reason(422, "admission webhook w denied the request: x") == "Denied"
    assert reason(422) == reason(400) == reason(413) == "Invalid"
    assert reason(404) == "NamespaceMissing"
    assert reason(500) == reason(500, "etcdserver: request timed out") == "ServerError"
    assert reason(500, "etcdserver: request is too large") == "Invalid"
    assert [reason(status) for status in (0, 401, 409, 429)] == [None] * 4
    assert pause_of(problem_of(ApiError("x", status=404))) == 5.0
    assert pause_of(problem_of(ApiError("x", status=403))) == 1.0
    assert pause_of(None) is None
