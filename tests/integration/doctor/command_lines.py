"""Whether a command that the doctor prints exists: `berth`'s by the real command line, kubectl's by the help of kubectl."""

from __future__ import annotations

import functools
import re
import shlex
import subprocess
from collections.abc import Iterator
from typing import Any

import typer.main

from app.cli.main import cli
from app.doctor.aiming import PLACEHOLDERS
from app.doctor.catalog import CHECK_NUMBERS, FINDINGS
from app.doctor.model import Finding, Severity
from tests.support.waiting import PATIENCE

_PLACEHOLDER = re.compile(r"(?<=[\s-])[A-Z]{3,}(?=[\s/]|$)")
_ASIDE = re.compile(r"'[^']*'|\"[^\"]*\"|  # .*|--request [A-Z]+")
"""What is no placeholder: quoted text, comments, and verbs of HTTP."""
_PARTS = re.compile(r"\n|&&|\|\||\||;")
_FLAG = re.compile(r"^ *(?:(-\w), )?(--[\w-]+)", re.MULTILINE)
_GROUPS = frozenset({"rollout", "set", "config", "auth", "create"})


def checked(findings: list[Finding]) -> list[Finding]:
    """The same findings. Fails for a command, or a flag, that is none, and for a code that is not as declared."""
    for finding in findings:
        if finding.severity > Severity.ok:
            assert finding.severity.name in FINDINGS[finding.code].severities.split(), finding
            assert CHECK_NUMBERS.get(finding.code[5:7], finding.check) == finding.check, finding
            assert finding.severity is Severity.info or finding.consequence, finding
        assert " object at 0x" not in f"{finding.message} {finding.consequence} {finding.command}", finding
        unexplained = set(_PLACEHOLDER.findall(_ASIDE.sub("", finding.command))) - {*PLACEHOLDERS}
        assert not {word for word in unexplained if f"{word}: " not in finding.command}, finding
        for words in _commands(finding.command):
            {"berth": _check_berth, "kubectl": _check_kubectl}.get(words[0], lambda _: None)(words)
    return findings


def _commands(text: str) -> Iterator[list[str]]:
    """Each simple command, without what only a shell or a person fills in."""
    quoted = re.sub(r"'[^']*'|\"[^\"]*\"", "x", text)
    for part in _PARTS.split(quoted):
        words = shlex.split(part.replace("$(", " ").replace(")", " "), comments=True)
        while words and words[0] in {"!", "then", "do"}:
            words.pop(0)
        if words:
            yield words


def _check_berth(words: list[str]) -> None:
    command: Any = typer.main.get_command(cli)
    rest = words[1:]
    while hasattr(command, "commands"):
        assert rest, words
        assert rest[0] in command.commands, f"there is no command {' '.join(words)}"
        command = command.commands[rest.pop(0)]
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
    _check_flags(rest, known, words)


def _check_kubectl(words: list[str]) -> None:
    plain = [word for word in _without_leading_flags(words[1:]) if not word.startswith("-")]
    depth = 1 if plain[:1] and plain[0] not in _GROUPS else 2
    verb = tuple(plain[: 3 if plain[:2] == ["create", "secret"] else depth])
    _check_flags(words[1:], _kubectl_flags(verb) | _kubectl_flags(("options",)), words)


def _without_leading_flags(words: list[str]) -> list[str]:
    """Global flags before the verb take a value each."""
    while words and words[0].startswith("-"):
        words = words[1 if "=" in words[0] else 2 :]
    return words


def _check_flags(words: list[str], known: set[str] | frozenset[str], command: list[str]) -> None:
    for word in words:
        if word == "--":
            return
        if word.startswith("-") and word != "-":
            name = word.partition("=")[0]
            short = not name.startswith("--") and all(f"-{letter}" in known for letter in name[1:])
            assert short or name in known, f"{' '.join(command)}: there is no flag {name}"


@functools.cache
def _kubectl_flags(verb: tuple[str, ...]) -> frozenset[str]:
    words = ["kubectl", *verb] if verb == ("options",) else ["kubectl", *verb, "--help"]
    shown = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert shown.returncode == 0, f"kubectl has no {' '.join(verb)}: {shown.stderr}"
    return frozenset(name for found in _FLAG.findall(shown.stdout) for name in found if name) | {"--help"}
