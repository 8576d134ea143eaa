"""What a Pod's spec cannot make this machine do: other programs, other identities, files, other hosts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from app.certs.folder import make, write_files
from app.certs.issuing import serving_names
from app.devtools.clusters.node.arguments import confined, is_allowed_variable, refusal
from app.devtools.clusters.node.containers import Container
from app.devtools.forking import ForkServer
from app.devtools.sandbox.processes import PodLog
from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE, eventually

JSON = dict[str, Any]
ADDRESS = "127.66.250.9"
VARIABLES = ("LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "PATH", "BERTH_KUBECONFIG", "BERTH_CONTEXT", "KUBECONFIG")


@pytest.mark.parametrize(
    "arguments",
    [
        ["certs", "make", "--dir", "/etc/x"],
        ["certs", "install", "--dir=/etc/x"],
        ["certs"],
        ["tenant", "add", "x", "--out", "/etc/x"],
        ["sandbox", "--bare"],
        ["demo"],
        ["explain", "-f", "/etc/passwd"],
        ["--version"],
        ["webhook", "--kubeconfig=.sandbox/admin.kubeconfig"],
        ["webhook", "-kubeconfig", ".sandbox/admin.kubeconfig"],
        ["agent", "--context=admin"],
    ],
    ids=" ".join,
)
def test_a_command_that_no_pod_of_the_image_needs_is_refused(arguments: list[str]) -> None:
    assert refusal(arguments)


@pytest.mark.parametrize("flag", ["--bind-address=0.0.0.0", "-bind-address=0.0.0.0", "--bind-address"])
def test_a_process_listens_at_its_pods_address_alone(flag: str) -> None:
    assert confined(["webhook", flag, "::"], address=ADDRESS)[-1] == f"--bind-address={ADDRESS}"


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_that_leads_elsewhere_is_not_for_pods(name: str) -> None:
    assert not is_allowed_variable(name)


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with contextlib.closing(ForkServer()) as server:
        yield server


async def test_no_variable_of_a_pod_reaches_the_interpreter_or_another_identity(
    server: ForkServer, tmp_path: Path
) -> None:
    """A volume holds the code that each variable would have loaded, or the interpreter would not begin with it."""
    (tmp_path / "sitecustomize.py").write_text(f"open({str(tmp_path / 'loaded')!r}, 'w')")
    given = [{"name": name, "value": str(tmp_path)} for name in VARIABLES]
    container = pod_container(server, tmp_path, "crds", "infra", env=given)
    assert container.environment().items().isdisjoint({(name, str(tmp_path)) for name in VARIABLES})
    assert await end_of(container) == 0
    assert not (tmp_path / "loaded").exists()
    assert "CustomResourceDefinition" in (tmp_path / "log").read_text()


async def test_what_is_refused_ends_at_once_and_its_log_says_why(server: ForkServer, tmp_path: Path) -> None:
    container = pod_container(server, tmp_path, "certs", "make", "--dir", str(tmp_path / "made"))
    assert await end_of(container) == 126
    assert "not started: of berth, Pods run these commands alone here: webhook" in (tmp_path / "log").read_text()
    assert not (tmp_path / "made").exists()


async def test_what_lies_where_the_sandbox_was_started_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app.py").write_text("raise SystemExit(7)")
    monkeypatch.chdir(tmp_path)
    with contextlib.closing(ForkServer()) as server:
        assert await end_of(pod_container(server, tmp_path, "crds", "infra")) == 0


async def test_a_server_that_was_killed_takes_its_processes_along_and_another_one_starts_the_next(
    tmp_path: Path,
) -> None:
    with contextlib.closing(ForkServer()) as server:
        container = pod_container(server, tmp_path, *webhook(tmp_path))
        await container.start()
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        await eventually(lambda: container.exit_code == -signal.SIGKILL)
        await eventually(lambda: not _is_running(pid_of(container)))
        assert await end_of(pod_container(server, tmp_path, "crds", "infra")) == 0


async def test_many_containers_start_at_once_and_each_end_is_its_own(server: ForkServer, tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(8)]
    for folder in folders:
        folder.mkdir()
    arguments = [("crds", "infra") if number % 2 else ("webhook", "--port=none") for number in range(8)]
    containers = [pod_container(server, folder, *given) for folder, given in zip(folders, arguments, strict=True)]
    assert await asyncio.gather(*map(end_of, containers)) == [2, 0] * 4
    assert ["--port" in (folder / "log").read_text() for folder in folders] == [True, False] * 4


async def test_a_container_that_is_stopped_gets_sigterm_and_its_grace(server: ForkServer, tmp_path: Path) -> None:
    container = pod_container(server, tmp_path, *webhook(tmp_path))
    await container.start()
    await eventually(lambda: '"ready"' in (tmp_path / "log").read_text())
    await container.stop(grace=PATIENCE)
    assert container.exit_code == 0


async def test_a_probe_asks_nobody_but_the_pod(server: ForkServer, tmp_path: Path) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response()

    runner = web.AppRunner(_app(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    for probe in (
        {"path": f"@127.0.0.1:{port}/", "port": 9},
        {"path": "/", "port": f"9@127.0.0.1:{port}"},
        {"path": "/", "port": "nowhere"},
    ):
        assert not await pod_container(server, tmp_path, "webhook", readinessProbe={"httpGet": probe}).ready()
    assert asked == []
    await runner.cleanup()


@pytest.mark.parametrize(("command", "seconds"), [(["sleep", "x"], 0), (["sleep", "nan"], 0), (["sleep", "0.1"], 0.1)])
async def test_a_strange_pre_stop_hook_does_not_keep_a_pod_from_ending(
    server: ForkServer, tmp_path: Path, command: list[str], seconds: float
) -> None:
    container = pod_container(server, tmp_path, "webhook", lifecycle={"preStop": {"exec": {"command": command}}})
    await container.start()
    await container.stop(grace=seconds + 1)
    assert container.exit_code is not None


def test_processes_end_with_a_sandbox_that_is_killed(tmp_path: Path) -> None:
    arguments = webhook(tmp_path)
    program = f"""
import asyncio
from pathlib import Path
from app.devtools.forking import ForkServer
from tests.integration.runtime.test_sandbox_node_arguments import pid_of, pod_container

async def main():
    folder = Path({str(tmp_path)!r})
    container = pod_container(ForkServer(), folder, *{arguments!r})
    await container.start()
    print(pid_of(container), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as sandbox:
        assert sandbox.stdout is not None
        child = int(sandbox.stdout.readline())
        # The kernel is asked by the child itself: wait until its own program runs, and goes on running.
        asyncio.run(eventually(lambda: '"ready"' in (tmp_path / "log").read_text() or not _is_running(child)))
        assert _is_running(child), (tmp_path / "log").read_text()
        sandbox.send_signal(signal.SIGKILL)
    asyncio.run(eventually(lambda: not _is_running(child)))


def webhook(folder: Path) -> list[str]:
    """The arguments of a webhook that gets ready without an API server; its certificate is in the folder."""
    files = make({}, names=serving_names(), now=datetime.now(UTC))
    write_files(folder / "tls", files)
    arguments = ["webhook", "--insecure", "--port=0", "--health-check-port=0", f"--manifests={folder}"]
    return [*arguments, f"--tls-cert-file={folder}/tls/tls.crt", f"--tls-private-key-file={folder}/tls/tls.key"]


def pid_of(container: Container) -> int:
    assert container.pid is not None
    return container.pid


def pod_container(server: ForkServer, folder: Path, *arguments: str, **more: Any) -> Container:
    spec = {"name": "c", "image": "berth", "args": list(arguments), **more}
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [spec]}}
    kubeconfig = folder / "kubeconfig"
    log = PodLog(ADDRESS, folder / "log")
    return Container(pod, server=server, address=ADDRESS, kubeconfig=kubeconfig, places={}, log=log)


async def end_of(container: Container) -> int | None:
    await container.start()
    await eventually(lambda: container.exit_code is not None)
    return container.exit_code


def _app(answer: Any) -> web.Application:
    app = web.Application()
    app.router.add_get("/{rest:.*}", answer)
    return app


def _is_running(pid: int) -> bool:
    """A zombie has ended; whoever inherits it may take its time."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
