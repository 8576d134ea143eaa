"""The help of every command, and what the program does without one."""

from __future__ import annotations

import itertools
import json
import platform
from importlib.metadata import version

import pytest
import yaml

from app.cli.main import run
from docs.generate.flags import commands, shown

ALL = [path[1:] for path, _ in commands()]
PARAMETERS = {path[1:]: shown(command) for path, command in commands()}


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("path", ALL, ids=lambda path: " ".join(path) or "berth")
def test_every_flag_is_whole_in_80_columns(path, capsys) -> None:
    assert run([*path, "--help"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    words = {word.strip("[],").upper() for word in out.split()}
    for parameter in PARAMETERS[path]:
        argument = parameter.param_type_name == "argument"
        names = [parameter.metavar or parameter.name] if argument else parameter.opts
        assert {name.strip("[]").upper() for name in names} <= words
    assert "…" not in out


@pytest.mark.parametrize("path", ALL, ids=lambda path: " ".join(path) or "berth")
def test_h_is_help_everywhere(path, capsys) -> None:
    for flag in ("--help", "-h"):
        assert run([*path, flag]) == 0
    out = capsys.readouterr().out
    assert out[: len(out) // 2] == out[len(out) // 2 :]
    assert "-h, --help" in out


@pytest.mark.parametrize("path", [(), ("certs",), ("tenant",), ("tenant", "host")])
def test_a_group_of_commands_alone_shows_its_help(path, capsys) -> None:
    """As kubectl and helm do."""
    assert run(path) == 0
    alone = capsys.readouterr().out
    assert run([*path, "--help"]) == 0
    assert capsys.readouterr().out == alone
    assert "Commands:" in alone


@pytest.mark.parametrize("path", ALL, ids=lambda path: " ".join(path) or "berth")
def test_examples_can_be_copied(path, capsys) -> None:
    """Their lines end with backslashes; an option or a name is never broken at its hyphens."""
    run([*path, "-h"])
    examples = capsys.readouterr().out.partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
    for line, following in itertools.pairwise([*examples, ""]):
        assert line.endswith("\\") == following.startswith("      ")
        assert not ("#" in line and line.endswith("\\")), "a comment is not continued by a backslash"
        assert "(" not in line.partition("#")[0], "no shell reads this"


def test_the_value_of_v_is_explained(capsys) -> None:
    run(["webhook", "-h"])
    said = " ".join(capsys.readouterr().out.split())
    assert "-v, --v N Verbosity as of klog: 4 or more is --log-level debug" in said


def test_version_names_berth_and_python(capsys) -> None:
    assert run(["version", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"version": version("berth"), "python": platform.python_version()}
    assert run(["version", "-o", "yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == {"version": version("berth"), "python": platform.python_version()}
    assert run(["version"]) == 0
    assert capsys.readouterr().out == f"berth {version('berth')} (Python {platform.python_version()})\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["doctor", "-o", "toml"],
            "Invalid value for '-o' / '--output': 'toml' is not one of 'text', 'json', 'yaml', 'junit'.",
        ),
        (["crds", "x"], "Invalid value for 'cluster': 'x' is not one of 'infra', 'tenant', "),
        (["status", "--interval", "x"], "Invalid value for '--interval': want a valid number\n"),
        (["status", "--interval", "0"], "Invalid value for '--interval': want greater than or equal to 1\n"),
    ],
)
def test_a_wrong_value_is_said_in_our_words(arguments, message, capsys) -> None:
    assert run(arguments) == 2
    assert capsys.readouterr().err.startswith(f"Error: {message}")


def test_no_error_commands_the_terminal(capsys) -> None:
    assert run(["status", "--kubeconfig", "\x1b[31m\x9bred"]) == 2
    assert capsys.readouterr().err == "Error: kubeconfig \\u001b[31m\\u009bred: no such file\n"
