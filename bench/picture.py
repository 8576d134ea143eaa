"""The picture of a run: throughput as bars, each labeled with its ratio. No absolute times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")

from matplotlib import pyplot as plt

from bench.figures import number
from bench.report import FLOOR_AIMS
from bench.rounds import Run

# Okabe and Ito's palette, distinct for every kind of color vision; the hatches serve for print.
_GREY, _BLUE, _ORANGE, _GREEN = "#999999", "#0072B2", "#E69F00", "#009E73"
_PLAIN = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}


def draw(run: Run, path: Path) -> None:
    """Write the SVG; the same run gives the same bytes."""
    mpl.rcParams.update(
        {
            "svg.hashsalt": "berth",
            "svg.fonttype": "none",
            "font.family": "sans-serif",
            "font.size": 11,
            "hatch.linewidth": 0.6,
        }
    )
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, 4.6), gridspec_kw={"width_ratios": [3, 2]}, layout="constrained"
    )
    figure.patch.set_facecolor("white")
    _baselines(left, run)
    _scaling(right, run)
    figure.suptitle("Berth's admission webhook: reviews answered, as ratios (longer is better)", fontsize=13)
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)


def _baselines(axes: Any, run: Run) -> None:
    """The floor is 1; Berth and kopf beside it, by review, with what Berth is to kopf."""
    ticks = []
    for row, (floor, kopf) in enumerate(zip(run.floor, run.kopf, strict=True)):
        ours, times = floor.throughput, kopf.throughput
        bars = (
            ("floor: constant answer", 1.0, _GREY, "", "1"),
            ("Berth", ours, _BLUE, "", number(ours)),
            ("kopf", ours / times, _ORANGE, "///", f"{number(ours / times)}: Berth does {number(times)} times as many"),
        )
        for place, (name, value, color, hatch, label) in enumerate(bars):
            y = row * 4 + place
            axes.barh(y, value, color=color, hatch=hatch, edgecolor="white", label=name if row == 0 else None)
            inside = value > 0.75
            axes.annotate(
                label,
                (value, y),
                xytext=(-5 if inside else 5, 0),
                textcoords="offset points",
                ha="right" if inside else "left",
                va="center",
                color="white" if inside and color == _BLUE else "black",
            )
        aim = FLOOR_AIMS.get(floor.review)
        if aim is not None:
            axes.plot([aim, aim], [row * 4 + 0.5, row * 4 + 1.5], color="black", label="aim" if row == 1 else None)
        ticks.append(row * 4 + 1)
    axes.set_yticks(ticks, [duel.review for duel in run.floor])
    axes.set_xlim(0, 1.05)
    _finish(axes, "throughput over TLS, one worker (floor = 1)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=4, frameon=False)


def _scaling(axes: Any, run: Run) -> None:
    few, many = run.memory
    bars = (
        ("2 workers\n(1 worker = 1)", run.workers.throughput, ""),
        (f"{many.attachments:,} attachments\n({few.attachments} = 1)", run.attachments.throughput, "\\\\"),
    )
    for y, (_, value, hatch) in enumerate(bars):
        axes.barh(y, value, height=0.6, color=_GREEN, hatch=hatch, edgecolor="white")
        axes.annotate(number(value), (value, y), xytext=(6, 0), textcoords="offset points", va="center", bbox=_PLAIN)
    axes.axvline(1, color="black", linewidth=1, linestyle="--")
    axes.set_yticks(range(len(bars)), [name for name, _, _ in bars])
    axes.set_xlim(0, max(2.2, *(value * 1.15 for _, value, _ in bars)))
    axes.set_xlabel(f"{many.attachments:,} attachments: {many.after_load:.0f} MiB a worker", fontsize=10)
    _finish(axes, "throughput on webhook-demo")


def _finish(axes: Any, title: str) -> None:
    axes.invert_yaxis()
    axes.set_title(title, fontsize=11, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
