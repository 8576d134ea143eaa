"""A real webhook process for each module, and what every answer and every line of its log must be."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonpatch
import pytest

from tests.support.waiting import PATIENCE
from tests.support.webhook_process import ATTACHMENTS, Pki, Webhook, flags_for, load_review

UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
ENVELOPE = re.compile(
    rb'\{"kind": "AdmissionReview", "apiVersion": "admission\.k8s\.io/v1", "request": \{"uid": "([\w.-]+)"', re.ASCII
)


Connections = list[socket.socket]


@pytest.fixture
def left() -> Iterator[Connections]:
    """Connections of a test, closed in the end."""
    kept: Connections = []
    yield kept
    for connection in kept:
        with contextlib.suppress(OSError):
            connection.close()


class Victim:
    """A webhook, one connection to it that is used again and again, and a count of the reviews it was asked for."""

    def __init__(self, webhook: Webhook) -> None:
        self.webhook = webhook
        self.asked = 0
        self._connection = self._connect()

    def _connect(self) -> http.client.HTTPSConnection:
        return self.webhook.connect(self.webhook.pki.context())

    def send(self, body: bytes, path: str = "/mutate") -> tuple[int, Any]:
        self.asked += 1
        self._connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def ask(self, body: bytes, path: str = "/mutate") -> dict[str, Any]:
        """The response to a body of any kind, after everything has been looked at that must hold for each."""
        status, answer = self.send(body, path)
        assert status in (200, 400), answer
        assert answer["kind"] == "AdmissionReview"
        assert answer["apiVersion"] in ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
        response: dict[str, Any] = answer["response"]
        readable = ENVELOPE.match(body)
        if status == 200 or readable:
            assert response["uid"] == _uid(body, readable)
        if status == 400:
            assert response["allowed"] is False
            assert response["status"]["reason"] == "BadReview"
            assert response["status"]["code"] == 400
        elif not response["allowed"]:
            assert response["status"]["reason"] not in ("", "InternalError")
            assert response["status"]["message"]
        return response

    def ask_for(self, review: dict[str, Any], path: str = "/mutate") -> dict[str, Any]:
        """The response to a review; its patch, if it has one, can be applied to the object."""
        response = self.ask(json.dumps(review).encode(), path)
        if "patch" in response:
            jsonpatch.apply_patch(review["request"]["object"], json.loads(base64.b64decode(response["patch"])))
        return response

    def is_well(self) -> None:
        """A good review is answered as ever."""
        self.asked += 1
        status, answer = self.webhook.post(load_review("webhook-demo"))
        assert (status, answer["response"]["allowed"]) == (200, True)
        assert answer["response"]["patch"]

    def end(self) -> None:
        self._connection.close()


def _uid(body: bytes, readable: re.Match[bytes] | None) -> str:
    found: str = readable[1].decode() if readable else json.loads(body)["request"]["uid"]
    return found


def settle(true: Callable[[], bool], what: str, *, seconds: float = PATIENCE) -> None:
    end, pause = time.monotonic() + seconds, threading.Event()
    while not true():
        assert time.monotonic() < end, what
        pause.wait(0.02)


def told(figures: object) -> None:
    """For `pytest -rP`, which shows what docs/security.md says."""
    sys.stdout.write(f"{figures}\n")


def memory(pid: int) -> float:
    """MiB that a process holds."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@pytest.fixture(scope="module")
def webhook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    folder = tmp_path_factory.mktemp("hostile")
    manifests = folder / "manifests"
    manifests.mkdir()
    (manifests / "nads.yaml").write_text(ATTACHMENTS)
    started = Webhook(Pki(folder / "pki"), *flags_for(Pki(folder / "pki"), manifests), "--insecure")
    try:
        yield started.until_ready()
    finally:
        started.stop()


@pytest.fixture(scope="module")
def victim(webhook: Webhook) -> Iterator[Victim]:
    """When the module is through: the process is well, and its log has one sound line for each review."""
    found = Victim(webhook)
    yield found
    found.end()
    found.is_well()
    settle(lambda: len(reviews(webhook)) >= found.asked, "a line for each review")
    assert len(reviews(webhook)) == found.asked
    for line in list(webhook.lines):
        assert line.endswith("\n")
        assert not UNSEEN.search(line[:-1]), ascii(line)
        assert len(line) < 8192
        event = json.loads(line)
        assert event["level"] != "error", line
        assert event["msg"]
        assert event["time"]


def reviews(webhook: Webhook) -> list[str]:
    return [line for line in list(webhook.lines) if '"msg":"review"' in line]
