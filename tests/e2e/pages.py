"""Our pages as a reader takes them: the commands in their code blocks, typed into a shell, in their order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.real_parts import real_part
from tests.support.waiting import PATIENCE, Refused, wait_until

_BLOCK = re.compile(r"^```(sh|yaml)(?: *\{?([a-z0-9-]*)\}?)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def commands_of(page: str, heading: str) -> list[str]:
    """The shell blocks of one section of a page, up to the next heading of any level."""
    text = (ROOT / page).read_text()
    found = list(_HEADING.finditer(_without_code(text)))
    for number, match in enumerate(found):
        if match[1] == heading:
            end = found[number + 1].start() if number + 1 < len(found) else len(text)
            return [block[3] for block in _BLOCK.finditer(text[match.end() : end]) if block[1] == "sh"]
    raise AssertionError(f"{page} has no section {heading!r}")


def shown_of(page: str, heading: str) -> list[tuple[str, str]]:
    """The shell blocks of one section, each with what the page shows of its output: the plain block that follows, or ""."""
    section = (ROOT / page).read_text().partition(f"# {heading}\n")[2].partition("\n## ")[0]
    found: list[tuple[str, str]] = []
    for block in _FENCE.finditer(section):
        if block[1] == "sh":
            found.append((block[2], ""))
        elif not block[1] and found:
            found[-1] = (found[-1][0], block[2])
    return found


def prints(shown: str, printed: str) -> bool:
    """Whether a command printed what a page shows; `…` there stands for any text."""
    return re.fullmatch(".*".join(map(re.escape, shown.split("…"))), printed, re.DOTALL) is not None


def find_nothing_wrong(type_: Callable[[str], str], flags: str = "") -> None:
    """Once all has settled, `berth doctor` ends with status 0: there is nothing worse than information."""

    def look() -> str:
        printed = type_(f"berth doctor {flags} || echo failed")
        if printed.endswith("failed\n"):
            raise Refused(printed)
        return printed

    wait_until(look)


def headings_of(page: str) -> list[str]:
    """The headings of a page, in their order."""
    return _HEADING.findall(_without_code((ROOT / page).read_text()))


def _without_code(text: str) -> str:
    """The text with the lines of code blocks blanked, so that a comment in one is no heading; offsets stay."""
    return _BLOCK.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)


@dataclass(frozen=True)
class Shell:
    """A reader's terminal: `helm`, `kubectl` and `berth` are there, and the directory holds what the repository holds.

    Where Helm itself is built (`make real`), it is that: version 4 as `helm`, and 3 as `helm3`.
    """

    directory: Path

    @classmethod
    def at(cls, directory: Path) -> Shell:
        programs = directory / "bin"
        programs.mkdir(parents=True)
        engine = ROOT / "tests" / "support" / "programs" / "helm.py"
        _script(programs / "helm", f'exec "{sys.executable}" "{engine}" "$@"')
        for name in ("helm", "helm3"):
            if program := real_part(name):
                _script(programs / name, f'exec "{program}" "$@"')
        _script(programs / "berth", f'exec "{sys.executable}" -m app "$@"')
        for name in ("charts", "examples"):
            (directory / name).symlink_to(ROOT / name)
        return cls(directory)

    def type(self, commands: str, *, kubeconfig: Path) -> str:
        """What the commands print; fails with it where one of them fails."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("BERTH_")}
        environment |= {
            "PATH": f"{self.directory / 'bin'}:{os.environ['PATH']}",
            "KUBECONFIG": str(kubeconfig),
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.directory / "bin"),
        }
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=self.directory,
            env=environment,
            capture_output=True,
            text=True,
            timeout=2.5 * PATIENCE,  # a block may have several commands that wait
            check=False,
        )
        assert done.returncode == 0, f"$ {commands}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def _script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
