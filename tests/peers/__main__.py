"""Has Kueue's own code say what it makes of `tests.support.kueue_cases`, and keeps that for the tests without Go.

`--check` compares it with what is kept. Exit status: 0 the same or written, 1 another, 2 Go or its modules
cannot be had.
"""

# ruff: noqa: T201  a program

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from app.wire import JSON
from tests.support.kueue_cases import ANSWERS, OBJECTS, PAIRS, pod_sets_of_object

FOLDER = Path(__file__).parent / "kueue"
_VERSION = re.compile(r"^\t(\S*(?:kueue|jobset|kuberay\S*|training-operator|k8s\.io/api)) (v\S+)$", re.MULTILINE)


def answers() -> JSON:
    """What the program says, with the versions of the code that it has. Raises CalledProcessError."""
    pairs = {name: [pod_sets_of_object(obj)[0] for obj in pair] for name, pair in PAIRS.items()}
    said: JSON = json.loads(_go("run", "-mod=readonly", ".", given=json.dumps({"objects": OBJECTS, "pairs": pairs})))
    return {"versions": dict(_VERSION.findall((FOLDER / "go.mod").read_text())), **said}


def _go(*arguments: str, given: str = "") -> str:
    ended = subprocess.run(["go", *arguments], cwd=FOLDER, input=given, text=True, stdout=subprocess.PIPE, check=True)
    return ended.stdout


def main(arguments: list[str]) -> int:
    try:
        _go("list", "-mod=readonly", "-deps", ".")
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"the modules of Kueue's code cannot be had: {error}", file=sys.stderr)
        return 2
    found = answers()
    if "--check" not in arguments:
        ANSWERS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        return 0
    if found == json.loads(ANSWERS.read_text()):
        return 0
    print(
        f"{ANSWERS}: that code says something else: python -m tests.peers, and look at the difference", file=sys.stderr
    )
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
