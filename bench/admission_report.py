"""Says what admission adds: differences of percentiles with their intervals, a page and a picture.

An interval comes from the blocks in which arms took turns: they are drawn again at random, with the same numbers each
run, and 95 of 100 differences are within it.
"""

from __future__ import annotations

import os
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
_SATURATED = 0.8
"""Above this share of its core the client may set the pace."""


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
    """A pair of arms in one condition. `certain` is False where the client or the machine was saturated."""

    condition: str
    arm: str
    against: str
    base: float
    p50: Difference
    p99: Difference
    server: float | None
    """Milliseconds that the API server counts for one call, in the mean; None where it counts none."""
    busy: float


@dataclass(frozen=True, slots=True)
class Run:
    """All that was measured, and how much of it."""

    measured: Sequence[tuple[Condition, Sequence[Outcome], dict[str, float]]]
    creations: int
    rounds: int
    attachments: int


_SERVERS_NAMES = {"webhook": "webhook.bench.berth.dev", "empty webhook": "empty.bench.berth.dev"}


def figures_of(run: Run) -> list[Found]:
    found = []
    for condition, outcomes, means in run.measured:
        blocks: dict[str, list[np.ndarray]] = {}
        for outcome in outcomes:
            for name, series in outcome.series.items():
                blocks.setdefault(name, []).extend(np.array(block) * 1000 for block in series.blocks if block)
        busy = max(outcome.busy for outcome in outcomes)
        for arm, against in PAIRS:
            if arm not in blocks or against not in blocks:
                continue
            mean = means.get(_SERVERS_NAMES.get(arm, ""))
            base = float(np.percentile(np.concatenate(blocks[against]), 50))
            p50, p99 = (_difference(blocks[arm], blocks[against], percent) for percent in (50, 99))
            found.append(
                Found(str(condition), arm, against, base, p50, p99, None if mean is None else mean * 1000, busy)
            )
    return found


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


_COLUMNS = ("creations", "arm", "against", "p50 of that", "adds, p50", "adds, p99", "the server's own mean", "client")


def _rows(found: Sequence[Found]) -> Iterator[tuple[str, ...]]:
    for figure in found:
        yield (
            figure.condition,
            figure.arm,
            figure.against,
            f"{figure.base:.2f}",
            str(figure.p50),
            str(figure.p99),
            "" if figure.server is None else f"{figure.server:.2f}",
            f"{figure.busy:.0%}{', sets the pace' if figure.busy > _SATURATED else ''}",
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
  An interval that contains 0 says that no difference was seen.
- **Client**: one process in Python with requests made in advance. Its share of one core is told; with two cores all of
  it competes with the API server, so figures with many connections are those of a saturated machine.
- **The server's own mean** is what the API server counts for one call, from
  `apiserver_admission_webhook_admission_duration_seconds`.
- **Webhook**: `berth webhook`, with the registration of the chart (match conditions with it). The *empty webhook*
  allows every review without a look: the least that a webhook costs, on the server that Berth uses. *Policies* are
  those of `berth policies generate`, with the names of the attachments in their text. The *identity policy* matches
  the same Pods and changes nothing: the least that a policy costs.
- **A plain Pod** asks for nothing; the API server leaves it out by the match conditions, and calls no webhook.
"""


def write(run: Run, output: Path) -> None:
    """The page and the picture."""
    found = figures_of(run)
    output.mkdir(parents=True, exist_ok=True)
    _draw(found, output / "bench-apiserver.svg")
    lines = [
        "# What admission costs at the API server",
        "",
        "`make bench-apiserver` wrote this page and the picture.",
        "",
    ]
    lines += ["![what is added](bench-apiserver.svg)", "", "All times are in milliseconds.", ""]
    lines += [f"| {' | '.join(_COLUMNS)} |", "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    lines += [f"| {' | '.join(row)} |" for row in _rows(found)]
    lines += ["", f"Measured with {versions(('uvicorn', 'uvloop'))}.", "", "## Method", ""]
    method = _METHOD.format(
        cores=os.cpu_count(), attachments=run.attachments, rounds=run.rounds, creations=run.creations
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
    first.legend(loc="lower right", frameon=False)
    canvas.suptitle("What admission adds to the creation of a Pod, in milliseconds", fontsize=13)
    canvas.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(canvas)


def _panel(axis: Any, condition: str, pairs: Sequence[tuple[str, str]], found: Sequence[Found]) -> None:
    for place, pair in enumerate(pairs):
        for figure in found:
            if (figure.arm, figure.against) != pair:
                continue
            for offset, difference, color, name in (
                (-0.16, figure.p50, "#0072B2", "p50"),
                (0.16, figure.p99, "#E69F00", "p99"),
            ):
                ends = [[max(difference.value - difference.low, 0)], [max(difference.high - difference.value, 0)]]
                label = name if place == 0 else None
                axis.barh(place + offset, difference.value, height=0.3, color=color, xerr=ends, label=label)
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set_title(condition, fontsize=11, loc="left")
    axis.spines[["top", "right"]].set_visible(False)
