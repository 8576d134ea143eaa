"""Figures with their aims: told as tables, and compared with those of an earlier run, which `expected.json` keeps.

A figure is a ratio within one run, or memory: what another machine finds as well. The kept ones are written by
`python -m bench --keep`.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from rich.console import Console
from rich.table import Table

EXPECTED = Path(__file__).with_name("expected.json")
TOLERANCE = 0.9
"""A figure fails that is worse than this share of the one kept: a change that costs a tenth is noticed."""

_COLUMNS = ("measured", "ratio", "spread", "by CPU", "aim", "")
_MARKS = {True: "met", False: "missed", None: ""}


@dataclass(frozen=True, slots=True)
class Figure:
    """One finding. `economy` is the same ratio by CPU time of the servers, which other programs hardly disturb.

    Names are unique in a run: `expected.json` keeps figures by name. Without an `aim` a figure is told, but not kept.
    """

    name: str
    value: float
    aim: float | None = None
    better: Literal["greater", "less"] = "greater"
    spread: tuple[float, float] | None = None
    economy: float | None = None
    unit: str = ""

    @classmethod
    def median(cls, name: str, values: Sequence[float], **options: Any) -> Self:
        """The median of what the rounds found, with the least and the greatest."""
        spread = (min(values), max(values)) if len(values) > 1 else None
        return cls(name, statistics.median(values), spread=spread, **options)

    @property
    def met(self) -> bool | None:
        """Whether the aim is met; None without one."""
        return None if self.aim is None else not self._worse_than(self.aim)

    def failure(self, kept: float) -> str | None:
        """What is wrong where the figure is worse than TOLERANCE allows."""
        bound = kept * TOLERANCE if self.better == "greater" else kept / TOLERANCE
        if not self._worse_than(bound):
            return None
        most = "at least" if self.better == "greater" else "at most"
        return f"{self.name}: want {most} {self._said(bound)} (kept: {self._said(kept)}), got {self._said(self.value)}"

    def cells(self) -> tuple[str, ...]:
        """Its row in a table of _COLUMNS."""
        sign = "≥" if self.better == "greater" else "≤"
        return (
            self.name,
            self._said(self.value),
            "" if self.spread is None else " to ".join(map(number, self.spread)),
            "" if self.economy is None else number(self.economy),
            "" if self.aim is None else f"{sign} {self.aim:g}{self.unit and f' {self.unit}'}",
            _MARKS[self.met],
        )

    def _worse_than(self, bound: float) -> bool:
        return self.value < bound if self.better == "greater" else self.value > bound

    def _said(self, value: float) -> str:
        return f"{number(value)} {self.unit}".rstrip()


def number(value: float) -> str:
    """Three digits at most: more would be noise."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def judge(figures: Sequence[Figure], expected: Mapping[str, float], *, whole: bool = False) -> list[str]:
    """What is wrong: figures clearly worse than those kept, and names that stand for two figures.

    Where the `whole` was measured, a kept figure that was not measured is wrong as well.
    """
    names = Counter(figure.name for figure in figures)
    failures = [f"{name}: {count} figures have this name" for name, count in names.items() if count > 1]
    kept = [figure.failure(expected[figure.name]) for figure in figures if figure.name in expected]
    failures += [failure for failure in kept if failure is not None]
    if whole:
        failures += [f"{name}: kept, but not measured" for name in expected if name not in names]
    return failures


def read() -> dict[str, float]:
    """The figures kept, by name; none where there is no file."""
    found: dict[str, float] = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    return found


def keep(figures: Iterable[Figure], *, whole: bool = False) -> None:
    """Write these figures for runs to come; others stay, unless the `whole` was measured."""
    kept = {} if whole else read()
    kept |= {figure.name: round(figure.value, 3) for figure in figures if figure.aim is not None}
    EXPECTED.write_text(json.dumps(kept, indent=2, ensure_ascii=False, sort_keys=True) + "\n")


def conclude(figures: Sequence[Figure], *, keep_them: bool, whole: bool) -> int:
    """The exit status of a run: 1 where `judge` finds something wrong, which is printed; 0 where figures are kept."""
    if keep_them:
        keep(figures, whole=whole)
        return 0
    failures = judge(figures, read(), whole=whole)
    for failure in failures:
        print(f"Worse than kept: {failure}", file=sys.stderr)
    return 1 if failures else 0


def show(title: str, figures: Iterable[Figure], console: Console) -> None:
    """The figures as a table on the terminal."""
    table = Table(title=title, title_justify="left")
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column in ("measured", "") else "right")
    for figure in figures:
        color = {True: "green", False: "red", None: "default"}[figure.met]
        *cells, mark = figure.cells()
        table.add_row(*cells, f"[{color}]{mark}[/]")
    console.print(table)


def markdown(figures: Iterable[Figure]) -> list[str]:
    """The figures as lines of a table in Markdown."""
    head = [f"| {' | '.join(_COLUMNS[:-1])} | |", "| --- | ---: | ---: | ---: | ---: | --- |"]
    return head + [f"| {' | '.join(figure.cells())} |" for figure in figures]
