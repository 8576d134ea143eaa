"""The picture of a run: throughput as bars, each labeled with its ratio. No absolute times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")

from matplotlib import pyplot as plt

from bench.figures import Figure, number
from bench.reviews import NAMES

# Okabe and Ito's palette, distinct for every kind of color vision; the hatches serve for print.
_GREY, _BLUE, _SKY, _ORANGE, _GREEN = "#999999", "#0072B2", "#56B4E9", "#E69F00", "#009E73"
_PLAIN = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}


def prepare() -> Any:
    """The plotting module, set so that the same figures give the same bytes, and text stays text."""
    mpl.rcParams.update(
        {
            "svg.hashsalt": "berth",
            "svg.fonttype": "none",
            "font.family": "sans-serif",
            "font.size": 11,
            "hatch.linewidth": 0.6,
        }
    )
    return plt


def draw(figures: Iterable[Figure], path: Path, *, scaling: Mapping[str, str]) -> None:
    """Write the SVG; the same figures give the same bytes. `scaling` has labels for names of figures."""
    found = {figure.name: figure for figure in figures}
    prepare()
    canvas, (left, right) = plt.subplots(
        1, 2, figsize=(11, 5.2), gridspec_kw={"width_ratios": [3, 2]}, layout="constrained"
    )
    canvas.patch.set_facecolor("white")
    _baselines(left, found)
    _scaling(right, {label: found[name] for name, label in scaling.items()})
    canvas.legend(loc="outside lower center", ncols=5, frameon=False)
    canvas.suptitle("Berth's admission webhook: reviews answered, as ratios (longer is better)", fontsize=13)
    canvas.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(canvas)


def _baselines(axes: Any, found: Mapping[str, Figure]) -> None:
    """The floor is 1; Berth and kopf beside it, by review, with what Berth is to kopf."""
    ticks, longest = [], 1.0
    for row, review in enumerate(NAMES):
        distinct, replicas = (found[f"{review}-{kind}: throughput / floor"] for kind in ("distinct", "replicas"))
        times = found[f"{review}-distinct: throughput / kopf"].value
        slow = distinct.value / times
        bars = (
            ("floor: constant answer", 1.0, _GREY, "", "1", None),
            ("Berth, replicas", replicas.value, _SKY, "", number(replicas.value), replicas.aim),
            ("Berth, distinct Pods", distinct.value, _BLUE, "", number(distinct.value), distinct.aim),
            ("kopf", slow, _ORANGE, "///", f"{number(slow)}: Berth does {number(times)} times as many", None),
        )
        for place, (name, value, color, hatch, label, aim) in enumerate(bars):
            y = row * 5 + place
            axes.barh(y, value, color=color, hatch=hatch, edgecolor="white", label=name if row == 0 else None)
            axes.annotate(label, (value, y), xytext=(5, 0), textcoords="offset points", va="center", bbox=_PLAIN)
            if aim is not None:
                first = row == place - 1 == 0
                axes.plot([aim, aim], [y - 0.5, y + 0.5], color="black", label="aim" if first else None)
            longest = max(longest, value, aim or 0)
        ticks.append(row * 5 + 1.5)
    axes.set_yticks(ticks, NAMES)
    axes.set_xlim(0, longest * 1.15)
    _finish(axes, "throughput over TLS, one worker (floor = 1)")


def _scaling(axes: Any, bars: Mapping[str, Figure]) -> None:
    for y, figure in enumerate(bars.values()):
        axes.barh(y, figure.value, height=0.6, color=_GREEN, edgecolor="white")
        label = number(figure.value)
        axes.annotate(label, (figure.value, y), xytext=(6, 0), textcoords="offset points", va="center", bbox=_PLAIN)
        if figure.aim is not None:
            axes.plot([figure.aim, figure.aim], [y - 0.4, y + 0.4], color="black")
    axes.set_yticks(range(len(bars)), list(bars))
    axes.set_xlim(0, max(1.0, *(figure.value for figure in bars.values())) * 1.15)
    _finish(axes, "webhook-demo, distinct Pods")


def _finish(axes: Any, title: str) -> None:
    axes.invert_yaxis()
    axes.set_title(title, fontsize=11, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
