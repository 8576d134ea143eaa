"""`python -m bench.admission`: what admission by Berth adds to the creation of a Pod at a real kube-apiserver.

One API server, one namespace for each arm: no admission, the webhook, policies, and their floors. Arms take turns, so
the differences hold on any machine and the times do not matter. Needs KUBEBUILDER_ASSETS or --assets: a directory with
etcd and kube-apiserver.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvloop
from rich.console import Console

from bench.admission_arms import ARMS, Registrar, namespaces_of
from bench.admission_report import KEPT, Condition, Run, show, write
from bench.creations import CreationError, Outcome, Server, at_rate, over_connections
from bench.rounds import Progress
from bench.servers import ROOT, ServerError, start_berth, start_floor, stop
from bench.surroundings import Surroundings
from tests.support.real_apiserver import real_api_servers

CONNECTIONS = (1, 16, 100, 500)
RATE = 50.0
"""Creations a second of all arms together."""
AT_RATE = ("none", "webhook", "policies")
"""The arms that are created at a rate: more of them would make each wait longer for its turns."""


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.admission", description=__doc__)
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    parser.add_argument("--assets", type=Path, default=Path(assets) if assets else None, help="kube-apiserver and etcd")
    parser.add_argument("--creations", type=int, default=2000, help="of each arm in a round [%(default)s]")
    parser.add_argument("--rounds", type=int, default=5, help="[%(default)s]")
    parser.add_argument("--connections", type=int, nargs="*", default=CONNECTIONS, metavar="N", help="[1 16 100 500]")
    parser.add_argument("--rate", type=float, default=RATE, help="creations a second, 0 for none [%(default)s]")
    names = tuple(ARMS)
    parser.add_argument("--arms", nargs="+", choices=names, default=names, metavar="ARM", help=", ".join(names))
    parser.add_argument("--workers", type=int, default=1, help="of the webhook; 2 with 100 connections or more")
    parser.add_argument("--attachments", type=int, default=2, help="in the namespace of the Pods [%(default)s]")
    parser.add_argument("--keep", action="store_true", help="keep this run and its limits in place of those before")
    parser.add_argument(
        "--page", action="store_true", help="measure nothing: make page and picture of the run that is kept"
    )
    parser.add_argument("--output", type=Path, default=ROOT / "docs", help="where page, picture and the kept run go")
    return parser


@contextmanager
def surroundings(given: argparse.Namespace, directory: Path, progress: Progress) -> Iterator[tuple[Server, Registrar]]:
    """The API server with everything that the arms need, until the end."""
    around = Surroundings.prepare(directory)
    with real_api_servers(given.assets, directory, ["bench"]) as kubeconfigs, ExitStack() as stack:
        kubeconfig = kubeconfigs["bench"]
        registrar = Registrar(kubeconfig, around, attachments=given.attachments)
        asyncio.run(registrar.prepare())
        progress("the API server runs")
        workers = 2 if max(given.connections, default=1) >= 100 else given.workers
        source = ["--kubeconfig", str(kubeconfig)]
        berth = start_berth(around, name="berth", source=source, workers=workers, pinned=False)
        stack.callback(stop, berth.process)
        empty = start_floor(around, None, name="empty", pinned=False)
        stack.callback(stop, empty.process)
        asyncio.run(registrar.register(berth=berth.port, empty=empty.port, arms=given.arms))
        progress(f"the webhook runs with {workers} workers")
        yield registrar.server, registrar


async def measure(
    server: Server, registrar: Registrar, given: argparse.Namespace, progress: Progress
) -> list[tuple[Condition, list[Outcome], dict[str, float]]]:
    """Each condition with the outcome of each of its rounds, and the API server's own mean for each arm, in seconds."""
    numbers: Callable[[], int] = itertools.count().__next__
    arms = [ARMS[name] for name in given.arms]
    conditions = [Condition(connections=count) for count in given.connections]
    conditions += [Condition(rate=given.rate)] if given.rate else []
    measured: list[tuple[Condition, list[Outcome], dict[str, float]]] = []
    # Compiled expressions, connections to webhooks and caches are there before anything is timed.
    warm = await over_connections(server, arms, connections=4, creations=min(200, given.creations), numbers=numbers)
    seconds = sum(_seconds(condition, given, warm.rate) for condition in conditions)
    progress(f"{len(conditions)} conditions, {given.rounds} rounds each: about {seconds / 60:.0f} minutes")
    done = 0.0
    for condition in conditions:
        outcomes: list[Outcome] = []
        before = await registrar.admission_seconds()
        for number in range(given.rounds):
            if condition.rate:
                timed = [arm for arm in arms if arm.name in AT_RATE]
                run = at_rate(server, timed, rate=condition.rate, creations=given.creations, numbers=numbers)
            else:
                run = over_connections(
                    server, arms, connections=condition.connections, creations=given.creations, numbers=numbers
                )
            outcomes.append(await run)
            await registrar.delete_pods(namespaces_of(given.arms))
            done += _seconds(condition, given, warm.rate) / given.rounds
            text = f"{condition}: round {number + 1} of {given.rounds}, client {outcomes[-1].busy:.0%} busy"
            progress(f"{done / seconds:4.0%}  {text}")
        after = await registrar.admission_seconds()
        measured.append((condition, outcomes, _means(before, after)))
    return measured


def _seconds(condition: Condition, given: argparse.Namespace, rate: float) -> float:
    """What a condition takes by estimate, where `rate` creations a second were made before."""
    if condition.rate:
        arms = sum(name in AT_RATE for name in given.arms)
        return float(given.creations * given.rounds * arms / condition.rate)
    return float(given.creations * given.rounds * len(given.arms) / rate)


def _means(before: dict[str, tuple[float, float]], after: dict[str, tuple[float, float]]) -> dict[str, float]:
    """What the API server says that one call took, in the mean, of each webhook and policy that was called."""
    means = {}
    for name, (seconds, count) in after.items():
        earlier = before.get(name, (0.0, 0.0))
        if count > earlier[1]:
            means[name] = (seconds - earlier[0]) / (count - earlier[1])
    return means


def main(words: Sequence[str] | None = None) -> int:
    given = arguments().parse_args(words)
    if given.page:
        try:
            write(Run.load(given.output / KEPT), given.output)
        except (OSError, ValueError, TypeError) as error:
            print(f"Error: --page: {given.output / KEPT}: want a run that --keep wrote: {error}", file=sys.stderr)
            return 2
        return 0
    if given.assets is None or not (given.assets / "kube-apiserver").exists():
        print("Error: --assets: want a directory with etcd and kube-apiserver: make real-parts", file=sys.stderr)
        return 2
    console, begin = Console(width=180), time.monotonic()

    def progress(text: str) -> None:
        console.print(f"{time.monotonic() - begin:5.0f} s  {text}")

    try:
        with (
            tempfile.TemporaryDirectory(prefix="berth-bench-") as directory,
            surroundings(given, Path(directory), progress) as (server, registrar),
        ):
            measured = uvloop.run(measure(server, registrar, given, progress))
    except (CreationError, ServerError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    run = Run.of(measured, creations=given.creations, rounds=given.rounds, attachments=given.attachments)
    show(run.found, console)
    given.output.mkdir(parents=True, exist_ok=True)
    kept = given.output / KEPT
    failures = run.failures(Run.load(kept)) if kept.exists() and not given.keep else []
    if given.keep or not kept.exists():
        run.save(kept)
    write(run, given.output)
    for failure in failures:
        print(f"More than kept: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
