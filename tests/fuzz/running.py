"""A webhook over TLS in a process that counts its steps, with a cluster of the sandbox behind it."""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from app.definitions import read_definitions
from app.devtools.clusters.definitions import APP_WRAPPERS, BARE, RMD
from tests.fuzz.webhook import LINE
from tests.support.chart_combinations import CALLER_TOKEN
from tests.support.paths import ROOT
from tests.support.sandbox import Sandboxed, sandbox
from tests.support.waiting import PATIENCE
from tests.support.webhook_process import Pki, Webhook, flags_for

JSON = dict[str, Any]
_CLUSTER = Path(__file__).with_name("cluster.yaml")
_ALL = ("--claims", "--appwrappers", "--appwrapper-strict", "--confine-tenants", "--namespace=berth-system")
# Steps count here, however long they take.
_ALL += ("--tenant-allow=deviceClass=vf.example.com", "--deadline-seconds=30")
SETTINGS: dict[str, tuple[str, ...]] = {
    "daemons": (*_ALL, "--rmd-backend=daemon", "--appwrapper-controller=berth-system/berth-controller"),
    "classes": (
        *_ALL,
        "--rmd-backend=runtime",
        "--existing-resources=add",
        "--injectHugepageDownApi",
        "--node-selector-conflict=deny",
        "--claims-deny-drivers=vf.example.com",
    ),
}
"""Flags with which everything is reviewed; the two differ in what exclude each other."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a review was answered: HTTP status, AdmissionReview, steps, seconds of the process, reason of the log."""

    status: int
    review: JSON
    steps: int
    cpu: float
    reason: str


class Counted(Webhook):
    """One whose steps are counted. Reviews are sent one after another."""

    @staticmethod
    def program(*arguments: str, **options: Any) -> subprocess.Popen[Any]:  # type: ignore[override]
        command = [sys.executable, "-m", "tests.fuzz.webhook", *arguments[1:]]
        return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, **options)  # it ends when its input does

    def __init__(self, pki: Pki, *flags: str) -> None:
        self._figures: queue.Queue[JSON] = queue.Queue()
        self.faults: list[str] = []
        super().__init__(pki, *flags)
        self._connection = self.connect()

    def _read(self) -> None:
        """Lines of reviews are not kept once they were looked at: there are very many."""
        self.lines = _Lines(self._look)
        super()._read()

    def _look(self, line: str) -> bool:
        """Whether a line is kept."""
        if line.startswith(LINE):
            self._figures.put(json.loads(line))
            return False
        try:
            event = json.loads(line)
        except ValueError:
            self.faults.append(line)
            return True
        if event.get("level") == "error" or "traceback" in event:
            self.faults.append(line)
        return event.get("msg") != "review"

    def ask(self, body: bytes, path: str) -> Answer:
        try:
            answer = self._send(body, path)
        except (ConnectionError, ssl.SSLError, http.client.BadStatusLine):
            # The server closes a connection that was idle for long, and one whose body is too large.
            self._connection.close()
            answer = self._send(body, path)
        review = json.loads(answer.read())
        figures = self._figures.get(timeout=PATIENCE)
        return Answer(answer.status, review, figures["steps"], figures["cpu"], figures["reason"])

    def _send(self, body: bytes, path: str) -> http.client.HTTPResponse:
        self._connection.request("POST", path, body, {"Content-Type": "application/json"})
        return self._connection.getresponse()

    def stop(self) -> None:
        self._connection.close()
        super().stop()
        assert self.process.stdin is not None
        self.process.stdin.close()


class _Lines(list[str]):
    """Those of a log of which `look` says that they are kept."""

    def __init__(self, look: Callable[[str], bool]) -> None:
        super().__init__()
        self._look = look

    def append(self, line: str) -> None:
        if self._look(line):
            super().append(line)


@contextlib.contextmanager
def webhooks(folder: Path, names: Sequence[str] = tuple(SETTINGS)) -> Iterator[dict[str, Counted]]:
    """A webhook with each of these settings, all in one cluster, ready."""
    pki, tokens = Pki(folder / "pki"), folder / "caller-token"
    tokens.write_text(CALLER_TOKEN)
    with sandbox(folder) as cluster, contextlib.ExitStack() as stack:
        _fill(cluster)
        started = {}
        for name in names:
            flags = [f"--kubeconfig={cluster.kubeconfig()}", "--insecure", "--events", *SETTINGS[name]]
            flags.append(f"--caller-token-file={tokens}")
            started[name] = Counted(pki, *flags_for(pki, None), *flags)
            stack.callback(started[name].stop)
        for webhook in started.values():
            webhook.until_ready()
        yield started


def _fill(cluster: Sandboxed) -> None:
    for crd in read_definitions((*BARE, *APP_WRAPPERS, *RMD)):
        cluster.define(crd)
    for obj in yaml.safe_load_all(_CLUSTER.read_text()):
        metadata = obj["metadata"]
        group = f"/apis/{obj['apiVersion']}" if "/" in obj["apiVersion"] else f"/api/{obj['apiVersion']}"
        plural = {"NetworkAttachmentDefinition": "network-attachment-definitions", "DeviceClass": "deviceclasses"}.get(
            obj["kind"], f"{obj['kind'].lower()}s"
        )
        where = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
        answer = cluster.request("POST", f"{group}{where}/{plural}", obj)
        assert answer.status == 201, answer.body
