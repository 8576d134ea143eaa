"""Says what a run found: rows with their aims, as a table on the terminal and as Markdown."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from itertools import chain
from statistics import median

from rich.console import Console
from rich.table import Table

from bench import figures
from bench.figures import Figure
from bench.rounds import Duel, Run

FLOOR_AIMS = {"webhook-demo": 0.75, "rich": 0.65}
_KOPF_AIMS = {"webhook-demo": 10.0, "rich": 20.0}
_MEMORY_AIM = 120.0
# Rounds of equal servers differ by a few hundredths: less than the first is slower, growth is more than noise.
_EQUAL, _GROWTH = 0.95, 1.2
# Above this share of its core the generator, not the server, may set the pace.
_SATURATED = 0.9
# Under full load a server that gets less of its core than this has shared it with other programs.
_STARVED = 0.9

_METHOD = """\
One run measures everything, on one machine and one after another, so that the ratios hold and the times do not matter.

- **Load**: a process of its own sends recorded reviews (`tests/support/reviews`) over 16 TLS keep-alive
  connections, one review in flight on each. Every answer is checked: HTTP 200 and, byte by byte,
  the first answer, which was parsed.
- **Cores**: servers that are compared share one core, the generator has another. How busy the
  generator was is printed; near 100 % it would flatter whatever is slower than itself.
- **Rounds**: the servers take turns, {rounds} rounds of {seconds:g} s each after a warm-up; a ratio
  is the median of the ratios within the rounds, and the spread is their least and greatest. "By
  CPU" is the ratio of reviews by CPU second of the server: where other work took cores away in some
  rounds, it is the steadier figure.
- **Berth**: `berth webhook --insecure`, started as an operator starts it, with one worker; log (a
  line for every review, written to a file) and metrics on.
- **Floor**: the same uvicorn settings, TLS context and uvloop around an application that reads the
  body and sends Berth's own answer, made in advance. No webhook on this server can be faster.
- **FastAPI route**: the same answer, made in advance, from an ordinary FastAPI route on the same
  server: where a webhook starts that is written the usual way. Berth's admission paths stand before
  FastAPI.
- **kopf**: `kopf.WebhookServer` with the same TLS context and kopf's own `serve_admission_request`,
  registry and default log, on uvloop as under `kopf run`; without the operator's tasks that need a
  cluster, which take no part in a review. Its handler makes the same Pod (that is checked before
  anything is measured) and validates nothing.
- **Workers**: two against one, 64 connections, bound to no core; the generator needs its share of
  the same cores. 1.2 counts as growth.
- **Attachments**: {many} in the cache against {few}, listed and watched from a stand-in for an API
  server, which is how a worker in a cluster fills its memory. Resident memory is VmRSS of the
  worker, after the load and, in parentheses, before it. 0.95 counts as no slower.
"""


def found(run: Run) -> list[Figure]:
    """Every finding, in the order in which it is told."""
    telling = [_throughput(duel, "floor", FLOOR_AIMS) for duel in run.floor]
    telling += [_throughput(duel, "FastAPI route", {}) for duel in run.fastapi]
    telling += [_throughput(duel, "kopf", _KOPF_AIMS) for duel in run.kopf]
    for duels, load in ((run.floor, "16 connections"), (run.single, "1 connection")):
        telling += [
            Figure(f"{duel.review}: p{percent} / floor, {load}", duel.latency(percent), better="less")
            for duel in duels
            for percent in (50, 99)
        ]
    telling.append(_duel("2 workers / 1", run.workers, aim=_GROWTH))
    telling.append(_duel("5,000 attachments / 2", run.attachments, aim=_EQUAL))
    for memory in run.memory:
        name = f"memory of a worker, {memory.attachments:,} attachments"
        telling.append(Figure(name, memory.after_load, _MEMORY_AIM, "less", unit="MiB"))
    return telling


def warnings(run: Run) -> list[str]:
    """What makes a ratio doubtful."""
    found = []
    for duel in run.floor:
        busy = median(result.generator_busy for result in duel.baseline)
        if busy > _SATURATED:
            found.append(f"{duel.review}: the generator was {busy:.0%} busy; the floor may be faster than measured")
    shares = {f"{duel.review}: berth": _busy(duel) for duel in run.floor}
    shares |= {"5,000 attachments: berth": _busy(run.attachments), "2 workers and the generator": run.cores_busy}
    found += [
        f"{who} got {share:.0%} of the CPU there is; other work on this machine blurs the ratios"
        for who, share in shares.items()
        if share < _STARVED
    ]
    return found


def show(run: Run, console: Console) -> None:
    """The findings as a table, then how fast this machine is, which the findings do not show."""
    figures.show("Berth's webhook, as ratios", found(run), console)
    speeds = Table(title="Reviews a second here (no measure of anything but this machine)", title_justify="left")
    for name in ("review", "floor", "berth", "kopf", "generator busy", "berth busy"):
        speeds.add_column(name, justify="left" if name == "review" else "right")
    for floor, kopf in zip(run.floor, run.kopf, strict=True):
        speeds.add_row(
            floor.review,
            *(f"{median(result.rate for result in of):,.0f}" for of in (floor.baseline, floor.results, kopf.baseline)),
            f"{median(result.generator_busy for result in floor.baseline):.0%} (floor)",
            f"{median(result.server_busy for result in floor.results):.0%}",
        )
    console.print(speeds)
    for warning in warnings(run):
        console.print(f"[yellow]warning:[/] {warning}")


def markdown(run: Run, *, rounds: int, seconds: float) -> str:
    """The page kept in docs/: findings and method, without absolute times."""
    lines = ["# Benchmark", "", "`make bench` wrote this page and the picture.", "", "![ratios](bench.svg)", ""]
    lines += ["The Workload API has [a page of its own](bench-companions.md).", ""]
    lines += figures.markdown(found(run))
    lines += [
        "",
        *(f"Warning: {text}." for text in warnings(run)),
        f"Measured with {versions(('uvicorn', 'uvloop', 'httptools', 'kopf', 'aiohttp'))}.",
        "",
        "## Method",
        "",
    ]
    few, many = (memory.attachments for memory in run.memory)
    return "\n".join(lines) + "\n" + _METHOD.format(rounds=rounds, seconds=seconds, few=few, many=f"{many:,}")


def _busy(duel: Duel) -> float:
    return median(result.server_busy for result in duel.results)


def _throughput(duel: Duel, baseline: str, aims: dict[str, float]) -> Figure:
    return _duel(f"{duel.review}: throughput / {baseline}", duel, aim=aims.get(duel.review))


def _duel(name: str, duel: Duel, *, aim: float | None) -> Figure:
    return Figure.median(name, duel.ratios, aim=aim, economy=duel.economy)


def versions(packages: Iterable[str]) -> str:
    """Python, these packages and the machine, in a few words."""
    named = chain([f"Python {platform.python_version()}"], (f"{name} {version(name)}" for name in packages))
    return f"{', '.join(named)} on {os.cpu_count()} cores ({platform.system()}, {platform.machine()})"
