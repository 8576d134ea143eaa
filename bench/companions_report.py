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

CONVERGENCE_AIM, START_AIM, COMPANIONS_AIM = 0.95, 0.85, 0.7
WRITES_AIM = 1.01
_KIB = 1024
_FULL_SIZE = """\

## At full size

Once, on a real kube-apiserver (1.36) with etcd and the controller on the same 2 cores, with other programs beside them:
10,000 Workloads, 200 rules of one tenant, 20,000 companions. The controller made 20,000 Pods, 10,000 statuses of
Workloads and 200 statuses of rules, as the API server's metrics say: each once. None was answered with 429, for a user
without exemption from priority and fairness. From the start of its process it took 78 s, of which 2.4 s until its
caches were full, and 40 s until all companions existed. The bare client took 56 s for the same writes, and 25 s for the
companions: 0.72 of its speed from the start, 0.75 from full caches, and 0.82 by CPU seconds of client and API server
together (112 s and 92 s). Resident were 89 MiB without workloads and 132 MiB at the end, 4.5 KiB for each workload
with its 2 companions. There, the controller and the API server compete for the cores.
"""
_LEAST_FAVOR = 0.85
"""Both sides need about as much CPU a second; where one got much less, other programs were running."""

_METHOD = """\
One run measures everything, on one machine and one after another, so that the ratios hold and the times do not matter.

- **Companions and statuses**: {workloads:,} Workloads and {rules} TenantWorkloadRules of one tenant are written into
  {server}. Every rule asks for a namespace (that all workloads have) and for one value of a label; {matches} rules
  match each workload, which makes {companions:,} companions, and each Workload and each rule gets a status. Then
  `berth controller` is started, a process of its own, with {workers} workers, its default, and without the bounds on
  companions that have no node, as no scheduler runs. It has ended when exactly the companions that should exist exist
  and every status says so, as a client sees it that asks for the latest version. Labels, annotations, affinity and
  statuses are compared with what was wanted. **From full caches**: the time begins when it could create the first Pod.
  **From its start**: with the interpreter, the list of everything and the matching of every workload.
- **Bare client**: Berth's own client and event loop in a process of its own, {workers} requests at a time, creating the
  very same Pods and then writing the very same statuses in a second API server with the same content, and doing nothing
  else: no list, no watch. Ratio: its time, from its first request, by the controller's. "By CPU": the same of the CPU
  seconds of client and API server together; where other work takes the cores away, it is the steadier figure.
- **Writes**: changes that the API server has counted for the controller, for each that the bare client makes.
- **One event**: two controllers stand by, with {few} rules and with {many}, each with an API server of its own and
  {event_workloads:,} workloads, of which {matches} rules match each in both. A label of a workload changes, and the
  change is timed until all its companions have it as an annotation; the two take turns, {samples} times. "By CPU":
  CPU seconds of the controllers. The matcher alone is `python -m bench.matching`, which also compares {crowd:,}
  workloads in it with as many as those.
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
            "companions and statuses: bare client / controller, from full caches",
            [one.ratio for one in rounds],
            aim=CONVERGENCE_AIM,
        ),
        Figure.median(
            "companions and statuses: bare client / controller, from its start",
            [one.from_start for one in rounds],
            economy=statistics.median(one.economy for one in rounds),
            aim=START_AIM,
        ),
        Figure.median(
            "companions alone: bare client / controller, from full caches",
            [one.bare_companions / one.companions for one in rounds],
            aim=COMPANIONS_AIM,
        ),
        Figure.median(
            "writes: controller / bare client", [one.writes for one in rounds], aim=WRITES_AIM, better="less"
        ),
        Figure(f"one event: {MANY} rules / {FEW}", events.ratio, goal, "less", economy=events.economy),
        Figure("one event, in the matcher alone", events.pure.ratio, goal, "less"),
        Figure(f"one event, in the matcher alone: {matching.CROWD:,} workloads / few", events.pure.crowd, goal, "less"),
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
            goal,
            "less",
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
        crowd=matching.CROWD,
        many=MANY,
        event_workloads=run.event_workloads,
        samples=len(run.events.few),
        cores=cores,
    )
    return "\n".join(lines) + "\n" + method + _FULL_SIZE


def draw(run: WorkloadRun, path: Path) -> None:
    """Write the SVG; the same run gives the same bytes."""
    mpl.rcParams.update({"svg.hashsalt": "berth", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 11})
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
    figure.patch.set_facecolor("white")
    rounds = run.convergence.rounds
    speeds = (
        ("bare client", 1.0),
        ("controller", statistics.median(one.ratio for one in rounds)),
        ("… from its start", statistics.median(one.from_start for one in rounds)),
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
