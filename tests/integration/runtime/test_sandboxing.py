"""`berth sandbox` and `berth demo` as they are typed: what is written, what is printed, how they end."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import kubernetes
import pytest
from rich.console import Console

from app.devtools.demo.catalog import PARTS
from app.devtools.demo.injection import Injection
from app.devtools.demo.kubectl import Kubectl
from app.devtools.demo.stage import DemoError, Stage
from app.kube.client import KubeClient
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
    logs = ["kubectl", "--kubeconfig", str(whole), "-n", "berth-system", "logs", "deployment/berth-webhook"]
    said = subprocess.run(logs, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
    assert said.startswith("$ berth webhook --")
    assert said.endswith("This role runs within `berth sandbox`, and logs in its terminal.\n")
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
    assert not directory.exists()
    third = Background([sys.executable, "-m", "app", "sandbox", "--dir", str(directory)], directory=ROOT)
    try:
        third.wait_for("Ready.")
    finally:
        assert third.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["demo", "--step"], "--step waits for keys: want a terminal as standard input"),
        (["demo", "moon"], "no part 'moon' of the demo: want injection, claims, appwrappers, rmd, companions"),
        (["demo", "--log-level", "loud"], "'--log-level': 'loud' is not one of 'debug', 'info', 'warning', 'error'"),
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

        async def get(self, *_: object, **__: object) -> object:
            return {"spec": {"containers": [{}]}}

    stage, lazy = Stage(Console(quiet=True)), cast("KubeClient", Lazy())
    with pytest.raises(DemoError, match="step 3: want that requests and limits are 2 example"):
        await stage.play("", Injection(Kubectl(stage, lazy)).steps)


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder for what is temporary: sockets of a kubelet are in it, whose paths have to be short."""
    with tempfile.TemporaryDirectory(prefix="t") as name:
        yield Path(name)


@contextlib.contextmanager
def stepping(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`berth demo --step` in a terminal, with what is temporary in this folder; the descriptor is the terminal's."""
    above, below = pty.openpty()
    command = [sys.executable, "-m", "app", "demo", "--step", *arguments]
    streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), below)
    environment = os.environ | {"TMPDIR": str(folder)}
    with interruptible():
        demo = subprocess.Popen(command, **streams, cwd=ROOT, start_new_session=True, env=environment)
    os.close(below)
    try:
        yield demo, above
    finally:
        demo.kill()
        demo.wait(PATIENCE)
        os.close(above)


def test_the_demo_waits_for_a_key_between_steps(short: Path) -> None:
    """In a terminal. The sandbox serves while it waits, what is shown can be typed, and Ctrl-C ends both."""
    with stepping(short) as (demo, terminal):
        shown = until_shown(terminal, "Press a key")
        assert "Step 1 of 36: A node offers 4 example.com/foo" in shown
        assert "Step 2 of 36" not in shown
        found = re.search(r"export KUBECONFIG=(\S+)", shown)
        assert found is not None
        environment = os.environ | {"KUBECONFIG": found[1]}
        (command,) = (line for line in shown.splitlines() if line.startswith("kubectl patch nodes host-a"))
        typed = subprocess.run(
            ["sh", "-ec", command], capture_output=True, timeout=PATIENCE, check=True, env=environment
        )
        assert typed.stdout.startswith(b"node/host-a patched")
        os.write(terminal, b" ")
        assert "Step 2 of 36: A network attachment that names this resource" in until_shown(terminal, "Press a key")
        demo.send_signal(signal.SIGINT)
        assert demo.wait(PATIENCE) == 130
    assert not list(short.iterdir())


def test_keys_skip_to_the_next_part_and_end_the_demo(short: Path) -> None:
    """What a skipped part has made is cleaned up. What was seen is said, and the status is 0."""
    with stepping(short) as (demo, terminal):
        until_shown(terminal, "Press a key")
        os.write(terminal, b" ")
        until_shown(terminal, "Press a key")
        os.write(terminal, b"s")
        shown = until_shown(terminal, "Press a key")
        assert "Step 6 of 36: Cleaning up" in shown
        assert '"foo-network" deleted' in shown
        assert "Step 7 of 36: A DeviceClass" in shown
        assert "Step 3" not in shown
        os.write(terminal, b"q")
        shown = until_shown(terminal, "has what to type there.")
        assert [part.seen in shown for part in PARTS] == [True, True, False, False, False]
        assert demo.wait(PATIENCE) == 0


def test_one_part_is_played_alone(short: Path) -> None:
    done = berth("demo", "injection", columns=200, TMPDIR=str(short))
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^Step (\d of \d+): ", done.stdout, re.MULTILINE) == [f"{step} of 6" for step in range(1, 7)]
    assert [part.seen in done.stdout for part in PARTS] == [True, False, False, False, False]
    listed = berth("demo", "--list").stdout
    assert re.findall(r"^\w+", listed, re.MULTILINE) == [part.name for part in PARTS]


@pytest.fixture
def _hangup_ends() -> Iterator[None]:
    """Processes that are started hear SIGHUP, also where the tests run under nohup: an ignored signal is inherited."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("_hangup_ends")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_of_the_demo(short: Path, number: signal.Signals) -> None:
    """No folder, and so none of its private keys. A terminal that is closed sends SIGHUP."""
    with stepping(short) as (demo, terminal):
        until_shown(terminal, "Press a key")
        assert list(short.rglob("*.key"))
        demo.send_signal(number)
        assert demo.wait(PATIENCE) == 128 + number
        assert not list(short.iterdir())


@pytest.mark.usefixtures("_hangup_ends")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("bare", [[], ["--bare"]], ids=["whole", "bare"])
def test_a_signal_leaves_no_key_of_the_sandbox(tmp_path: Path, number: signal.Signals, bare: list[str]) -> None:
    directory = tmp_path / "sandbox"
    directory.mkdir()
    (directory / "mine").touch()
    sandbox = Background([sys.executable, "-m", "app", "sandbox", "--dir", str(directory), *bare], directory=ROOT)
    sandbox.wait_for("Ctrl-C stops everything")
    assert list(directory.glob("*kubeconfig"))
    sandbox.process.send_signal(number)
    assert sandbox.stop() == 0
    assert [path for path in directory.rglob("*") if path.is_file()] == [directory / "mine"]


def test_files_of_others_are_neither_overwritten_nor_removed(tmp_path: Path) -> None:
    """What goes by a name that the sandbox writes, too: it does not start."""
    names = ["tenants/list.yaml", "gateway/tls.key", "icp/a", "kubeconfig"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    done = berth("sandbox", "--dir", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr == (
        f"Error: --dir {tmp_path}: icp, kubeconfig, gateway, tenants: no sandbox has made this, and one would overwrite "
        "it; take another --dir\n"
    )
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == {tmp_path / name for name in names}
    assert all((tmp_path / name).read_text() == name for name in names)


def test_the_next_sandbox_takes_what_one_that_was_killed_has_left(tmp_path: Path) -> None:
    sandbox = Background([sys.executable, "-m", "app", "sandbox", "--bare", "--dir", str(tmp_path)], directory=ROOT)
    sandbox.wait_for("Ctrl-C stops everything")
    sandbox.process.kill()
    sandbox.stop()
    assert (tmp_path / "kubeconfig").exists()
    sandbox = Background([sys.executable, "-m", "app", "sandbox", "--bare", "--dir", str(tmp_path)], directory=ROOT)
    try:
        sandbox.wait_for("Ctrl-C stops everything")
    finally:
        assert sandbox.stop() == 0
    assert not tmp_path.exists()


def test_without_stand_ins_the_roles_are_known_by_their_leases(tmp_path: Path) -> None:
    """There is nothing that would run Pods of a Deployment."""
    directory = tmp_path / "sandbox"
    command = [sys.executable, "-m", "app", "sandbox", "--no-stand-ins", "--dir", str(directory)]
    sandbox = Background(command, directory=ROOT)
    try:
        sandbox.wait_for("Ctrl-C stops everything")
        done = berth("status", "--kubeconfig", str(directory / "icp.kubeconfig"), "-o", "json")
        (role,) = json.loads(done.stdout)["sections"]["roles"]["items"]
        assert (role["role"], role["kind"], role["message"]) == ("controller", "Lease", None)
    finally:
        assert sandbox.stop() == 0


def test_without_a_kubeconfig_the_sandbox_of_this_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is one."""
    monkeypatch.chdir(tmp_path)
    environment = {"HOME": str(tmp_path), "KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": ""}
    kept = berth("status", **environment).stderr
    assert ".sandbox" not in kept
    (tmp_path / ".sandbox").mkdir()
    (tmp_path / ".sandbox" / "kubeconfig").touch()
    for command in ("status", "doctor"):
        found = berth(command, **environment)
        assert found.returncode == 2
        assert found.stderr.endswith("no such file; a sandbox runs here: export KUBECONFIG=.sandbox/kubeconfig\n")


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
