"""Has peers' own code answer, and keeps that for the tests without Go. `--check` compares it with what is kept.

Exit status: 0 the same or written, 1 another, 2 Go or its modules cannot be had.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping

from app.kinds.requests import filled_requests
from app.wire import JSON
from tests.peers import ANSWERS, FOLDER
from tests.support.kueue_cases import OBJECTS, PAIRS, pod_sets_of_object
from tests.support.multus_inputs import cases
from tests.support.ray_cases import RAY

_VERSION = re.compile(r"^\t(\S*(?:kueue|jobset|kuberay\S*|training-operator|k8s\.io/api)) (v\S+)$", re.MULTILINE)


def _kueue() -> str:
    pairs = {name: [pod_sets_of_object(obj)[0] for obj in pair] for name, pair in PAIRS.items()}
    answers: JSON = json.loads(
        _go("kueue", "run", ".", given=json.dumps({"objects": OBJECTS, "pairs": pairs, "ray": RAY}))
    )
    versions = dict(_VERSION.findall((FOLDER / "kueue" / "go.mod").read_text()))
    return json.dumps({"versions": versions, **answers}, indent=1, sort_keys=True) + "\n"


def _multus() -> str:
    return _go("multus", "run", ".", given="".join(f"{json.dumps(case)}\n" for case in cases()))


def _kubectl() -> str:
    return _readings("kubectl", lambda reading: reading["text"])


def _pod_requests() -> str:
    return _readings("pod-requests", _stored)


def _readings(peer: str, given: Callable[[JSON], object]) -> str:
    """The kept file with what the peer makes of its cases now: a line for each reading."""
    content = json.loads(ANSWERS[peer].read_text())
    readings = content.pop("readings")
    answers = json.loads(_go(peer, "run", ".", given=json.dumps([given(reading) for reading in readings])))
    lines = ",\n".join(
        f" {json.dumps({**reading, **answer})}" for reading, answer in zip(readings, answers, strict=True)
    )
    return f'{json.dumps(content)[:-1]}, "readings": [\n{lines}\n]}}\n'


def _stored(reading: JSON) -> JSON:
    """The spec as the API server of the kept file stored it."""
    spec: JSON = copy.deepcopy(reading["given"])
    for container in [*spec["containers"], *spec.get("initContainers", [])]:
        resources = container.get("resources", {})
        if "limits" in resources:
            resources["requests"] = filled_requests(resources)
    return {**spec, "resources": reading["resources"]}


PEERS: Mapping[str, Callable[[], str]] = {
    "kubectl": _kubectl,
    "kueue": _kueue,
    "multus": _multus,
    "pod-requests": _pod_requests,
}
"""What writes the file of each."""


def _go(peer: str, *arguments: str, given: str = "") -> str:
    """What the program prints. Raises OSError, CalledProcessError."""
    environment = {**os.environ, "GOFLAGS": "-mod=readonly"}
    command = ["go", *arguments]
    ended = subprocess.run(
        command, cwd=FOLDER / peer, env=environment, input=given.encode(), stdout=subprocess.PIPE, check=True
    )
    return ended.stdout.decode()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.peers", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with what is kept, write nothing")
    parser.add_argument("peers", nargs="*", metavar="NAME", help=f"of {', '.join(PEERS)} (default: all)")
    options = parser.parse_args(arguments)
    other = 0
    for peer in options.peers or PEERS:
        try:
            _go(peer, "list", "-deps", ".")
        except (OSError, subprocess.CalledProcessError) as error:
            sys.stderr.write(f"{peer}: the modules of its code cannot be had: {error}\n")
            return 2
        answers = PEERS[peer]()
        if not options.check:
            ANSWERS[peer].write_text(answers)
        elif answers != ANSWERS[peer].read_text():
            sys.stderr.write(f"{ANSWERS[peer]}: that code answers otherwise: run python -m tests.peers {peer}\n")
            other = 1
    return other


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
