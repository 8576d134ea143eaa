"""`berth ui` as a process: what it prints, which flags it refuses, and how it ends."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from app.cli.main import run
from tests.integration.ui.test_callers import Files, files
from tests.support.processes import Berth
from tests.support.sandbox import Sandboxed, sandboxed
from tests.support.waiting import PATIENCE

__all__ = ["files", "sandboxed"]


async def test_it_prints_its_address_and_ends_with_a_signal(sandboxed: Sandboxed) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "app", "ui", "--port", "0", "--kubeconfig", str(sandboxed.kubeconfig())),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        try:
            line = (await process.stdout.readline()).decode()
            address = re.search(r"http://127\.0\.0\.1:\d+/", line)
            assert address, line
            async with aiohttp.ClientSession() as session, session.get(f"{address[0]}api/overview") as answer:
                assert set(await answer.json()) == {"summary", "doctor", "sections"}
            process.send_signal(signal.SIGINT)
            out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert (process.returncode, out, err) == (0, b"", b"")


async def test_for_callers_it_is_a_role_with_health_and_metrics(sandboxed: Sandboxed, files: Files) -> None:
    process = Berth(
        *("ui", "--access=callers", "--port=0", "--health-check-port=0", "--bind-address=127.0.0.1"),
        f"--kubeconfig={sandboxed.kubeconfig()}",
        *(f"--tls-cert-file={files.certificate}", f"--tls-private-key-file={files.key}"),
    )
    try:
        await process.until_ready()
        for path in ("/healthz", "/metrics"):
            assert (await process.get(path))[0] == 200
        listening = process.event("listening")
        assert listening is not None
        assert listening["role"] == "ui"
        url = listening["page"].replace("127.0.0.1", "localhost")
        connector = aiohttp.TCPConnector(ssl=files.client())
        async with (
            asyncio.timeout(PATIENCE),
            aiohttp.ClientSession(connector=connector) as session,
            session.get(f"{url}/api/overview") as answer,
        ):
            assert answer.status == 401
    finally:
        assert await process.end() == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--bind-address", "0.0.0.0"], "--bind-address: want a loopback address"),
        (["--bind-address", "example.com"], "--bind-address: want a loopback address"),
        (["--access", "callers"], "tokens need TLS"),
        (["--tls-cert-file", "a"], "want --access callers"),
        (["--front-proxy-name", "a"], "want --access callers"),
        (["--kubeconfig", "a", "--kubeconfig", "b", "--context", "c"], "want one --kubeconfig"),
        (["--kubeconfig", "missing"], "missing"),
        (["--port", "99999999"], "--port: invalid port number"),
    ],
)
def test_flags_that_cannot_be_meant_say_what_would_be_right(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ui", *arguments]) == 2
    assert text in capsys.readouterr().err


def test_a_page_for_callers_has_one_cluster_and_names_its_proxies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [
        "--access",
        "callers",
        "--tls-cert-file",
        str(tmp_path / "c"),
        "--tls-private-key-file",
        str(tmp_path / "k"),
    ]
    assert run(["ui", *files, "--kubeconfig", "a", "--kubeconfig", "b"]) == 2
    assert "want one cluster" in capsys.readouterr().err
    assert run(["ui", *files, "--front-proxy-ca", "ca"]) == 2
    assert "want --front-proxy-name" in capsys.readouterr().err
    assert run(["ui", *files]) == 2
    assert "TLS: " in capsys.readouterr().err
