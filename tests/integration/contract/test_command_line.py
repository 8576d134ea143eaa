"""`berth webhook` as it is typed: the peer's flags, one-line mistakes, help."""

from __future__ import annotations

import re

import pytest

from app.cli.main import normalize
from app.errors import UsageError
from tests.support.command_line import berth


def test_the_arguments_of_an_existing_deployment_work(launch, pki, review) -> None:
    server = launch(
        pki,
        *("-port=0", "-health-check-port=0", "-insecure=true", "-bind-address", "127.0.0.1", "-v=3", "-logtostderr"),
        *(
            "-alsologtostderr=true",
            "--log_dir=/nowhere",
            "-vmodule=a=1",
            "-stderrthreshold=INFO",
            "-log_link=/x",
            "-logbuflevel=0",
        ),
        *("-injectHugepageDownApi=false", "-honor-resources=false", "-enable-http2=false"),
        *("-network-resource-name-keys=k8s.v1.cni.cncf.io/resourceName,example.com/other",),
        *("-tls-min-version=VersionTLS12", "-tls-curve-preferences=29,23"),
    ).until_ready()
    assert server.post(review("plain"))[0] == 200
    assert not server.events("draining")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-prot=8443"], "--prot"),
        (["--port=65536"], "--port: invalid port number. Choose between 1 and 65535"),
        (["--port=x"], "--port"),
        (["--port=8444"], "Health check port should be different from port"),
        (["-insecure=perhaps"], "--insecure: want true or false"),
        (
            ["--tls-cert-file=/nowhere/tls.crt", "--port=0", "--health-check-port=0"],
            "/nowhere/tls.crt: No such file or directory",
        ),
        (["--tls-min-version=VersionTLS11"], "VersionTLS12 or higher"),
        (["--tls-cipher-suites=TLS_X"], "TLS_X is not supported"),
        (["--tls-curve-preferences=70000"], "invalid TLS CurveID value"),
        (["--tls-curve-preferences=" + "9" * 5000], "invalid TLS CurveID value"),
        (["--bind-address=" + "ü" * 70, "--port=0"], "cannot listen on"),
        (["--existing-resources=some"], "--existing-resources: "),
        (["extra"], "extra"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(arguments, words) -> None:
    done = berth("webhook", *arguments)
    assert done.returncode == 2
    errors = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert len(errors) == 1
    assert errors[0].startswith("Error: ")
    assert words in errors[0]
    assert done.stdout == ""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_mistake_that_shows_at_the_start_ends_it_with_workers_too(pki, tmp_path, workers) -> None:
    flags = [f"--tls-cert-file={pki.certificate}", f"--tls-private-key-file={pki.key}", "--port=0"]
    flags += ["--health-check-port=0", f"--workers={workers}", "--bind-address=127.0.0.1"]
    missing = berth("webhook", *flags, "--insecure", f"--manifests={tmp_path / 'none'}")
    assert missing.returncode == 2
    assert missing.stderr.splitlines()[-1] == f"Error: --manifests {tmp_path / 'none'}: no such directory"
    unreadable = berth("webhook", *flags, "--insecure", f"--kubeconfig={tmp_path / 'none'}")
    assert unreadable.returncode == 2
    assert "none" in unreadable.stderr.splitlines()[-1]
    assert "Traceback" not in missing.stderr + unreadable.stderr


@pytest.mark.parametrize(("arguments", "words"), [(["explode"], "explode"), (["-x"], "-x")])
def test_a_command_that_is_none_is_one_line_and_status_2(arguments, words) -> None:
    done = berth(*arguments)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert words in line


def test_a_port_that_is_taken_is_named(server, pki) -> None:
    done = berth("webhook", f"--port={server.address[1]}", "--health-check-port=0", "--bind-address=127.0.0.1")
    assert done.returncode == 2
    assert f"--port {server.address[1]}: cannot listen on 127.0.0.1" in done.stderr


@pytest.mark.parametrize("columns", [80, 120])
def test_help_shows_every_flag_whole_with_its_default_and_examples(columns) -> None:
    done = berth("webhook", "--help", columns=columns)
    assert done.returncode == 0
    assert all(len(line) <= columns for line in done.stdout.splitlines())
    assert "…" not in done.stdout
    flat = re.sub(r"[\s│]+", " ", done.stdout)
    for flag in ("--network-resource-name-keys", "--injectHugepageDownApi", "--tls-private-key-file", "--workers"):
        assert f" {flag} " in flat
    for default in ("cert.pem", "8443", "top-up", "k8s.v1.cni.cncf.io/resourceName", "$NAMESPACE or kube-system"):
        assert f"(default: {default})" in flat
    assert "Examples: berth webhook --tls-cert-file tls.crt" in flat
    assert "BERTH_CLIENT_CA=a.crt,b.crt" in flat
    assert "Exit status: 0" in flat


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["webhook", "-port=1"], ["webhook", "--port=1"]),
        (["webhook", "-insecure=f", "--insecure=T"], ["webhook", "--no-insecure", "--insecure"]),
        (["webhook", "-v=3", "-v", "3", "--v=3"], ["webhook", "-v", "3", "-v", "3", "--v=3"]),
        (["webhook", "--", "-port=1"], ["webhook", "--", "-port=1"]),
        (["explain", "-ojson", "-f", "-", "-fpod.yaml"], ["explain", "-ojson", "-f", "-", "-fpod.yaml"]),
        (["webhook", "---x", "-", ""], ["webhook", "---x", "-", ""]),
    ],
)
def test_one_dash_or_two(given, expected) -> None:
    assert normalize(given, switches=["insecure"]) == expected


def test_a_switch_takes_what_go_takes() -> None:
    with pytest.raises(UsageError, match="--insecure: want true or false, got 'yes'"):
        normalize(["webhook", "-insecure=yes"], switches=["insecure"])
