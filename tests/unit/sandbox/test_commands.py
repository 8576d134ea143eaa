"""What the kubelet stand-in takes a container's command for."""

from __future__ import annotations

import pytest

from app.devtools.sandbox.standins.commands import Run, run_of


def shell(text: str) -> list[str]:
    return ["sh", "-c", text]


@pytest.mark.parametrize(
    ("command", "seconds", "code"),
    [
        (["sleep", "5"], 5, 0),
        (["/bin/sleep", "5s"], 5, 0),
        (["sleep", "1.5m", ".5"], 90.5, 0),
        (["sleep", "1h"], 3600, 0),
        (["sleep", "soon"], 0, 1),
        (["sleep"], 0, 1),
        (["true"], 0, 0),
        (["/usr/bin/false"], 0, 1),
        (["echo", "a", "b"], 0, 0),
        (shell("sleep 5"), 5, 0),
        (["/bin/sh", "-c", "exit 3"], 0, 3),
        (["bash", "-c", "exit"], 0, 0),
        (["/bin/bash", "-lc", "false; exit"], 0, 1),
        (shell("exit 257"), 0, 1),
        (shell("echo begins; sleep 2 && exit 4"), 2, 4),
        (shell("false && sleep 5"), 0, 1),
        (shell("false && sleep 5; sleep 1"), 1, 0),
        (shell("true && false && exit 2"), 0, 1),
        (shell("false || exit 7"), 0, 7),
        (shell("true || exit 7"), 0, 0),
        (shell("sleep 1\n\nsleep 2;\n sleep 3"), 6, 0),
        (shell("sleep 1 &&\n sleep 2"), 3, 0),
        (shell("echo 'a; b && c'; sleep 1"), 1, 0),
        (shell("exit 0; not-known"), 0, 0),
        (shell(""), 0, 0),
    ],
)
def test_a_known_command_ends(command: list[str], seconds: float, code: int) -> None:
    assert run_of({"command": command}) == Run(seconds, code)


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["nginx", "-g", "daemon off;"],
        ["exit", "1"],
        ["sh"],
        ["sh", "-c"],
        shell("sleep 1; nginx"),
        shell("sleep 5 &"),
        shell("echo a | sleep 5"),
        shell("echo a > /tmp/file"),
        shell("sleep $TIME"),
        shell("exit $?"),
        shell("(sleep 5)"),
        shell("echo 'no end"),
    ],
)
def test_what_is_not_understood_runs_on(command: list[str]) -> None:
    assert run_of({"command": command}) is None


def test_arguments_follow_the_command() -> None:
    assert run_of({"command": ["sh"], "args": ["-c", "exit 2"]}) == Run(0, 2)
    assert run_of({"command": ["sh", "-c"], "args": ["sleep 3"]}) == Run(3, 0)
    assert run_of({"args": ["sleep", "3"]}) == Run(3, 0)


@pytest.mark.parametrize(
    "command",
    [
        ["sleep", "inf"],
        ["sleep", "5", "INFINITY"],
        ["sleep", "1e400"],
        ["sleep", "99999999999"],
        ["sleep", "0x1p5000"],
        shell("sleep 1; sleep inf; exit 1"),
    ],
)
def test_a_command_without_an_end_is_known_as_one(command: list[str]) -> None:
    run = run_of({"command": command})
    assert run is not None
    assert not run.ends
