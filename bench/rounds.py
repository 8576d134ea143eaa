"""The measurements of one run: which servers meet which reviews, in interleaved rounds.

Servers that are compared run side by side on one core and take turns round by round, so that noise hits all alike; a
ratio is the median of the ratios within the rounds.
"""

from __future__ import annotations

import base64
import json
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import jsonpatch

from bench import reviews
from bench.load import Result
from bench.servers import Server, load, running, start_api, start_berth, start_floor, start_kopf
from bench.surroundings import Surroundings

MANY, FEW = 5000, 2
"""How many attachments the caches hold in the comparison of caches."""

Progress = Callable[[str], None]
_DEMO = "webhook-demo"


class MeasureError(Exception):
    """What was to be compared is not comparable."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long a run takes: `rounds` of `seconds` for each server and review."""

    rounds: int = 7
    seconds: float = 0.8
    side_rounds: int = 5


@dataclass(frozen=True, slots=True)
class Duel:
    """Rounds of one server against a baseline on one review, paired by round."""

    review: str
    results: tuple[Result, ...]
    baseline: tuple[Result, ...]

    @property
    def ratios(self) -> list[float]:
        return [ours.rate / theirs.rate for ours, theirs in zip(self.results, self.baseline, strict=True)]

    @property
    def throughput(self) -> float:
        return statistics.median(self.ratios)

    @property
    def economy(self) -> float:
        """The ratio of reviews by CPU second of the server, which other work on the machine hardly touches."""
        pairs = zip(self.results, self.baseline, strict=True)
        return statistics.median(
            ours.rate / theirs.rate * theirs.server_busy / ours.server_busy
            for ours, theirs in pairs
            if ours.server_busy
        )

    def latency(self, which: Literal[50, 99]) -> float:
        """The median over rounds of the ratio of that percentile."""
        pairs = zip(self.results, self.baseline, strict=True)
        return statistics.median(ours.percentile[which] / theirs.percentile[which] for ours, theirs in pairs)


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident MiB of one worker: ready and idle, and after load; with how many attachments cached."""

    attachments: int
    at_rest: float
    after_load: float


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that was measured. `cores_busy` is the share of all cores in use with two workers."""

    floor: tuple[Duel, ...]
    fastapi: tuple[Duel, ...]
    kopf: tuple[Duel, ...]
    single: tuple[Duel, ...]
    workers: Duel
    cores_busy: float
    attachments: Duel
    memory: tuple[Memory, ...]


def measure(around: Surroundings, plan: Plan, progress: Progress) -> Run:
    """Everything, in less than four minutes with the default plan."""
    floor, fastapi, kopf, single = _against_baselines(around, plan, progress)
    workers, busy = _with_workers(around, plan, progress)
    attachments, memory = _with_many_attachments(around, plan, progress)
    return Run(floor, fastapi, kopf, single, workers, busy, attachments, memory)


def _against_baselines(around: Surroundings, plan: Plan, progress: Progress) -> tuple[tuple[Duel, ...], ...]:
    with running() as keep:
        progress("starting berth, kopf and the floors")
        berth = keep(start_berth(around, name="berth", source=["--manifests", str(around.manifests)]))
        kopf = keep(start_kopf(around))
        answers = answers_for_floor(berth, kopf, around)
        floor, fastapi = keep(start_floor(around, answers)), keep(start_floor(around, answers, fastapi=True))
        servers = (floor, berth, kopf, fastapi)
        against_floor, against_fastapi, against_kopf, single = [], [], [], []
        for name in reviews.NAMES:
            progress(f"{name}: {plan.rounds} rounds of floor, berth, kopf, fastapi")
            base, ours, theirs, route = _rounds(servers, around, name, rounds=plan.rounds, seconds=plan.seconds)
            against_floor.append(Duel(name, ours, base))
            against_fastapi.append(Duel(name, ours, route))
            against_kopf.append(Duel(name, ours, theirs))
            progress(f"{name}: one connection")
            base, ours = _rounds(
                servers[:2], around, name, rounds=plan.side_rounds, seconds=plan.seconds / 2, connections=1
            )
            single.append(Duel(name, ours, base))
        _check_log(berth, answers=sum(result.answers for duel in against_floor for result in duel.results))
    return tuple(against_floor), tuple(against_fastapi), tuple(against_kopf), tuple(single)


def answers_for_floor(berth: Server, kopf: Server, around: Surroundings) -> Path:
    """Berth's answers, for the floor to repeat; raises MeasureError where kopf's make another Pod of a review."""
    answers = {}
    for name in reviews.NAMES:
        ours, theirs = (load(server, around, name, seconds=0.05, warm_up=0).first_answer for server in (berth, kopf))
        if patched(name, ours) != patched(name, theirs):
            raise MeasureError(f"{name}: berth and kopf make different Pods:\n{ours}\n{theirs}")
        answers[f"/{name}"] = ours
    path = around.directory / "answers.json"
    path.write_text(json.dumps(answers))
    return path


def patched(name: str, answer: str) -> object:
    """The Pod that this answer makes of the review of that name."""
    pod = reviews.read(name).pod
    patch = json.loads(answer)["response"].get("patch")
    return jsonpatch.apply_patch(pod, json.loads(base64.b64decode(patch))) if patch else pod


def _with_workers(around: Surroundings, plan: Plan, progress: Progress) -> tuple[Duel, float]:
    """Two workers against one, none of them bound to a core, with connections enough for an even spread."""
    with running() as keep:
        progress("starting one worker and two workers")
        source = ["--manifests", str(around.manifests)]
        one = keep(start_berth(around, name="berth-1", source=source, pinned=False))
        two = keep(start_berth(around, name="berth-2", source=source, workers=2, pinned=False))
        progress(f"workers: {plan.side_rounds} rounds of 1, 2")
        single, double = _rounds(
            (one, two), around, _DEMO, rounds=plan.side_rounds, seconds=plan.seconds, connections=64, pinned=False
        )
    busy = statistics.median(result.server_busy + result.generator_busy for result in double)
    return Duel(_DEMO, double, single), busy / (os.cpu_count() or 1)


def _with_many_attachments(around: Surroundings, plan: Plan, progress: Progress) -> tuple[Duel, tuple[Memory, ...]]:
    """Caches filled by list and watch, as in a cluster: many attachments against few."""
    with running() as keep:
        servers, at_rest = [], []
        for count in (FEW, MANY):
            progress(f"starting berth with {count} attachments from an API server")
            api = keep(start_api(around, count=count))
            source = ["--kubeconfig", str(around.kubeconfig(api.port))]
            servers.append(keep(start_berth(around, name=f"berth-{count}-attachments", source=source)))
            at_rest.append(servers[-1].resident_mib())
        progress(f"attachments: {plan.side_rounds} rounds of {FEW}, {MANY}")
        few, many = _rounds(servers, around, _DEMO, rounds=plan.side_rounds, seconds=plan.seconds)
        memory = tuple(
            Memory(count, rest, server.resident_mib())
            for count, rest, server in zip((FEW, MANY), at_rest, servers, strict=True)
        )
    return Duel(_DEMO, many, few), memory


def _rounds(
    servers: Sequence[Server],
    around: Surroundings,
    review: str,
    *,
    rounds: int,
    seconds: float,
    connections: int = 16,
    pinned: bool = True,
) -> list[tuple[Result, ...]]:
    """The results of each server, in the order of `servers`, which take turns."""
    results = [
        [load(server, around, review, seconds=seconds, connections=connections, pinned=pinned) for server in servers]
        for _ in range(rounds)
    ]
    return list(zip(*results, strict=True))


def _check_log(berth: Server, *, answers: int) -> None:
    """The log was on: a line for every answer that was measured."""
    with berth.log.open("rb") as lines:
        written = sum(b'"msg":"review"' in line for line in lines)
    if written < answers:
        raise MeasureError(f"berth answered {answers} reviews and logged {written}")
