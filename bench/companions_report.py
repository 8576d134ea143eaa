"""Says what the measurements of the Workload API found: rows with their aims, a page and a picture, without times."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")

from matplotlib import pyplot as plt
from rich.console import Console

from bench import figures, matching
from bench.companions import Convergence
from bench.companions_events import FEW, MANY, Events
from bench.companions_memory import Kept
from bench.companions_objects import MATCHES
from bench.fairness import Fairness, loud_line
from bench.figures import Figure, number
from bench.report import versions

CONVERGENCE_AIM = 0.7
_KIB = 1024
_LEAST_FAVOR = 0.85
"""Both sides need about as much CPU a second; where one got much less, other programs were running."""

_METHOD = """\
One run measures everything, on one machine and one after another, so that the ratios hold and the times do not matter.

- **Companions**: {workloads:,} Workloads and {rules} TenantWorkloadRules of one tenant are written into {server}.
  Every rule asks for a namespace (that all workloads have) and for one value of a label; {matches} rules match each
  workload, which makes {companions:,} companions. Then `berth controller` is started, a process of its own, with
  {workers} workers, its default, and without the bounds on companions that have no node, as no scheduler runs. Its time
  begins when its caches are full (when it could create the first Pod) and ends when exactly the companions that
  should exist exist, as a client that asks for their number sees it. Names, labels, annotations and affinity of every
  one are compared with what was wanted.
- **Bare client**: Berth's own client and event loop in a process of its own, {workers} requests at a time, creating the
  very same Pods in a second API server with the same content, and doing nothing else. Ratio: its time by the
  controller's. "By CPU": the same of the CPU seconds of client and API server together; where other work takes the
  cores away, it is the steadier figure.
- **From its start**: the same end, from the start of the controller's process: the interpreter, the list of
  everything and the matching of every workload included. **Statuses**: until each workload's status names its
  companions and each rule's has counted them, which comes after the companions.
- **One event**: two controllers stand by, with {few} rules and with {many}, each with an API server of its own and
  {event_workloads:,} workloads, of which {matches} rules match each in both. A label of a workload changes, and the
  change is timed until all its companions have it as an annotation; the two take turns, {samples} times. "By CPU":
  CPU seconds of the controllers. The matcher alone is `python -m bench.matching`.
- **Memory of a workload**: bytes that stay allocated in the controller's caches, as `tracemalloc` counts them: of a
  workload with its part in all indexes, and with the entries of its {matches} companions. Resident: what the process
  has more, after all of the above, than one with the same rules and no workload; its heap's gaps and the peak of the
  first list are in it.
- **Loud and quiet**: `berth gateway` with its default limits. The quiet tenant lists its rules, writes one, and changes
  a workload until the API server shows it, well below its limits. The loud one has 32 calls under way on 4
  connections, 7 watches, and sends workload events as fast as they are taken. Spells of the quiet one alone and
  beside the loud one take turns, on {cores} cores. The gateway has one of them to itself. The callers and the API
  server share the rest in both kinds of spells, and the loud tenant's process gives way to the quiet one's: they stand
  for other machines.
"""


@dataclass(frozen=True, slots=True)
class WorkloadRun:
    """All that was measured of the Workload API. `real`: on kube-apiserver."""

    convergence: Convergence
    events: Events
    event_workloads: int
    kept: Kept
    fairness: Fairness
    real: bool = False


def found(run: WorkloadRun) -> list[Figure]:
    """Every finding, in the order in which it is told."""
    convergence, events, goal = run.convergence, run.events, matching.RATIO_GOAL
    rounds = convergence.rounds
    return [
        Figure.median(
            f"all {convergence.size.companions:,} companions: bare client / controller",
            [one.ratio for one in rounds],
            economy=statistics.median(one.economy for one in rounds),
            aim=CONVERGENCE_AIM,
        ),
        Figure.median("companions, from the controller's start", [one.bare / one.started for one in rounds]),
        Figure.median("companions, with all statuses written", [one.bare / one.statuses for one in rounds]),
        Figure(f"one event: {MANY} rules / {FEW}", events.ratio, goal, "less", economy=events.economy),
        Figure("one event, in the matcher alone", events.pure.ratio, goal, "less"),
        *_memory(run),
        *run.fairness.figures(),
    ]


def _memory(run: WorkloadRun) -> list[Figure]:
    goal = matching.MEMORY_GOAL / _KIB
    whole = f"memory of a workload with {MATCHES} companions"
    return [
        Figure("memory of a workload", run.kept.alone / _KIB, goal, "less", unit="KiB"),
        Figure(whole, run.kept.whole / _KIB, goal, "less", unit="KiB"),
        Figure(
            f"memory of a workload with {MATCHES} companions, resident",
            run.convergence.resident_bytes / _KIB,
            better="less",
            unit="KiB",
        ),
    ]


def warnings(run: WorkloadRun) -> list[str]:
    """What makes the ratio of the clock doubtful; the one by CPU holds all the same."""
    favors = [one.favor for one in run.convergence.rounds]
    return [
        f"in round {place} the controller and its API server got {favor:.0%} of the CPU a second that the bare client "
        "and its own got; other work on this machine blurs that ratio"
        for place, favor in enumerate(favors, start=1)
        if not _LEAST_FAVOR <= favor <= 2 - _LEAST_FAVOR
    ]


def show(run: WorkloadRun, console: Console) -> None:
    figures.show("The Workload API, as ratios", found(run), console)
    for warning in warnings(run):
        console.print(f"[yellow]warning:[/] {warning}")
    console.print(loud_line(run.fairness))


def markdown(run: WorkloadRun, *, cores: int) -> str:
    """The page kept in docs/: findings and method, without absolute times."""
    size = run.convergence.size
    server = "a real kube-apiserver" if run.real else "the sandbox's API server"
    lines = ["# Benchmark of the Workload API", "", "`make bench` wrote this page and the picture.", ""]
    lines += ["![ratios](bench-companions.svg)", ""]
    lines += figures.markdown(found(run))
    lines += ["", *(f"Warning: {text}." for text in warnings(run))]
    lines += [f"Measured with {versions(('uvloop', 'aiohttp', 'grpcio', 'kubernetes'))}.", "", "## Method", ""]
    method = _METHOD.format(
        workloads=size.workloads,
        rules=size.rules,
        companions=size.companions,
        workers=size.workers,
        matches=MATCHES,
        server=server,
        few=FEW,
        many=MANY,
        event_workloads=run.event_workloads,
        samples=len(run.events.few),
        cores=cores,
    )
    return "\n".join(lines) + "\n" + method


def draw(run: WorkloadRun, path: Path) -> None:
    """Write the SVG; the same run gives the same bytes."""
    mpl.rcParams.update({"svg.hashsalt": "berth", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 11})
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
    figure.patch.set_facecolor("white")
    rounds = run.convergence.rounds
    speeds = (
        ("bare client", 1.0),
        ("controller", run.convergence.ratio),
        ("… from its start", statistics.median(one.bare / one.started for one in rounds)),
        ("… with statuses", statistics.median(one.bare / one.statuses for one in rounds)),
    )
    _bars(left, speeds, f"speed, {run.convergence.size.companions:,} companions (bare client = 1)", CONVERGENCE_AIM)
    events = run.events
    costs = (
        (f"{FEW} rules", 1.0),
        (f"{MANY} rules", events.ratio),
        (f"{MANY} rules, by CPU", events.economy),
        (f"{MANY} rules, matcher", events.pure.ratio),
    )
    _bars(right, costs, f"cost of one event ({FEW} rules = 1)", matching.RATIO_GOAL)
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)


def _bars(axes: Any, values: Sequence[tuple[str, float]], title: str, aim: float) -> None:
    for y, (_, value) in enumerate(values):
        axes.barh(y, value, height=0.6, color="#999999" if y == 0 else "#0072B2", edgecolor="white")
        axes.annotate(number(value), (value, y), xytext=(5, 0), textcoords="offset points", va="center")
    axes.axvline(aim, color="black", linewidth=1, linestyle="--", label="aim")
    axes.set_yticks(range(len(values)), [name for name, _ in values])
    axes.set_xlim(0, max(1.0, aim, *(value for _, value in values)) * 1.2)
    axes.invert_yaxis()
    axes.set_title(title, fontsize=11, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), frameon=False)
