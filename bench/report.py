"""Says what a run of the webhook's parts found: figures with their aims, speeds of this machine, a page."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from itertools import chain
from statistics import median
from typing import Literal

from rich.console import Console
from rich.table import Table

from bench.figures import Figure, markdown, number
from bench.rounds import FEW, MANY, Attachments, Baselines, Duel, Plan, Scaling
from bench.startup import MANY as LISTED

FLOOR_AIMS = {
    "plain-distinct": 1.0,
    "plain-replicas": 1.0,
    "webhook-demo-distinct": 0.75,
    "webhook-demo-replicas": 1.0,
    "rich-distinct": 0.6,
    "rich-replicas": 0.9,
}
_KOPF_AIMS = {"webhook-demo-distinct": 20.0, "rich-distinct": 35.0}
_MEMO_AIM = 0.95
_P99_AIMS = {"distinct": 2.0, "replicas": 1.5}
_WORKERS, _FLOORS, _ATTACHMENTS = "2 workers / 1", "2 floors / 1", f"{MANY:,} attachments / {FEW}"
SCALING = {
    _WORKERS: "2 workers\n(1 worker = 1)",
    _FLOORS: "2 floors\n(1 floor = 1)",
    _ATTACHMENTS: f"{MANY:,} attachments\n({FEW} = 1)",
}
"""What the picture shows beside the baselines: labels by name of a figure."""

_BEGIN, _END = "<!-- written by make bench -->", "<!-- end of what make bench writes -->"
_WORDS = {
    "plain": "asks for nothing",
    "webhook-demo": "one container, two networks of one kind",
    "rich": "two containers, networks of two kinds",
}
_SUMMED = ("distinct: throughput / floor", "replicas: throughput / floor", "distinct: throughput / kopf")

# Above this share of its core the generator, not the server, may set the pace.
_SATURATED = 0.9
# Under full load a server that gets less of its core than this has shared it with other programs.
_STARVED = 0.9

_METHOD = """\
One run measures everything, on one machine and one after another, so that the ratios hold and the times do not matter.

- **Reviews**: recorded ones (`tests/support/reviews`) with the token volume that an API server adds, and as many made
  of them in advance as a round needs. *Distinct*: the name, uid, token volume, container names and images differ.
  *Replicas*: the name, uid and token volume differ, as in the Pods of one template. Each round goes on where the last
  one ended. That no distinct Pod is answered from the memo of the webhook is checked.
- **Load**: `wrk` (a generator in Python where there is none) over TLS keep-alive connections, 16 where nothing else is
  said, with one review in flight on each. It does not verify the certificate. Before the rounds, the patched Pods of
  {sample} reviews of each load are compared in full with those that kopf makes; in the rounds, each answer must be
  HTTP 200 and be the same as those, byte by byte but for the uid (and the patch, where kopf's differs by Pod).
- **Cores**: servers that are compared share one core, the generator has another. How busy the
  generator was is printed; near 100 % it would flatter whatever is slower than itself.
- **Rounds**: the servers take turns, {rounds} rounds of {seconds:g} s each ({side_rounds} with one connection, and of
  kopf and the FastAPI route); a ratio is the median of the ratios within the rounds, and the spread is their
  least and greatest. Of a percentile the least of the rounds counts, as other work only adds to it. "By CPU" is the
  ratio of the CPU time for each review: where other work took cores away in some rounds, it is the steadier figure.
  The opening of the connections is a part of each round, for all alike.
- **Berth**: `berth webhook --insecure`, started as an operator starts it, with one worker; log (a
  line for every review, written to a file) and metrics on.
- **Floor**: the same uvicorn settings, TLS context and uvloop around an application that reads the
  body and sends an answer of Berth's, made in advance. A ratio above 1 means that Berth decides and answers with
  less work than ASGI alone takes.
- **FastAPI route**: the same answer, made in advance, from an ordinary FastAPI route on the same
  server: where a webhook starts that is written the usual way.
- **kopf**: `kopf.WebhookServer` with the same TLS context and kopf's own `serve_admission_request`,
  registry and default log, on uvloop as under `kopf run`; without the operator's tasks that need a
  cluster, which take no part in a review. Its handler makes the same Pod and validates nothing.
- **Shortcuts**: the connection that answers at once, and what is remembered of decisions. Each is left out of a server
  of its own; the ratio is that of the server with all of them.
- **Workers**: two against one, of Berth and of the floor, {connections} connections, bound to no core; the generator
  needs its share of the same cores. The aim of 1.8 of what two floors give over one is read as 0.9 of the floor's own
  ratio, as two of a server that shares nothing give 2.
- **Attachments**: {many:,} in the cache against {few}, listed and watched from a stand-in for an API
  server, which is how a worker in a cluster fills its memory. Resident memory is VmRSS of the worker after the load.
- **Start**: from the start of the process until `/readyz` says yes, with {listed:,} attachments from the same stand-in,
  on the other core. The bare process imports the modules of libraries that the webhook has imported by then, in the
  same order, and lists the same attachments in pages of the same size.
- **Commands**: `berth --help`, and `berth explain` of a Pod that selects networks, against
  `python -c "import typer, rich"`.
- **Memory**: after load. The first worker: VmRSS of `berth webhook` with one worker. Each further one: the pages that a
  worker of two shares with no other process (`Private_Clean` and `Private_Dirty` of `smaps_rollup`); the larger counts.
"""


def of_baselines(found: Baselines) -> list[Figure]:
    """Every finding, in the order in which it is told."""
    told = [_duel("throughput / floor", duel, FLOOR_AIMS.get(duel.load.name)) for duel in found.floor]
    told += [_duel("throughput / kopf", duel, _KOPF_AIMS.get(duel.load.name)) for duel in found.kopf]
    told += [_duel("throughput / FastAPI route", duel, None) for duel in found.fastapi]
    told += [
        Figure(f"{duel.load.name}: answered from the memo", duel.remembered, _MEMO_AIM)
        for duel in found.floor
        if duel.load.kind == "replicas"
    ]
    for duel in found.floor:
        told += _percentiles(duel, "16 connections", aim=_P99_AIMS[duel.load.kind])
    for duel in found.single:
        told += _percentiles(duel, "1 connection", aim=None)
    return told


def of_workers(found: Scaling) -> list[Figure]:
    return [
        Figure.median(_WORKERS, found.berth.ratios, economy=found.berth.economy),
        Figure.median(_FLOORS, found.floor.ratios, economy=found.floor.economy),
        Figure.median("what a second worker gives / what a second floor gives", found.shares, aim=0.9),
    ]


def of_attachments(found: Attachments) -> list[Figure]:
    duel = found.duel
    return [
        Figure.median(_ATTACHMENTS, duel.ratios, aim=0.95, economy=duel.economy),
        Figure(f"memory of a worker, {FEW} attachments", found.few_mib, better="less", unit="MiB"),
        Figure(f"memory of a worker, {MANY:,} attachments", found.many_mib, better="less", unit="MiB"),
    ]


def warnings_of(duels: Iterable[Duel]) -> list[str]:
    """What makes a ratio doubtful."""
    found = []
    for duel in duels:
        generator = median(result.generator_busy for result in duel.baseline)
        if generator > _SATURATED:
            found.append(f"{duel.load.name}: the generator was {generator:.0%} busy; the floor may be faster")
        share = median(result.server_busy for result in duel.results)
        if share < _STARVED:
            found.append(f"{duel.load.name}: berth got {share:.0%} of its core; other work blurs the ratios")
    return found


def show_speeds(found: Baselines, console: Console) -> None:
    """How fast this machine is, which the figures do not show."""
    table = Table(title="On this machine (no measure of anything else)", title_justify="left")
    for name in ("load", "reviews/s: floor", "berth", "CPU µs: floor", "berth", "generator busy"):
        table.add_column(name, justify="left" if name == "load" else "right")
    for duel in found.floor:
        pair = (duel.baseline, duel.results)
        rates = [f"{median(result.rate for result in of):,.0f}" for of in pair]
        costs = [f"{median(result.cost for result in of) * 1e6:.0f}" for of in pair]
        busy = f"{median(result.generator_busy for result in duel.baseline):.0%} (floor)"
        table.add_row(duel.load.name, *rates, *costs, busy)
    console.print(table)


def page(figures: Iterable[Figure], warnings: Iterable[str], plan: Plan, *, sample: int, connections: int) -> str:
    """The page kept in docs/: findings and method, without absolute times."""
    lines = ["# Benchmark", "", "`make bench` wrote this page and the picture.", "", "![ratios](bench.svg)", ""]
    lines += ["The Workload API has [a page of its own](bench-companions.md).", "", *markdown(figures), ""]
    lines += [f"Warning: {text}." for text in warnings]
    packages = ("uvicorn", "uvloop", "httptools", "kopf", "aiohttp")
    lines += [f"Measured with {versions(packages)}.", "", "## Method", "", ""]
    return "\n".join(lines) + _METHOD.format(
        rounds=plan.rounds,
        side_rounds=plan.side_rounds,
        seconds=plan.seconds,
        sample=sample,
        connections=connections,
        few=FEW,
        many=MANY,
        listed=LISTED,
    )


def summary(figures: Iterable[Figure], readme: str) -> str:
    """README with the ratios of throughput between its marks."""
    found = {figure.name: number(figure.value) for figure in figures}
    lines = ["| throughput, as a ratio | distinct Pods / floor | replicas / floor | distinct Pods / kopf |"]
    lines += ["| --- | ---: | ---: | ---: |"]
    for review, words in _WORDS.items():
        cells = [found[f"{review}-{what}"] for what in _SUMMED]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    before, begin, rest = readme.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    return "\n".join((before + begin, *lines, end + after)) if begin and end else readme


def _duel(what: str, duel: Duel, aim: float | None) -> Figure:
    return Figure.median(f"{duel.load.name}: {what}", duel.ratios, aim=aim, economy=duel.economy)


def _percentiles(duel: Duel, load: str, *, aim: float | None) -> list[Figure]:
    aims: tuple[tuple[Literal["p50", "p99"], float | None], ...] = (("p50", None), ("p99", aim))
    return [
        Figure(
            f"{duel.load.name}: {which} / floor, {load}",
            duel.latency(which),
            wanted,
            "less",
            spread=(min(duel.latencies(which)), max(duel.latencies(which))),
        )
        for which, wanted in aims
    ]


def versions(packages: Iterable[str]) -> str:
    """Python, these packages and the machine, in a few words."""
    named = chain([f"Python {platform.python_version()}"], (f"{name} {version(name)}" for name in packages))
    return f"{', '.join(named)} on {os.cpu_count()} cores ({platform.system()}, {platform.machine()})"
