"""`berth controller`, `berth gateway` and `berth agent` as they are typed: help, flags, one-line mistakes."""

from __future__ import annotations

import re
import socket
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.certs.folder import make
from app.certs.issuing import serving_names
from app.registry import ROLES, settings_of
from app.settings.source import flag_names, flags_of, help_of
from tests.support.command_line import berth

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "http://127.0.0.1:9"}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
users: [{name: a, user: {token: none}}]
current-context: a
"""


def mistake(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that is no log line."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    (line,) = (line for line in done.stderr.splitlines() if not line.startswith("{"))
    return line


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_help_shows_every_flag_whole_with_examples(role, columns) -> None:
    done = berth(role.name, "--help", columns=columns)
    assert done.returncode == 0
    assert all(len(line) <= columns for line in done.stdout.splitlines())
    assert "…" not in done.stdout
    flat = re.sub(r"[\s│]+", " ", done.stdout)
    settings = settings_of(role.name)
    for field, flag in flags_of(settings).items():
        assert f" {flag_names(field, flag)[0]} " in flat.replace(",", " ")
        assert " ".join(help_of(settings.model_fields[field], flag).split()) in flat
    assert "Examples: berth" in flat
    assert "Exit status: 0" in flat


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["controller", "extra"], "extra"),
        (["controller", "--prot", "1"], "--prot"),
        (["controller", "--controllers", "pods"], "--controllers: there is no controller 'pods'"),
        (["controller", "--leader-elect=perhaps"], "--leader-elect: want true or false"),
        (["controller", "--resync-seconds", "x"], "--resync-seconds"),
        (["controller", "--kubeconfig", "/nowhere/x"], "kubeconfig /nowhere/x: no such file"),
        (["gateway", "--port", "65536"], "--port: invalid port number"),
        (["gateway", "--port", "8444"], "--port and --health-check-port: want two ports, got one"),
        (["agent"], "--gateway: want HOST:PORT of the gateway"),
        (["agent", "--gateway", "h:1", "--bind-address", "300.1.1.1"], "--health-check-port 0: cannot listen on 300"),
        (["agent", "--gateway", "h:1", "--kubeconfig", "/nowhere/x"], "kubeconfig /nowhere/x: no such file"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(arguments, words) -> None:
    line = mistake(berth(*arguments, BERTH_HEALTH_CHECK_PORT="0" if "8444" not in arguments else ""))
    assert line.startswith("Error: ")
    assert words in line


def test_a_switch_is_turned_off_as_go_does_it() -> None:
    """It gets as far as the kubeconfig."""
    done = berth("controller", "--leader-elect=false", "--kubeconfig=/nowhere/x", "--health-check-port=0")
    assert mistake(done) == "Error: kubeconfig /nowhere/x: no such file"


@pytest.fixture
def files(tmp_path) -> Path:
    """A kubeconfig of a cluster that does not answer, and what a gateway serves with."""
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    now = datetime.now(UTC)
    for name, content in make({}, names=serving_names(dns=("localhost",)), now=now, days=30).items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def gateway_flags(files: Path) -> list[str]:
    flags = {"kubeconfig": "kubeconfig", "tls-cert-file": "tls.crt", "tls-private-key-file": "tls.key"}
    flags |= {"client-ca": "ca.crt"}
    return ["gateway", "--bind-address=127.0.0.1", *(f"--{flag}={files / name}" for flag, name in flags.items())]


@pytest.mark.parametrize("flag", ["--port", "--health-check-port"])
def test_a_port_that_is_taken_is_named_by_its_flag(files, flag) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        other = "--health-check-port=0" if flag == "--port" else "--port=0"
        line = mistake(berth(*gateway_flags(files), f"{flag}={port}", other))
    assert line == f"Error: {flag} {port}: cannot listen on 127.0.0.1: Address already in use"


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
def test_a_gateway_names_the_file_that_it_cannot_serve_with(files, name) -> None:
    (files / name).unlink()
    line = mistake(berth(*gateway_flags(files), "--port=0", "--health-check-port=0"))
    assert line == f"Error: gateway TLS: {files / name}: No such file or directory"


def test_nothing_of_a_broken_key_is_shown(files) -> None:
    (files / "tls.key").write_text("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n")
    done = berth(*gateway_flags(files), "--port=0", "--health-check-port=0", "--log-level=debug")
    assert mistake(done).startswith(f"Error: gateway TLS: {files / 'tls.key'}: no PEM private key")
    assert "c2VjcmV0" not in done.stderr
