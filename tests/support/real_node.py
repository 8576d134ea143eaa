"""A node beside a real API server: kubelet, containerd, runc, Multus and CNI plugins, in namespaces of their own."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from app.devtools.clusters.node.services import forward
from app.kube.client import KubeClient
from app.kube.conditions import condition
from app.kube.resources import NODES
from app.kube.retry import get_or_none
from tests.real.programs import SETS
from tests.support.node_files import ADDRESS, RUNTIME, write_files
from tests.support.processes import Background
from tests.support.real_apiserver import client_kubeconfig
from tests.support.real_parts import real_part
from tests.support.waiting import PATIENCE, eventually, wait_until

JSON = dict[str, Any]
NODE = "node-a"
_KINDS = ("--mount", "--net", "--pid", "--ipc", "--uts", "--cgroup")
_COMMANDS = ("unshare", "nsenter", "mount", "ip")
_PROBE = "mount -t cgroup2 cgroup2 /mnt && mount -t sysfs sysfs /sys && ip link add name bridge type bridge && ip link add name pair type veth"
_PLACES = ("/sys/devices/system/node", "/sys/kernel/mm/hugepages", "/dev/kmsg")
_UNTIL_EMPTY = '"$@"; until find "$0" -depth -type d -exec rmdir {} +; do sleep 0.1; done 2> /dev/null'
"""Runs a program, and removes its control group when nothing is in there any more."""
_CLONE_NEWNET = 0x40000000


def needs_node() -> list[pytest.MarkDecorator]:
    """The marks of tests that run a node, skipped where its programs are not built or the machine has no place for it."""
    if all(real_part(name) is not None for name in (*SETS["node"], *SETS["control-plane"])):
        why = _unable()
        return [pytest.mark.real, pytest.mark.skipif(bool(why), reason=f"this machine runs no node: {why}")]
    reason = 'no parts of a node: `make real-parts PARTS="control-plane node"`, or all of it by `make real-all`'
    return [pytest.mark.real, pytest.mark.skip(reason=reason)]


def _unable() -> str:
    """What this machine lacks; "" where it can run a node."""
    if os.geteuid():
        return "namespaces and mounts need root"
    if missing := [name for name in _COMMANDS if shutil.which(name) is None]:
        return f"there is no {missing[0]}: `apt-get install util-linux iproute2`"
    if missing := [path for path in _PLACES if not Path(path).exists()]:
        return f"there is no {missing[0]}"
    if _own_group() is None:
        return "no hierarchy of control groups version 2 is mounted"
    command = ["unshare", *_KINDS, "--fork", "sh", "-ec", _PROBE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


def _own_group() -> Path | None:
    """The folder of our own control group, in the hierarchy of version 2."""
    mounts = re.findall(r"^\S+ \S+ \S+ / (\S+) .* - cgroup2 ", Path("/proc/self/mountinfo").read_text(), re.MULTILINE)
    group = re.search(r"^0::/(.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
    return Path(mounts[0]) / group[1] if mounts and group else None


class RealNode:
    """`folder` is that of kubelet: it has the sockets that plugins and agents of a node use.

    Its processes have no network but their own: `kubeconfig`s name the API server by its address on this machine, and
    the node has a listener there that leads to it.
    """

    def __init__(self, place: Path, server: Path) -> None:
        """`place` is an empty folder with a short path, `server` that of a `real_api_servers`."""
        assets = real_part("kubelet")
        assert assets is not None
        self.folder = place / "kubelet"
        self._place, self._assets, self._server = place, assets.parent, server
        config = yaml.safe_load((server / "admin.kubeconfig").read_text())
        self._url = str(config["clusters"][0]["cluster"]["server"])
        own = _own_group()
        assert own is not None
        self._group = own / f"berth-{place.name}"
        self._first: subprocess.Popen[str] | None = None
        self._pid = 0
        self._containerd: Background | None = None
        self._kubelet: Background | None = None

    def make(self) -> None:
        """The namespaces, and containerd in them with the image."""
        multus = client_kubeconfig(self._server, "multus", url=self._url, groups=["system:masters"])
        write_files(self._place, self._assets, multus=multus)
        self._group.mkdir()
        # Whatever ends this process ends the node: its first process reads until nobody can write.
        first = self._grouped("unshare", *_KINDS, "--fork", "--mount-proc", "sh", str(self._place / "setup"))
        self._first = subprocess.Popen(
            ["sh", "-c", _UNTIL_EMPTY, str(self._group), *first],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._first.stdout is not None
        assert self._first.stderr is not None
        if self._first.stdout.readline() != "ready\n":
            raise AssertionError(self._first.stderr.read())
        self._pid = _child(_child(self._first.pid))
        self._containerd = self.program("containerd", f"--config={self._place / 'containerd.toml'}")
        image = str(self._place / "image.tar")
        command = self._inside(*self._ctr(), "images", "import", "--local", "--snapshotter=native", image)
        wait_until(lambda: not subprocess.run(command, capture_output=True, check=False).returncode)

    def start(self) -> None:
        """Start kubelet."""
        self._kubelet = self.program(
            "kubelet",
            f"--config={self._place / 'kubelet.yaml'}",
            f"--kubeconfig={client_kubeconfig(self._server, f'system:node:{NODE}', url=self._url, groups=['system:nodes'])}",
            f"--hostname-override={NODE}",
            f"--node-ip={ADDRESS}",
        )

    def stop(self) -> None:
        """Stop kubelet; its Pods run on."""
        if self._kubelet is not None:
            end(self._kubelet)
            self._kubelet = None

    def close(self) -> None:
        """End all processes. The mounts and the network go with them."""
        with contextlib.ExitStack() as stack:
            if self._containerd is not None:
                stack.callback(self._containerd.stop)
            if self._first is not None:
                stack.callback(_ended, self._first)
            self.stop()

    def reaching_server(self) -> contextlib.AbstractAsyncContextManager[None]:
        """The API server is reached under its own address."""
        parts = urlsplit(self._url)
        return self.leading(str(parts.hostname), parts.port or 443, self._url)

    @contextlib.asynccontextmanager
    async def leading(self, host: str, port: int, url: str) -> AsyncIterator[None]:
        """Connections of the node to this address lead to that of the URL on this machine."""
        parts = urlsplit(url)

        target = str(parts.hostname), parts.port or 443

        async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.closing(writer):
                await forward(target, reader, writer)

        async with await asyncio.start_server(lead, sock=await asyncio.to_thread(self._listener, host, port)):
            yield

    def _listener(self, host: str, port: int) -> socket.socket:
        def listen() -> socket.socket:
            _enter_network(self._pid)
            return socket.create_server((host, port))

        # A thread may be in another network than its process, and a socket stays in that where it was made.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(listen).result()

    async def run(self, *command: str) -> str:
        """What a command prints in the node."""
        run = partial(subprocess.run, capture_output=True, text=True, check=True)
        return str((await asyncio.to_thread(run, self._inside(*command))).stdout)

    def program(self, *command: str) -> Background:
        """One that runs in the node; `end` ends it."""
        return Background(self._inside(*command))

    async def interfaces(self, address: str) -> dict[str, JSON]:
        """Those of the Pod with this address, as its containers see them, by name."""
        return (await self._network(address))[1]

    async def entering(self, address: str) -> tuple[str, str]:
        """Before a command of the node: it runs in the network of the Pod with this address."""
        return "nsenter", f"--net={(await self._network(address))[0]}"

    async def _network(self, address: str) -> tuple[str, dict[str, JSON]]:
        """The file of the Pod's network, and its interfaces."""
        script = 'for name in /run/netns/*; do echo "$name $(nsenter --net=$name ip -json address)"; done'
        for line in (await self.run("sh", "-c", script)).splitlines():
            file, _, text = line.partition(" ")
            links = {link["ifname"]: link for link in json.loads(text or "[]")}
            if address in addresses_of(links.get("eth0", {})):
                return file, links
        raise AssertionError(f"no Pod has {address}")

    async def kill_sandbox(self, pod: JSON) -> None:
        """kubelet makes another one, and its containers again."""
        labels = {"kubernetes.pod.uid": pod["metadata"]["uid"], "cri-containerd.kind": "sandbox"}
        matching = ",".join(f'labels."io.{name}"=={value}' for name, value in labels.items())
        (identity,) = (await self.run(*self._ctr(), "containers", "list", "--quiet", matching)).split()
        await self.run("kill", "-KILL", await self._process(identity))

    async def _process(self, identity: str) -> str:
        """The number of the first process of a container or sandbox."""
        tasks = await self.run(*self._ctr(), "tasks", "list")
        (pid,) = (line.split()[1] for line in tasks.splitlines() if line.startswith(identity))
        return pid

    async def files(self, pod: JSON, folder: str) -> dict[str, dict[str, str]]:
        """The files in a folder of each container, by the names of both; the environment is the file "environ"."""
        read = {}
        for status in pod["status"]["containerStatuses"]:
            pid = await self._process(status["containerID"].removeprefix("containerd://"))
            root = f"/proc/{pid}/root{folder}"
            names = (await self.run("ls", root)).split()
            read[status["name"]] = {name: await self.run("cat", f"{root}/{name}") for name in names}
            read[status["name"]]["environ"] = await self.run("cat", f"/proc/{pid}/environ")
        return read

    def log(self) -> str:
        """The last lines of kubelet's and of containerd's."""
        running = filter(None, (self._kubelet, self._containerd))
        return "".join("".join(program.lines[-60:]) for program in running)

    def _ctr(self) -> tuple[str, ...]:
        return "ctr", f"--address={self._place / RUNTIME}", "--namespace=k8s.io"

    def _inside(self, *command: str) -> list[str]:
        environment = ["env", f"PATH={self._assets}:{os.environ['PATH']}"]
        return self._grouped("nsenter", f"--target={self._pid}", *_KINDS, "--", *environment, *command)

    def _grouped(self, *command: str) -> list[str]:
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self._group / "cgroup.procs"), *command]


def addresses_of(link: JSON) -> list[str]:
    """The addresses of an interface but those of its own link."""
    return [info["local"] for info in link.get("addr_info") or () if info["scope"] != "link"]


def _ended(first: subprocess.Popen[str]) -> None:
    """The first process of a node ends with what it reads, and all others with it."""
    try:
        first.communicate(timeout=PATIENCE)
    finally:
        first.kill()


def _enter_network(pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(f"/proc/{pid}/ns/net").open() as network:
        if libc.setns(network.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")


def _child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def end(program: Background) -> None:
    """Stop a program of a node: nsenter waits for it, and hands no signal on."""
    with contextlib.suppress(OSError, IndexError, subprocess.TimeoutExpired):
        os.kill(_child(program.process.pid), signal.SIGTERM)
        program.process.wait(PATIENCE)
    program.stop()


@contextlib.asynccontextmanager
async def real_node(client: KubeClient, server: Path) -> AsyncIterator[RealNode]:
    """The node `NODE` of the API server of this directory; `client` is an administrator's. It is ready when it yields."""
    with tempfile.TemporaryDirectory(prefix="node-") as place:
        node = RealNode(Path(place), server)
        try:
            await asyncio.to_thread(node.make)
            async with node.reaching_server():
                await asyncio.to_thread(node.start)
                await eventually(lambda: _is_ready(client))
                yield node
        except BaseException:
            sys.stderr.write(node.log())
            raise
        finally:
            await asyncio.to_thread(node.close)


async def _is_ready(client: KubeClient) -> bool:
    node = await get_or_none(client, NODES, NODE) or {}
    ready = condition(node.get("status") or {}, "Ready").get("status") == "True"
    return ready and not (node.get("spec") or {}).get("taints")
