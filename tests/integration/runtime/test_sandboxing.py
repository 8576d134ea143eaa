"""`berth sandbox` and `berth demo` as they are typed: what is written, what is printed, how they end."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import kubernetes
import pytest
from rich.console import Console

from app.devtools.demo.injection import Injection
from app.devtools.demo.stage import DemoError, Stage
from tests.support.command_line import berth
from tests.support.paths import ROOT
from tests.support.processes import Background
from tests.support.waiting import PATIENCE

LONG = f"--timeout={PATIENCE:.0f}s"
NODES = {
    "icp": {"dpu1-host-a", "dpu1-host-b", "dpu1-host-c", "dpu1-host-d", "icp-master"},
    "tenant1": {"host-a", "host-b", "tenant1-master"},
    "tenant2": {"host-c", "host-d", "tenant2-master"},
}


def test_three_clusters_until_an_interrupt_and_the_directory_is_for_one_sandbox(tmp_path: Path) -> None:
    """Private kubeconfigs, the nodes of the walk-through, the README's commands, a clean end.

    A second one says that there is one and leaves its files alone; when the first is gone, the next may have them.
    """
    directory = tmp_path / "sandbox"
    sandbox = Background([sys.executable, "-m", "app", "sandbox", "--dir", str(directory)], directory=ROOT)
    sandbox.wait_for("Ctrl-C stops everything")
    for name, nodes in NODES.items():
        kubeconfig = directory / f"{name}.kubeconfig"
        assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
        with kubernetes.config.new_client_from_config(str(kubeconfig)) as api:
            found = {node.metadata.name for node in kubernetes.client.CoreV1Api(api).list_node().items}
            hooks = kubernetes.client.AdmissionregistrationV1Api(api)
            assert hooks.read_mutating_webhook_configuration("berth").webhooks
            assert hooks.read_validating_webhook_configuration("berth").webhooks
        assert found == nodes
    readme = (ROOT / "README.md").read_text()
    block = readme[readme.index("export KUBECONFIG=") :].partition("```")[0].replace(".sandbox", str(directory))
    printed = [line.strip() for line in sandbox.lines]
    assert [line for line in printed if line.startswith(("export ", "kubectl "))] == block.splitlines()
    (command,) = (line.partition(": ")[2].split() for line in printed if line.startswith("Each cluster is a context "))
    whole = directory / "kubeconfig"
    assert stat.S_IMODE(whole.stat().st_mode) == 0o600
    for context, nodes in ((command[2], NODES["icp"]), ("tenant2", NODES["tenant2"]), ("", NODES["tenant1"])):
        shown = [*command[:1], "--kubeconfig", str(whole), "--context", context, *command[3:], "-o", "name"]
        found = subprocess.run(shown, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
        assert set(found.split()) == {f"node/{node}" for node in nodes}
    typed = "\n".join(
        [f"cd {ROOT}", *block.splitlines(), f"kubectl wait --for=condition=Ready pod/webhook-demo {LONG}"]
    )
    done = subprocess.run(["sh", "-ec", typed], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.stdout.endswith("pod/webhook-demo condition met\n"), done.stderr
    assert "A stand-in for Kueue gives 4 CPUs to LocalQueue user-queue of namespace default in tenant1." in printed
    (told,) = (line for line in printed if line.startswith("gateway "))
    folder = Path(told.removesuffix(")").rpartition(" ")[2])
    assert sorted(path.name for path in folder.iterdir()) == ["admin.crt", "admin.key", "ca.crt"]
    before = {path: path.read_bytes() for path in directory.glob("*.kubeconfig")}
    assert before.keys() == {directory / f"{name}.kubeconfig" for name in NODES}
    second = berth("sandbox", "--dir", str(directory))
    assert second.returncode == 2
    assert "a sandbox is running here" in second.stderr
    assert {path: path.read_bytes() for path in directory.glob("*.kubeconfig")} == before
    sandbox.process.send_signal(signal.SIGINT)
    assert sandbox.stop() == 0
    assert sandbox.lines[-1] == "Stopped.\n"
    assert "Traceback" not in "".join(sandbox.lines)
    third = Background([sys.executable, "-m", "app", "sandbox", "--dir", str(directory)], directory=ROOT)
    try:
        third.wait_for("Ready.")
    finally:
        assert third.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["demo", "--step"], "--step waits for keys: want a terminal as standard input"),
        (["demo", "--log-level", "loud"], "--log-level: want debug, info, warning, error, got 'loud'"),
        (["sandbox", "--log-level", "loud"], "--log-level"),
        (["sandbox", "--kubeconfig", "icp"], "want NAME=FILE"),
        (["sandbox", "--kubeconfig", "icp=/nowhere/config"], "no such file: /nowhere/config"),
        (["sandbox", "--kubeconfig", "moon=README.md"], "no cluster 'moon'"),
        (["sandbox", "--kubeconfig", "icp=README.md"], "kubeconfig"),
        (["sandbox", "--kubeconfig", "icp=examples/webhook-demo.yaml"], "kubeconfig"),
        (["sandbox", "--dir", "README.md"], "--dir README.md"),
        (["sandbox", "extra"], "extra"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(tmp_path: Path, arguments: list[str], words: str) -> None:
    where = [] if arguments[0] == "demo" or "--dir" in arguments else ["--dir", str(tmp_path)]
    done = berth(*arguments, *where)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert words in line


@pytest.mark.parametrize("command", ["sandbox", "demo"])
def test_help_has_examples(command: str) -> None:
    done = berth(command, "--help")
    assert done.returncode == 0
    assert f"berth {command}" in re.sub(r"\s+", " ", done.stdout).partition("Examples:")[2]


async def test_a_promise_that_is_not_kept_ends_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Status 0 is for a demo of which every step held."""

    class Lazy:
        """A cluster that accepts everything and injects nothing."""

        async def patch(self, *_: object, **__: object) -> object:
            return {"status": {"capacity": {"example.com/foo": "4"}}}

        async def create(self, _resource: object, body: dict, **_: object) -> object:
            body["metadata"]["uid"] = "1"
            body["spec"].get("containers", [{}])[0].setdefault("resources", {})
            return body

    stage = Stage(Console(quiet=True))
    with pytest.raises(DemoError, match="step 3: want that requests and limits are 2 example"):
        await Injection(Lazy(), stage).play()


def test_the_demo_waits_for_a_key_between_steps() -> None:
    """In a terminal. The sandbox serves while it waits, and Ctrl-C ends both."""
    above, below = pty.openpty()
    command = [sys.executable, "-m", "app", "demo", "--step"]
    with interruptible():
        demo = subprocess.Popen(command, stdin=below, stdout=below, stderr=below, cwd=ROOT, start_new_session=True)
    os.close(below)
    try:
        shown = until_shown(above, "Press a key")
        assert "1. A node offers 4 example.com/foo" in shown
        assert "2. " not in shown
        found = re.search(r"export KUBECONFIG=(\S+)", shown)
        assert found is not None
        command = ["kubectl", "--kubeconfig", found[1], "get", "node", "host-a", "-o", "name"]
        assert subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True).stdout == b"node/host-a\n"
        os.write(above, b" ")
        assert "2. A network attachment that names this resource" in until_shown(above, "Press a key")
        demo.send_signal(signal.SIGINT)
        assert demo.wait(PATIENCE) == 130
    finally:
        demo.kill()
        demo.wait(PATIENCE)
        os.close(above)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Processes that start meanwhile obey SIGINT. A shell without job control starts `make test &` with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def until_shown(descriptor: int, text: str) -> str:
    """What a terminal shows until this appears, without colors."""
    shown = b""
    while text.encode() not in shown:
        ready, _, _ = select.select([descriptor], [], [], PATIENCE)
        assert ready, shown.decode()
        shown += os.read(descriptor, 65536)
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())
