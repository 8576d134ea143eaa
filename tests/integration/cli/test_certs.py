"""`berth certs make`, `renew` and `show`, as they are typed."""

from __future__ import annotations

import json
import os
import ssl
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.certs.folder import make, read_files, write_files
from app.certs.issuing import serving_names
from app.cli.main import run
from app.serving.tls import Pair
from tests.support.paths import ROOT


def certs(*arguments: str) -> int:
    return run(["certs", *arguments])


@pytest.fixture
def directory(tmp_path) -> str:
    return str(tmp_path / "certs")


def test_make_writes_a_set_that_serves(directory, capsys) -> None:
    """The pair loads into a server, keys are private, the names are those asked for."""
    arguments = ["--service", "berth", "--namespace", "ns", "--dns", "extra.example", "--ip", "10.0.0.1"]
    assert certs("make", "--dir", directory, *arguments, "--client", "system:api", "--client-group", "masters") == 0
    assert capsys.readouterr().out == (
        f"wrote ca-bundle.crt, ca.crt, ca.key, client-system-api.crt, client-system-api.key, tls.crt, tls.key "
        f"in {directory}\n"
    )
    place = Path(directory)
    Pair.read(place / "tls.crt", place / "tls.key")
    ssl.create_default_context(cafile=str(place / "ca-bundle.crt")).load_cert_chain(
        place / "client-system-api.crt", place / "client-system-api.key"
    )
    assert {stat.S_IMODE(key.stat().st_mode) for key in place.glob("*.key")} == {0o600}
    assert certs("show", "--dir", directory, "-o", "json") == 0
    shown = {item["file"]: item for item in json.loads(capsys.readouterr().out)}
    assert shown["tls.crt"]["sans"] == [
        "berth",
        "berth.ns",
        "berth.ns.svc",
        "berth.ns.svc.cluster.local",
        "extra.example",
        "10.0.0.1",
    ]
    assert shown["client-system-api.crt"]["subject"] == "CN=system:api,O=masters"
    assert 363 <= shown["tls.crt"]["daysLeft"] <= 365


def test_make_again_keeps_the_ca(directory) -> None:
    certs("make", "--dir", directory)
    first = read_files(Path(directory))
    assert certs("make", "--dir", directory, "--client", "one", "--key-type", "rsa", "--days", "7") == 0
    second = read_files(Path(directory))
    assert second["ca.crt"] == first["ca.crt"]
    assert second["tls.crt"] != first["tls.crt"]
    assert certs("make", "--dir", directory, "--new-ca") == 0
    third = read_files(Path(directory))
    assert third["ca.crt"] != second["ca.crt"]
    assert third["ca-bundle.crt"] == third["ca.crt"] + second["ca.crt"]
    assert third["client-one.crt"] != second["client-one.crt"]


def test_renew_has_nothing_to_do_at_first(directory, capsys) -> None:
    certs("make", "--dir", directory)
    before = read_files(Path(directory))
    capsys.readouterr()
    assert certs("renew", "--dir", directory) == 0
    assert capsys.readouterr().out.startswith("nothing is due; next renewal due 2")
    assert read_files(Path(directory)) == before
    assert certs("renew", "--dir", directory, "--force") == 0
    assert capsys.readouterr().out.startswith("renewed tls.crt\nnext renewal due 2")
    assert read_files(Path(directory))["tls.crt"] != before["tls.crt"]


def test_renew_renews_what_is_due(directory, capsys) -> None:
    """Certificates of an earlier day: the CA and what it signed are due, and the old CA stays trusted."""
    then = datetime.now(UTC) - timedelta(days=80)
    before = make({}, names=serving_names(service="berth"), now=then, days=90, authority_days=100)
    write_files(Path(directory), before)
    assert certs("renew", "--dir", directory) == 0
    out = capsys.readouterr().out
    assert out.startswith("renewed ca.crt\nrenewed tls.crt\nthe CA is new: give ca-bundle.crt to its clients")
    after = read_files(Path(directory))
    assert after["ca-bundle.crt"] == after["ca.crt"] + before["ca.crt"]
    assert after["ca-bridge.crt"] in after["tls.crt"]
    assert certs("show", "--dir", directory) == 0
    assert "tls.crt (certificate 2)\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["make"], "--dir"),
        (["make", "--dir", "DIR", "--service", "UPPER"], "'UPPER' is not a DNS name"),
        (["make", "--dir", "DIR", "--ip", "1.2.3"], "'1.2.3' is not an IP address"),
        (["make", "--dir", "DIR", "--days", "0"], "at least one day"),
        (["make", "--dir", "DIR", "--days", "many"], "Invalid value for '--days'"),
        (["make", "--dir", "DIR", "--key-type", "dsa"], "'dsa' is not one of"),
        (["make", "--dir", "DIR", "--client", "x" * 65], "cannot be the subject"),
        (["make", "--dir", "/proc/certs"], "cannot write certificates to /proc/certs"),
        (["renew", "--dir", "DIR"], "no CA to renew with"),
        (["show", "--dir", "DIR"], "holds no certificate"),
        (["patch", "--ca", "absent.crt", "name"], "--ca: cannot read absent.crt"),
        (["patch", "--ca", "/dev/null", "name"], "--ca: /dev/null holds no PEM certificate"),
        (["install", "--failure-policy", "Perhaps"], "unknown failure policy type 'Perhaps'; want Ignore or Fail"),
        (["install", "--timeout-seconds", "31"], "Invalid value for '--timeout-seconds'"),
        (["no-such-command"], "No such command"),
    ],
)
def test_mistakes_are_status_2_and_one_line(directory, capsys, arguments, message) -> None:
    assert certs(*[directory if argument == "DIR" else argument for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.startswith("Error: ")
    assert (captured.out, captured.err.count("\n")) == ("", 1)


def test_patch_needs_a_certificate_to_patch_in(tmp_path, capsys) -> None:
    files = make({}, names=serving_names(), now=datetime.now(UTC))
    write_files(tmp_path, files)
    assert certs("patch", "--ca", str(tmp_path / "ca.crt"), "--service", "no-slash", "name") == 2
    assert "--service: want NAMESPACE/NAME, got 'no-slash'" in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["make"], ["renew"], ["show"], ["patch"], ["install"], ["unregister"]])
def test_every_help_has_examples(capsys, command) -> None:
    assert certs(*command, "--help") == 0
    out = capsys.readouterr().out
    assert "Examples:" in out
    assert f"berth certs {' '.join(command)}".rstrip() in out


def test_the_development_issuer_makes_what_its_readme_names(tmp_path) -> None:
    """The script, copied to a directory of its own, with the real program."""
    script = tmp_path / "certs" / "issue.sh"
    script.parent.mkdir()
    script.write_bytes((ROOT / "certs" / "issue.sh").read_bytes())
    script.chmod(0o755)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    answer = subprocess.run([script, "--dns", "laptop"], capture_output=True, text=True, check=False, env=environment)
    assert answer.returncode == 0, answer.stderr
    readme = (ROOT / "certs" / "README.md").read_text()
    for name in read_files(script.parent):
        assert f"`{name}`" in readme
    Pair.read(script.parent / "tls.crt", script.parent / "tls.key")
