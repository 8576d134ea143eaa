"""Says what admission adds: differences of percentiles with their intervals; a file, a page and a picture of it.

An interval comes from the blocks in which arms took turns: they are drawn again at random, with the same numbers each
run, and 95 of 100 differences are within it.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.admission_arms import PAIRS
from bench.creations import Outcome
from bench.picture import prepare
from bench.report import versions

_DRAWS = 400
SATURATED = 0.8
"""Above this share of its core the client may set the pace: what differs then is no cost of admission."""
_PACE = 0.95
"""Below this share of the rate that was asked for, what waited longer and longer is measured, not admission."""
_ROOM = 1.2
"""A limit is a fifth above the mean of the rounds."""
KEPT = "bench-apiserver.json"
"""The run that is kept, beside the page: page and picture are made from it, later runs are held against its limits."""


@dataclass(frozen=True, slots=True)
class Condition:
    """How Pods are created: one after the other over each connection, or at a rate a second."""

    connections: int = 0
    rate: float = 0.0

    def __str__(self) -> str:
        if self.rate:
            return f"{self.rate:g} a second"
        return "1 connection" if self.connections == 1 else f"{self.connections} connections"


class Difference(NamedTuple):
    """What an arm takes longer than another one, in milliseconds: the value, and where 95 of 100 draws are."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.2f} ({self.low:+.2f} to {self.high:+.2f})"


class Found(NamedTuple):
    """A pair of arms in one condition. It is `certain` where neither client nor machine set the pace."""

    condition: str
    arm: str
    against: str
    base: float
    p50: Difference
    p99: Difference
    rounds: tuple[tuple[float, float], ...]
    """p50 and p99 of each round alone."""
    server: float | None
    """Milliseconds that the API server counts for one call, in the mean; None where it counts none."""
    busy: float
    machine: float
    """The share of all cores that any program used."""
    pace: float = 1.0
    """The share of the creations that were made in the time in which all were due."""

    @property
    def name(self) -> str:
        return f"{self.condition}: {self.arm} against {self.against}"

    @property
    def certain(self) -> bool:
        return self.busy <= SATURATED and self.pace >= _PACE

    @property
    def limits(self) -> tuple[float | None, float | None]:
        """The most that a later run may find, for p50 and p99; None where nothing certain was found."""
        means = [statistics.fmean(values) for values in zip(*self.rounds, strict=True)]
        p50, p99 = (round(mean * _ROOM, 3) if self.certain and mean > 0 else None for mean in means)
        return p50, p99


@dataclass(frozen=True, slots=True)
class Run:
    """All that was found, and how it was measured."""

    found: Sequence[Found]
    creations: int
    rounds: int
    attachments: int
    cores: int
    versions: str

    @classmethod
    def of(cls, measured: Measured, *, creations: int, rounds: int, attachments: int) -> Run:
        found = figures_of(measured)
        return cls(found, creations, rounds, attachments, os.cpu_count() or 1, versions(("uvicorn", "uvloop")))

    @classmethod
    def load(cls, path: Path) -> Run:
        """What `save` wrote. Raises OSError or ValueError where there is none."""
        content = json.loads(path.read_text())
        found = [
            Found(
                **{key: value for key, value in entry.items() if key != "limits"}
                | {"p50": Difference(*entry["p50"]), "p99": Difference(*entry["p99"])}
                | {"rounds": tuple((p50, p99) for p50, p99 in entry["rounds"])}
            )
            for entry in content.pop("found")
        ]
        return cls(found, **content)

    def save(self, path: Path) -> None:
        content = {name: getattr(self, name) for name in ("creations", "rounds", "attachments", "cores", "versions")}
        found = [{**figure._asdict(), "limits": figure.limits} for figure in self.found]
        path.write_text(json.dumps({**content, "found": found}, indent=1, default=list) + "\n")

    def failures(self, kept: Run) -> list[str]:
        """Where it found more than the limits of the kept run allow; what is not certain in one of them, fails not."""
        limits = {figure.name: figure.limits for figure in kept.found}
        return [
            f"{figure.name}: {percentile}: want at most {limit:.2f} ms more, got {difference}"
            for figure in self.found
            if figure.certain
            for percentile, difference, limit in zip(
                ("p50", "p99"), (figure.p50, figure.p99), limits.get(figure.name, (None, None)), strict=True
            )
            # An interval that reaches below the limit says nothing against it.
            if limit is not None and difference.low > limit
        ]


Measured = Sequence[tuple[Condition, Sequence[Outcome], dict[str, float]]]
"""Each condition with the outcome of each round, and the API server's own means by the name of what it called."""
_SERVERS_NAMES = {"webhook": "webhook.bench.berth.dev", "empty webhook": "empty.bench.berth.dev"}


def figures_of(measured: Measured) -> list[Found]:
    found = []
    for condition, outcomes, means in measured:
        blocks: dict[str, list[np.ndarray]] = {}
        for outcome in outcomes:
            for name, series in outcome.series.items():
                blocks.setdefault(name, []).extend(np.array(block) * 1000 for block in series.blocks if block)
        busy = max(outcome.busy for outcome in outcomes)
        machine = statistics.fmean(outcome.machine for outcome in outcomes)
        pace = min(outcome.rate for outcome in outcomes) / condition.rate if condition.rate else 1.0
        for arm, against in PAIRS:
            if arm not in blocks or against not in blocks:
                continue
            mean = means.get(_SERVERS_NAMES.get(arm, ""))
            base = float(np.percentile(np.concatenate(blocks[against]), 50))
            p50, p99 = (_difference(blocks[arm], blocks[against], percent) for percent in (50, 99))
            rounds = tuple(
                (_apart(outcome, arm, against, 50), _apart(outcome, arm, against, 99)) for outcome in outcomes
            )
            server = None if mean is None else mean * 1000
            found.append(Found(str(condition), arm, against, base, p50, p99, rounds, server, busy, machine, pace))
    return found


def _apart(outcome: Outcome, arm: str, against: str, percent: float) -> float:
    """Milliseconds between two percentiles of one round."""
    left, right = (np.percentile(outcome.series[name].times, percent) for name in (arm, against))
    return float(left - right) * 1000


def _difference(arm: Sequence[np.ndarray], against: Sequence[np.ndarray], percent: float) -> Difference:
    """Between two percentiles. Blocks of the same turn are drawn together, as they met the same machine."""
    turns = min(len(arm), len(against))
    # Blocks of one creation are too many to be drawn one by one: a hundred in a row are one.
    size = max(1, turns // 100)
    pairs = [
        (np.concatenate(arm[start : start + size]), np.concatenate(against[start : start + size]))
        for start in range(0, turns, size)
    ]
    random = np.random.default_rng(1)

    def between(chosen: Sequence[int]) -> float:
        left, right = (np.concatenate([pairs[place][side] for place in chosen]) for side in (0, 1))
        return float(np.percentile(left, percent) - np.percentile(right, percent))

    draws = [between(random.integers(0, len(pairs), len(pairs)).tolist()) for _ in range(_DRAWS)]
    low, high = np.percentile(draws, [2.5, 97.5])
    return Difference(between(range(len(pairs))), float(low), float(high))


_COLUMNS = (
    "creations",
    "arm",
    "against",
    "p50 of that",
    "adds, p50",
    "adds, p99",
    "the server's own mean",
    "client",
    "machine",
)


def _told(figure: Found, difference: Difference) -> str:
    """The difference, or why there is none to tell."""
    if figure.busy > SATURATED:
        return "saturated: the client sets the pace"
    if not figure.certain:
        return "saturated: the rate is not kept"
    if difference.low <= 0 <= difference.high:
        return f"none seen ({difference.low:+.2f} to {difference.high:+.2f})"
    return str(difference)


def _rows(found: Sequence[Found]) -> Iterator[tuple[str, ...]]:
    for figure in found:
        yield (
            figure.condition,
            figure.arm,
            figure.against,
            f"{figure.base:.2f}",
            _told(figure, figure.p50),
            _told(figure, figure.p99),
            "" if figure.server is None else f"{figure.server:.2f}",
            f"{figure.busy:.0%}",
            f"{figure.machine:.0%}",
        )


def show(found: Sequence[Found], console: Console) -> None:
    table = Table(title="What admission adds, in milliseconds", title_justify="left", box=None)
    for name in _COLUMNS:
        table.add_column(name, no_wrap=True)
    for row in _rows(found):
        table.add_row(*row)
    console.print(table, soft_wrap=True)


_METHOD = """\
One kube-apiserver and one etcd run on one machine with {cores} cores, together with the webhook and the client. An arm
is a namespace with {attachments} attachments, and what admits its Pods. The Pod is that of
`examples/webhook-demo.yaml`, with a name of its own each time.

- **Turns**: arms take turns, in an order that changes with each turn: one creation each over one connection, else a
  block of four creations for each connection. At a rate, Pods are due at fixed times, and a time runs from the moment
  at which its Pod was due. {rounds} rounds of {creations:,} creations for each arm; Pods are deleted between rounds.
- **Difference**: of the percentiles of two arms, in milliseconds. The interval has 95 of 100 draws of the blocks.
  Where it contains 0, no difference was seen.
- **Client**: one process in Python with requests made in advance. Its share of one core is told; with two cores all of
  it competes with the API server, so figures with many connections are those of a saturated machine. *Machine* is the
  share of all cores that any program used. Where the client was busy for more than {saturated:.0%} of the time, or less
  than {pace:.0%} of a rate was kept, no difference is told: it would be that of a queue.
- **Limits**: a fifth above the mean of the rounds, in `bench-apiserver.json` with the run. A later run fails where even
  the low end of an interval is above the limit.
- **The server's own mean** is what the API server counts for one call, from
  `apiserver_admission_webhook_admission_duration_seconds`.
- **Webhook**: `berth webhook`, with the registration of the chart (match conditions with it). The *empty webhook*
  allows every review without a look: the least that a webhook costs, on the server that Berth uses. *Policies* are
  those of `berth policies generate`, with the names of the attachments in their text. The *identity policy* matches
  the same Pods and changes nothing: the least that a policy costs. The *constant policy* adds the same as Berth to any
  Pod: the least that a policy costs that changes one.
- **A plain Pod** asks for nothing; the API server leaves it out by the match conditions, and calls no webhook.
"""


def write(run: Run, output: Path) -> None:
    """The page and the picture."""
    found = run.found
    output.mkdir(parents=True, exist_ok=True)
    _draw(found, output / "bench-apiserver.svg")
    lines = [
        "# What admission costs at the API server",
        "",
        "`make bench-apiserver` wrote this page and the picture, in half an hour on an idle machine.",
        "`python -m bench.admission --page` makes them from `bench-apiserver.json` again.",
        "",
    ]
    lines += ["![what is added](bench-apiserver.svg)", "", "All times are in milliseconds.", ""]
    lines += [f"| {' | '.join(_COLUMNS)} |", "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    lines += [f"| {' | '.join(row)} |" for row in _rows(found)]
    lines += ["", f"Measured with {run.versions}.", "", "## Method", ""]
    method = _METHOD.format(
        cores=run.cores,
        attachments=run.attachments,
        rounds=run.rounds,
        creations=run.creations,
        saturated=SATURATED,
        pace=_PACE,
    )
    (output / "bench-apiserver.md").write_text("\n".join(lines) + "\n" + method)


def _draw(found: Sequence[Found], path: Path) -> None:
    """What each pair adds at p50 and p99, by condition, with its interval."""
    plt = prepare()
    pairs = [pair for pair in PAIRS if any((figure.arm, figure.against) == pair for figure in found)]
    conditions = list(dict.fromkeys(figure.condition for figure in found))
    size = (3.2 * len(conditions) + 2.4, 4.4)
    canvas, axes = plt.subplots(1, len(conditions), figsize=size, layout="constrained", sharey=True)
    canvas.patch.set_facecolor("white")
    for axis, condition in zip(np.atleast_1d(axes), conditions, strict=True):
        _panel(axis, condition, pairs, [figure for figure in found if figure.condition == condition])
    first: Any = np.atleast_1d(axes)[0]
    first.set_yticks(range(len(pairs)), [f"{arm}\nagainst {against}" for arm, against in pairs])
    first.invert_yaxis()
    # A panel may have no bar at all: the legend does not rest on one.
    keys = [plt.Rectangle((0, 0), 1, 1, color=color, label=name) for name, color in _COLORS.items()]
    first.legend(handles=keys, loc="lower right", frameon=False)
    canvas.suptitle("What admission adds to the creation of a Pod, in milliseconds", fontsize=13)
    canvas.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(canvas)


_COLORS = {"p50": "#0072B2", "p99": "#E69F00"}


def _panel(axis: Any, condition: str, pairs: Sequence[tuple[str, str]], found: Sequence[Found]) -> None:
    for place, pair in enumerate(pairs):
        for figure in found:
            if (figure.arm, figure.against) != pair or not figure.certain:
                continue
            for offset, difference, name in (
                (-0.16, figure.p50, "p50"),
                (0.16, figure.p99, "p99"),
            ):
                ends = [[max(difference.value - difference.low, 0)], [max(difference.high - difference.value, 0)]]
                axis.barh(place + offset, difference.value, height=0.3, color=_COLORS[name], xerr=ends)
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set_title(condition, fontsize=11, loc="left")
    axis.spines[["top", "right"]].set_visible(False)
