"""`python -m bench.startup`: how soon the webhook is ready, how soon a command answers, and the memory of workers.

Each is compared with what no program of the kind can avoid: a bare process that imports the same libraries and lists
the same objects, or an interpreter that imports what the command line rests on. They take turns on one core.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench import figures
from bench.apiserver import COLLECTION
from bench.bare_start import libraries
from bench.figures import Figure
from bench.processes import cores, pin, private_mib
from bench.reviews import NAMES, pod_of, recorded
from bench.rounds import Loads, MeasureError, prepare
from bench.servers import ROOT, Server, load, running, start_api, start_berth
from bench.surroundings import Surroundings

MANY = 5000
_ROUNDS = 7
_LIKE = 0.03
"""By how much of their number the imported modules of Berth and of the bare process may differ."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of one start, by the clock and of CPU."""

    wall: float
    cpu: float


def measure(around: Surroundings, loads: Loads, *, rounds: int = _ROUNDS) -> list[Figure]:
    """Everything, in about half a minute."""
    return [*_commands(around, rounds), *_ready(around, rounds), *_memory(around, loads)]


def _ratio(name: str, ours: Sequence[Spent], bare: Sequence[Spent], aim: float) -> Figure:
    pairs = list(zip(ours, bare, strict=True))
    economy = statistics.median(one.cpu / other.cpu for one, other in pairs)
    return Figure.median(name, [one.wall / other.wall for one, other in pairs], aim=aim, better="less", economy=economy)


def _commands(around: Surroundings, rounds: int) -> list[Figure]:
    berth = str(Path(sys.executable).with_name("berth"))
    pod = around.directory / "pod.yaml"
    pod.write_text(json.dumps(pod_of(recorded("webhook-demo"))))
    commands = (
        [sys.executable, "-c", "import typer, rich"],
        [berth, "--help"],
        [berth, "explain", "-f", str(pod), "-f", str(around.manifests)],
    )
    for command in commands:
        _run(command)  # once before: the byte code is written, and the files are in memory
    bare, short, long = zip(*([_run(command) for command in commands] for _ in range(rounds)), strict=True)
    return [
        _ratio("berth --help / import of typer and rich", short, bare, 2.5),
        _ratio("berth explain -f pod.yaml / import of typer and rich", long, bare, 2.5),
    ]


def _run(command: Sequence[str]) -> Spent:
    begin = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=ROOT, env=_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    pin(process.pid, cores()[0])
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise MeasureError(f"{' '.join(command)} ended with status {process.returncode}")
    return Spent(wall, usage.ru_utime + usage.ru_stime)


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("BERTH_", "KUBE"))}


def _ready(around: Surroundings, rounds: int) -> list[Figure]:
    with running() as keep:
        api = keep(start_api(around, count=MANY, beside=True))
        source = ["--kubeconfig", str(around.kubeconfig(api.port))]
        modules = _imported(around, source)
        names = around.directory / "modules.json"
        names.write_text(json.dumps(modules))
        bare = [sys.executable, "-m", "bench.bare_start", "--modules", str(names)]
        bare += ["--url", f"http://127.0.0.1:{api.port}{COLLECTION}"]
        _list_bare(bare, modules)
        pairs = [(_start(around, source), _list_bare(bare, modules)) for _ in range(rounds)]
    ours, theirs = zip(*pairs, strict=True)
    name = f"start to ready with {MANY:,} attachments / bare process that imports and lists the same"
    return [_ratio(name, ours, theirs, 1.5)]


def _start(around: Surroundings, source: Sequence[str]) -> Spent:
    with running() as keep:
        server = keep(start_berth(around, name="start", source=source))
        return Spent(server.start_seconds, server.cpu_seconds())


def _imported(around: Surroundings, source: Sequence[str]) -> list[str]:
    """The modules of libraries that the webhook has imported when it is ready, in the order of their import."""
    with running() as keep:
        server = keep(start_berth(around, name="imports", source=source, environment={"PYTHONPROFILEIMPORTTIME": "1"}))
        lines = server.log.read_text(errors="replace").splitlines()
    names = [line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")]
    return libraries(list(dict.fromkeys(names)))


def _list_bare(command: Sequence[str], modules: Sequence[str]) -> Spent:
    begin = time.perf_counter()
    with subprocess.Popen(command, cwd=ROOT, env=_environment(), stdout=subprocess.PIPE) as process:
        pin(process.pid, cores()[0])
        assert process.stdout is not None
        line = process.stdout.readline()
        wall = time.perf_counter() - begin
    found = json.loads(line)
    if found["objects"] != MANY or abs(found["modules"] / len(modules) - 1) > _LIKE:
        raise MeasureError(f"the bare process: want {MANY} objects and {len(modules)} modules, got {found}")
    return Spent(wall, found["cpu"])


def _memory(around: Surroundings, loads: Loads) -> list[Figure]:
    """After load, which touches what idle processes would still share."""
    source = ["--manifests", str(around.manifests)]
    with running() as keep:
        one = _loaded(keep(start_berth(around, name="one-worker", source=source)), around, loads)
        resident = one.resident_mib()
        two = _loaded(keep(start_berth(around, name="two-workers", source=source, workers=2)), around, loads)
        private = max(map(private_mib, two.workers))
    return [
        Figure("memory of the first worker", resident, 60, "less", unit="MiB"),
        Figure("private memory of each further worker", private, 25, "less", unit="MiB"),
    ]


def _loaded(server: Server, around: Surroundings, loads: Loads) -> Server:
    for name in NAMES:
        load(server, around, loads[f"{name}-distinct"])
    return server


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="berth-bench-") as directory:
        found = measure(Surroundings.prepare(Path(directory)), prepare(Path(directory)))
    figures.show("Start and memory, as ratios", found, Console())


if __name__ == "__main__":
    main()
