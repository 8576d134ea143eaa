"""The parts of a run that are about the webhook: measured, told, and written as docs/bench.md with its picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench import report, rounds, shortcuts, startup
from bench.figures import Figure, show
from bench.load import SAMPLE
from bench.rounds import Duel, Plan, Progress
from bench.surroundings import Surroundings

PARTS = ("reviews", "shortcuts", "workers", "attachments", "startup")


def measure(
    parts: Sequence[str], directory: Path, plan: Plan, console: Console, progress: Progress, *, output: Path
) -> list[Figure]:
    """The figures of these parts; the page, with README's table, is written where all were measured.

    Raises LoadError, MeasureError or ServerError.
    """
    around, loads = Surroundings.prepare(directory), rounds.prepare(directory)
    found: list[Figure] = []
    duels: list[Duel] = []
    if "reviews" in parts:
        baselines = rounds.against_baselines(around, loads, plan, progress)
        found += report.of_baselines(baselines)
        duels += baselines.floor
        report.show_speeds(baselines, console)
    if "shortcuts" in parts:
        found += shortcuts.measure(around, loads, plan, progress)
    if "workers" in parts:
        found += report.of_workers(rounds.with_workers(around, loads, plan, progress))
    if "attachments" in parts:
        attachments = rounds.with_many_attachments(around, loads, plan, progress)
        found += report.of_attachments(attachments)
        duels.append(attachments.duel)
    if "startup" in parts:
        progress("startup: commands, the start, memory")
        found += startup.measure(around, loads)
    show("Berth's webhook, as ratios", found, console)
    warnings = report.warnings_of(duels)
    for warning in warnings:
        console.print(f"[yellow]warning:[/] {warning}")
    if set(parts) == set(PARTS):
        from bench.picture import draw  # noqa: PLC0415  it loads matplotlib, which no other part needs

        draw(found, output / "bench.svg", scaling=report.SCALING)
        page = report.page(found, warnings, plan, sample=SAMPLE, connections=rounds.MANY_CONNECTIONS)
        (output / "bench.md").write_text(page)
        readme = output.parent / "README.md"
        if readme.exists():
            readme.write_text(report.summary(found, readme.read_text()))
    return found
