"""A reader of our pages, who types them in bare clusters.

What the chart installs runs there as processes with the rights of its ServiceAccounts, no more.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.pages import ROOT, Shell, commands_of, find_nothing_wrong
from tests.e2e.users import Kubectl, PythonClient
from tests.support.ports import NODE_PORTS, lasting_port
from tests.support.processes import Background
from tests.support.real_apiserver import real_api_servers

PAGE = "docs/install.md"
ADDRESS, NODE_PORT = "10.133.133.1", "30001"
CLUSTERS = ("icp", "tenant1", "tenant2")
_UNREADY = """
kubectl get pods --all-namespaces --output wide || true
kubectl get pods --all-namespaces --no-headers | grep " 0/" | while read -r namespace name _; do
  kubectl get pod "$name" --namespace "$namespace" --output jsonpath='{.metadata.name}: {.status}{"\\n"}'
  kubectl logs "$name" --namespace "$namespace" --tail 40 2>&1 || true
done || true
"""
"""Why a command has failed that waits for Pods."""


class Reader:
    """Somebody who types what a page says, with an address of this machine, and a node port that nobody has."""

    def __init__(self, directory: Path, kubeconfigs: Path) -> None:
        self._shell = Shell.at(directory)
        self._kubeconfigs = kubeconfigs
        self._node_port = str(lasting_port(NODE_PORTS))
        (directory / "examples").unlink()
        shutil.copytree(ROOT / "examples", directory / "examples")
        for path in (directory / "examples" / "helm").iterdir():
            path.write_text(self._here(path.read_text()))

    def type(self, commands: str, cluster: str) -> str:
        kubeconfig = self.kubeconfig(cluster)
        try:
            return self._shell.type(self._here(commands), kubeconfig=kubeconfig)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._shell.type(_UNREADY, kubeconfig=kubeconfig)}") from None

    def follow(self, heading: str, cluster: str, *, page: str = PAGE) -> str:
        """Type what a section says; what was printed."""
        return "".join(self.type(block, cluster) for block in commands_of(page, heading))

    def find_nothing_wrong(self, cluster: str, release: str = "--berth-namespace berth-system") -> None:
        """As `pages.find_nothing_wrong`, for the release that these flags of the doctor name."""
        find_nothing_wrong(lambda command: self.type(command, cluster), release)

    def put(self, name: str, text: str) -> None:
        """A file that the reader has beside the repository's."""
        (self._shell.directory / name).write_text(text)

    def _here(self, text: str) -> str:
        return text.replace(ADDRESS, "127.0.0.1").replace(NODE_PORT, self._node_port)

    def kubeconfig(self, cluster: str) -> Path:
        return self._kubeconfigs / f"{cluster}.kubeconfig"

    def python(self, cluster: str) -> PythonClient:
        return PythonClient(self.kubeconfig(cluster))

    def kubectl(self, cluster: str) -> Kubectl:
        return Kubectl(self.kubeconfig(cluster))


@contextlib.contextmanager
def bare_clusters(directory: Path) -> Iterator[Reader]:
    """Three clusters without Berth, of the sandbox or on real API servers."""
    command = [sys.executable, "-m", "app", "sandbox", "--bare", "--dir", str(directory / "sandbox")]
    with contextlib.ExitStack() as stack:
        assets = os.environ.get("KUBEBUILDER_ASSETS")
        if assets:
            # Real API servers reach a Service at its cluster IP: on loopback, where the sandbox's node listens.
            given = stack.enter_context(real_api_servers(Path(assets), directory, CLUSTERS, services="127.80.0.0/16"))
            command += [part for name, path in given.items() for part in ("--kubeconfig", f"{name}={path}")]
        process = Background(command)
        try:
            process.wait_for("Ready.")
            yield Reader(directory / "reader", directory / "sandbox")
        finally:
            status = process.stop()
            assert status == 0, "".join(process.lines)[-4000:]
