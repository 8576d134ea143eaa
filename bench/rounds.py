"""The measurements of one run: which servers meet which reviews, in interleaved rounds.

Servers that are compared run side by side on one core and take turns round by round, so that noise hits all alike; a
ratio is the median of the ratios within the rounds.
"""

from __future__ import annotations

import base64
import json
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jsonpatch

from bench import reviews
from bench.load import SAMPLE, ask
from bench.reviews import Load
from bench.servers import Result, Server, load, running, start_api, start_berth, start_floor, start_kopf
from bench.surroundings import Surroundings

MANY, FEW = 20_000, 2
"""How many attachments the caches hold in the comparison of caches."""

MANY_CONNECTIONS = 64
"""Enough for an even spread over workers."""

Progress = Callable[[str], None]
Loads = Mapping[str, Load]
_DEMO = "webhook-demo-distinct"
_CHANCE = 0.01


class MeasureError(Exception):
    """What was to be compared is not comparable."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long a run takes: `rounds` of `seconds` for each server and load; `side_rounds` for what has no aim."""

    rounds: int = 7
    seconds: int = 1
    side_rounds: int = 3


@dataclass(frozen=True, slots=True)
class Duel:
    """Rounds of one server against a baseline on one load, paired by round.

    `remembered` is the share of the reviews that the server answered from its memo.
    """

    load: Load
    results: tuple[Result, ...]
    baseline: tuple[Result, ...]
    remembered: float = 0.0

    @property
    def ratios(self) -> list[float]:
        return [ours.rate / theirs.rate for ours, theirs in self._pairs()]

    @property
    def throughput(self) -> float:
        return statistics.median(self.ratios)

    @property
    def economy(self) -> float:
        """The ratio of reviews by CPU second of the server, which other work on the machine hardly touches."""
        return statistics.median(theirs.cost / ours.cost for ours, theirs in self._pairs() if ours.cost)

    def latency(self, which: Literal["p50", "p99"]) -> float:
        """The ratio of that percentile, of the best round of each: whatever else runs only adds to it."""
        return min(_percentiles(self.results, which)) / min(_percentiles(self.baseline, which))

    def latencies(self, which: Literal["p50", "p99"]) -> list[float]:
        """The ratios within the rounds."""
        pairs = zip(_percentiles(self.results, which), _percentiles(self.baseline, which), strict=True)
        return [ours / theirs for ours, theirs in pairs]

    def _pairs(self) -> list[tuple[Result, Result]]:
        return list(zip(self.results, self.baseline, strict=True))


def _percentiles(results: Sequence[Result], which: Literal["p50", "p99"]) -> list[float]:
    return [getattr(result.report, which) for result in results]


@dataclass(frozen=True, slots=True)
class Baselines:
    """One worker against the floor with 16 connections and with one, on every load; the rest on distinct reviews."""

    floor: tuple[Duel, ...]
    single: tuple[Duel, ...]
    fastapi: tuple[Duel, ...]
    kopf: tuple[Duel, ...]


@dataclass(frozen=True, slots=True)
class Scaling:
    """Two workers against one, of Berth and of the floor. `cores_busy` is the share of all cores in use with two."""

    berth: Duel
    floor: Duel
    cores_busy: float

    @property
    def shares(self) -> list[float]:
        """By round: what a second worker gives Berth against what it gives the floor."""
        return [ours / theirs for ours, theirs in zip(self.berth.ratios, self.floor.ratios, strict=True)]


@dataclass(frozen=True, slots=True)
class Attachments:
    """Many attachments in the cache against few, and the resident MiB of those workers after the load."""

    duel: Duel
    few_mib: float
    many_mib: float


def prepare(directory: Path, *, count: int = reviews.COUNT) -> Loads:
    """The files of all loads."""
    made = [reviews.prepare(name, kind, directory, count=count) for name in reviews.NAMES for kind in reviews.KINDS]
    return {load.name: load for load in made}


def against_baselines(around: Surroundings, loads: Loads, plan: Plan, progress: Progress) -> Baselines:
    with running() as keep:
        progress("starting berth, kopf and the floors")
        berth = keep(start_berth(around, name="berth", source=["--manifests", str(around.manifests)]))
        kopf = keep(start_kopf(around))
        answers = answers_for_floor(berth, kopf, around, loads)
        floor = keep(start_floor(around, answers))
        fastapi = keep(start_floor(around, answers, name="fastapi", fastapi=True))
        against_floor, single, against_fastapi, against_kopf = [], [], [], []
        for what in loads.values():
            progress(f"{what.name}: {plan.rounds} rounds of floor, berth; {plan.side_rounds} with one connection")
            hits = berth.memo_hits()
            base, ours = take_turns((floor, berth), around, what, rounds=plan.rounds, seconds=plan.seconds)
            # What was under way at the end of a round is a hit as well, but no answer of the generator's.
            hits = min(1.0, (berth.memo_hits() - hits) / sum(result.report.answers for result in ours))
            if what.kind == "distinct" and hits > _CHANCE:
                raise MeasureError(f"{what.name}: the memo answered {hits:.0%} of reviews that are all different")
            against_floor.append(Duel(what, ours, base, hits))
            base, ours = take_turns(
                (floor, berth), around, what, rounds=plan.side_rounds, seconds=plan.seconds, connections=1
            )
            single.append(Duel(what, ours, base))
        for what in (one for one in loads.values() if one.kind == "distinct"):
            progress(f"{what.name}: {plan.side_rounds} rounds of kopf, fastapi, berth")
            theirs, route, ours = take_turns(
                (kopf, fastapi, berth), around, what, rounds=plan.side_rounds, seconds=plan.seconds
            )
            against_kopf.append(Duel(what, ours, theirs))
            against_fastapi.append(Duel(what, ours, route))
        check_log(berth)
    return Baselines(tuple(against_floor), tuple(single), tuple(against_fastapi), tuple(against_kopf))


def answers_for_floor(berth: Server, kopf: Server, around: Surroundings, loads: Loads) -> Path:
    """Berth's first answer to each load, for the floor to repeat.

    Raises MeasureError where an answer is not to the review that was sent, or kopf's makes another Pod of it.
    """
    answers = {}
    for what in loads.values():
        bodies = what.first(SAMPLE)
        ours, theirs = (
            ask(server.port, server.path, bodies, certificate=around.certificate) for server in (berth, kopf)
        )
        for body, our, their in zip(bodies, ours, theirs, strict=True):
            if patched(body, our) != patched(body, their):
                raise MeasureError(f"{what.name}: berth and kopf make different Pods:\n{our!r}\n{their!r}")
        answers[f"/{what.name}"] = ours[0].decode()
    path = around.directory / "answers.json"
    path.write_text(json.dumps(answers))
    return path


def patched(body: bytes, answer: bytes) -> object:
    """The Pod that this answer makes of that review. Raises MeasureError where it is denied, or for another uid."""
    request, response = json.loads(body)["request"], json.loads(answer)["response"]
    if response["uid"] != request["uid"] or response["allowed"] is not True:
        raise MeasureError(f"want review {request['uid']} allowed, got {answer[:500]!r}")
    patch: Any = response.get("patch")
    return jsonpatch.apply_patch(request["object"], json.loads(base64.b64decode(patch))) if patch else request["object"]


def with_workers(around: Surroundings, loads: Loads, plan: Plan, progress: Progress) -> Scaling:
    """None of the servers is bound to a core."""
    what = loads[_DEMO]
    source = ["--manifests", str(around.manifests)]
    with running() as keep:
        progress("starting berth and the floor with one worker and with two")
        berths = [
            keep(start_berth(around, name=f"berth-{count}", source=source, workers=count, pinned=False))
            for count in (1, 2)
        ]
        answer = ask(berths[0].port, "/mutate", what.first(1), certificate=around.certificate)[0]
        answers = around.directory / "answer.json"
        answers.write_text(json.dumps({f"/{what.name}": answer.decode()}))
        floors = [
            keep(start_floor(around, answers, name=f"floor-{count}", workers=count, pinned=False)) for count in (1, 2)
        ]
        progress(f"workers: {plan.rounds} rounds of berth and floor with 1 and 2")
        one, two, bare, bare_two = take_turns(
            (*berths, *floors),
            around,
            what,
            rounds=plan.rounds,
            seconds=plan.seconds,
            connections=MANY_CONNECTIONS,
            pinned=False,
        )
    busy = statistics.median(result.server_busy + result.generator_busy for result in two)
    return Scaling(Duel(what, two, one), Duel(what, bare_two, bare), busy / (os.cpu_count() or 1))


def with_many_attachments(around: Surroundings, loads: Loads, plan: Plan, progress: Progress) -> Attachments:
    """Caches filled by list and watch, as in a cluster: many attachments against few."""
    what = loads[_DEMO]
    with running() as keep:
        servers = []
        for count in (FEW, MANY):
            progress(f"starting berth with {count} attachments from an API server")
            api = keep(start_api(around, count=count))
            source = ["--kubeconfig", str(around.kubeconfig(api.port))]
            servers.append(keep(start_berth(around, name=f"berth-{count}-attachments", source=source)))
        progress(f"attachments: {plan.rounds} rounds of {FEW}, {MANY}")
        few, many = take_turns(servers, around, what, rounds=plan.rounds, seconds=plan.seconds)
        few_mib, many_mib = (server.resident_mib() for server in servers)
    return Attachments(Duel(what, many, few), few_mib, many_mib)


def take_turns(
    servers: Sequence[Server],
    around: Surroundings,
    what: Load,
    *,
    rounds: int,
    seconds: int,
    connections: int = 16,
    pinned: bool = True,
) -> list[tuple[Result, ...]]:
    """The results of each server, in the order of `servers`, which take turns."""
    results = [
        [load(server, around, what, seconds=seconds, connections=connections, pinned=pinned) for server in servers]
        for _ in range(rounds)
    ]
    return list(zip(*results, strict=True))


def check_log(berth: Server) -> None:
    """The log was on: a line for every answer that was measured."""
    answers = berth.sent.total()
    with berth.log.open("rb") as lines:
        written = sum(b'"msg":"review"' in line for line in lines)
    if written < answers:
        raise MeasureError(f"berth answered {answers} reviews and logged {written}")
