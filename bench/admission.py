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
from bench.admission_report import Condition, Run, figures_of, show, write
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
    parser.add_argument("--output", type=Path, default=ROOT / "docs", help="where page and picture go")
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
    await over_connections(server, arms, connections=4, creations=200, numbers=numbers)
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
            progress(f"{condition}: round {number + 1} of {given.rounds}, client {outcomes[-1].busy:.0%} busy")
        after = await registrar.admission_seconds()
        measured.append((condition, outcomes, _means(before, after)))
    return measured


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
    run = Run(measured, given.creations, given.rounds, given.attachments)
    show(figures_of(run), console)
    write(run, given.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
