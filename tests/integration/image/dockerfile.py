"""A Dockerfile read and its steps run in a directory, as far as that goes without a container engine.

Paths of the image become paths below the directory; everything else in a RUN is run as it stands.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Instruction:
    name: str
    value: str

    @property
    def words(self) -> list[str]:
        """The arguments, of the JSON form too."""
        return json.loads(self.value) if self.value.startswith("[") else shlex.split(self.value)


@dataclass(slots=True)
class Stage:
    base: str
    instructions: list[Instruction] = field(default_factory=list)

    def all(self, name: str) -> list[Instruction]:
        return [instruction for instruction in self.instructions if instruction.name == name]

    def one(self, name: str) -> Instruction:
        [found] = self.all(name)
        return found

    @property
    def variables(self) -> dict[str, str]:
        """What ENV and the defaults of ARG set."""
        pairs = [word for name in ("ARG", "ENV") for one in self.all(name) for word in one.words if "=" in word]
        return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}


def read_dockerfile(text: str) -> tuple[dict[str, str], list[Stage]]:
    """The ARGs before the first stage, and the stages."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    arguments: dict[str, str] = {}
    stages: list[Stage] = []
    for line in filter(None, map(str.strip, joined.splitlines())):
        name, _, value = line.partition(" ")
        if name == "FROM":
            stages.append(Stage(value.split()[0]))
        elif stages:
            stages[-1].instructions.append(Instruction(name, value.strip()))
        else:
            arguments |= [value.strip().split("=", 1)]
    return arguments, stages


class Ignored:
    """The patterns of a .dockerignore: the last one that matches a path, or a directory above it, decides."""

    def __init__(self, text: str) -> None:
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
        self._rules = [(line.startswith("!"), _pattern(line.removeprefix("!"))) for line in lines]

        self._taken_back = [line.removeprefix("!") for line in lines if line.startswith("!")]

    def takes_back(self, folder: Path) -> bool:
        """Whether something in an ignored folder is named."""
        return any(name.startswith(f"{folder}/") for name in self._taken_back)

    def __contains__(self, path: str) -> bool:
        above = ["/".join(path.split("/")[: depth + 1]) for depth in range(path.count("/") + 1)]
        ignored = False
        for kept, pattern in self._rules:
            if any(pattern.fullmatch(part) for part in above):
                ignored = not kept
        return ignored


def _pattern(glob: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/|\*)", glob)
    return re.compile("".join({"**/": "(?:.*/)?", "*": "[^/]*"}.get(part, re.escape(part)) for part in parts))


class Build:
    """A stage that is run step by step: `root` stands for `/` of the image, for the paths in `below` alone."""

    def __init__(self, root: Path, *, below: tuple[str, ...], environment: dict[str, str]) -> None:
        self.root = root
        self._paths = re.compile(rf"(?<![\w./~-])(?=(?:{'|'.join(map(re.escape, below))})\b)")
        self._environment = environment
        self._directory = root

    def path(self, inside: str) -> Path:
        return self.root / inside.lstrip("/")

    def run_stage(self, stage: Stage, context: Path) -> None:
        self._environment = self._environment | stage.variables
        for instruction in stage.instructions:
            match instruction.name:
                case "WORKDIR":
                    self._directory = self.path(instruction.value)
                    self._directory.mkdir(parents=True, exist_ok=True)
                case "COPY":
                    *sources, target = instruction.words
                    if target.endswith("/"):
                        (self._directory / target).mkdir(parents=True, exist_ok=True)
                    for source in sources:
                        self._copy(context / source, self._directory / target)
                case "RUN":
                    self.run(instruction.value)

    def run(self, command: str, **more: str) -> None:
        """As `RUN command` does it, with `more` in the environment."""
        subprocess.run(
            ["/bin/sh", "-c", self._paths.sub(str(self.root), command)],
            cwd=self._directory,
            env=self._environment | more,
            umask=0o022,
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def _copy(self, source: Path, target: Path) -> None:
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy2(source, target / source.name if target.is_dir() else target)


def copy_context(project: Path, target: Path) -> None:
    """What an engine sends of the project: all but what .dockerignore names."""
    ignored = Ignored((project / ".dockerignore").read_text())
    for folder, folders, files in os.walk(project):
        above = Path(folder).relative_to(project)
        # What is left out with its folder may be taken back by its name: only such folders are walked.
        folders[:] = [name for name in folders if str(above / name) not in ignored or ignored.takes_back(above / name)]
        for name in files:
            path = above / name
            if str(path) not in ignored:
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(project / path, target / path)
