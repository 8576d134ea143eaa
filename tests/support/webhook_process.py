"""The real `berth webhook` in processes of its own, over real TLS on loopback."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import signal
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jsonpatch
import pytest

from app.certs.issuing import Issued, issue_authority, issue_client, issue_serving, serving_names
from tests.support.forking import BerthProcess, clean_environment
from tests.support.paths import REVIEWS
from tests.support.waiting import PATIENCE

ATTACHMENTS = """
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata:
  name: foo-network
  namespace: default
  annotations: {k8s.v1.cni.cncf.io/resourceName: example.com/foo}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata:
  name: bar-network
  namespace: default
  annotations: {k8s.v1.cni.cncf.io/resourceName: example.com/bar, k8s.v1.cni.cncf.io/nodeSelector: "disk=nvme"}
"""


class Pki:
    """A CA with a serving pair on disk, and client certificates; `swap` puts another pair there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.now = datetime.now(UTC).replace(microsecond=0)
        self.authority = issue_authority(common_name="test CA", now=self.now - timedelta(days=10), days=20)
        self.ca = self.write("ca.crt", self.authority.certificate_pem)
        self.certificate, self.key = directory / "tls.crt", directory / "tls.key"
        self.swap(self.serving())

    def write(self, name: str, content: bytes) -> Path:
        path = self.directory / name
        path.write_bytes(content)
        return path

    def serving(self, **options: Any) -> Issued:
        names = serving_names(dns=["localhost"], addresses=["127.0.0.1"])
        return issue_serving(self.authority, **({"names": names, "now": self.now, "days": 5} | options))

    def swap(self, pair: Issued) -> int:
        """Replace the files one by one by renames, as a mounted Secret or a renewal does; the new serial."""
        for path, content in ((self.certificate, pair.certificate_pem), (self.key, pair.key_pem)):
            fresh = self.directory / f"{path.name}.new"
            fresh.write_bytes(content)
            fresh.replace(path)
        return pair.certificate.serial_number

    def expired(self) -> Issued:
        return self.serving(now=self.now - timedelta(days=3), days=1)

    def client(self, name: str, authority: Issued | None = None) -> tuple[Path, Path]:
        pair = issue_client(authority or self.authority, common_name=name, now=self.now, days=1)
        return self.write(f"{name}.crt", pair.certificate_pem), self.write(f"{name}.key", pair.key_pem)

    def context(self, client: tuple[Path, Path] | None = None, **options: Any) -> ssl.SSLContext:
        """A client's context that trusts the CA and checks the name."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if client is not None:
            context.load_cert_chain(*client)
        for name, value in options.items():
            setattr(context, name, value)
        return context


class Webhook:
    """One running command. `lines` is what it wrote to standard error so far; `program` starts it."""

    program: Callable[..., subprocess.Popen[Any]] = BerthProcess

    def __init__(self, pki: Pki, *flags: str, env: dict[str, str] | None = None, **options: Any) -> None:
        self.pki = pki
        self.lines: list[str] = []
        self._listening = threading.Event()
        self._reviews = self._health = ("", 0)
        self.process = type(self).program(
            *("webhook", *flags),
            env=clean_environment() | {"TMPDIR": str(pki.directory)} | (env or {}),
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if '"listening"' in line:
                event = json.loads(line)
                reviews, health = urlsplit(event["reviews"]), urlsplit(event["health"])
                self._reviews = ("127.0.0.1", reviews.port or 0)
                self._health = ("127.0.0.1", health.port or 0)
                self._listening.set()
        self._listening.set()

    @property
    def address(self) -> tuple[str, int]:
        self._listening.wait(PATIENCE)
        return self._reviews

    @property
    def url(self) -> str:
        return "https://{}:{}".format(*self.address)

    @property
    def health_address(self) -> tuple[str, int]:
        self._listening.wait(PATIENCE)
        return self._health

    def connect(self, context: ssl.SSLContext | None = None) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(*self.address, context=context or self.pki.context(), timeout=PATIENCE)

    def post(
        self,
        body: object,
        path: str = "/mutate",
        *,
        method: str = "POST",
        content_type: str = "application/json",
        context: ssl.SSLContext | None = None,
    ) -> tuple[int, Any]:
        """(status, decoded answer) of one request on a connection of its own."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection = self.connect(context)
        try:
            connection.request(method, path, raw, {"Content-Type": content_type})
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text.startswith(b"{") else text
        finally:
            connection.close()

    def get(self, path: str) -> tuple[int, str]:
        """From the health port; (0, "") where it does not listen."""
        connection = http.client.HTTPConnection(*self.health_address, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def metrics(self) -> dict[str, float]:
        lines = [line for line in self.get("/metrics")[1].splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    def serial(self, context: ssl.SSLContext | None = None) -> int:
        """The serial number of the certificate that a new connection gets."""
        connection = self.connect(context)
        try:
            connection.connect()
            return int(connection.sock.getpeercert()["serialNumber"], 16)
        finally:
            connection.close()

    def until(self, true: Callable[[], Any], what: str) -> Any:
        end, pause = time.monotonic() + PATIENCE, threading.Event()
        while not (found := true()):
            if time.monotonic() > end or self.process.poll() is not None:
                raise AssertionError(f"never came true: {what}\n" + "".join(self.lines[-20:]))
            pause.wait(0.05)
        return found

    def until_ready(self) -> Webhook:
        self.until(lambda: self.get("/readyz")[0] == 200, "ready")
        return self

    def until_unready(self, why: str) -> None:
        """Wait until readiness gives this reason. Files that change one after the other give others before."""

        def answered() -> bool:
            status, text = self.get("/readyz")
            return status == 503 and why in text

        self.until(answered, f"unready: {why}")

    def events(self, message: str) -> list[dict[str, Any]]:
        return [event for event in map(json.loads, list(self.lines)) if event["msg"] == message]

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """The exit status, when all that it wrote has been read."""
        status = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return status

    def stop(self) -> None:
        """End it and whatever it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        if self.process.stderr is not None:
            self.process.stderr.close()


def load_review(name: str) -> dict[str, Any]:
    return json.loads((REVIEWS / f"Pod-{name}-CREATE.json").read_text())  # type: ignore[no-any-return]  # JSON


@pytest.fixture(scope="session")
def review() -> Callable[[str], dict[str, Any]]:
    """A fresh copy of a real review: plain, rich, webhook-demo."""
    return load_review


@pytest.fixture(scope="session")
def patched() -> Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]:
    """The object of a review with the patch of its answer applied."""

    def apply(asked: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        operations = json.loads(base64.b64decode(answer["response"]["patch"]))
        return jsonpatch.apply_patch(asked["request"]["object"], operations)  # type: ignore[no-any-return]  # JSON

    return apply


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def own_pki(tmp_path: Path) -> Pki:
    """For tests that change what is on disk."""
    return Pki(tmp_path / "pki")


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("manifests")
    (directory / "nads.yaml").write_text(ATTACHMENTS)
    return directory


def flags_for(pki: Pki, source: Path | None) -> list[str]:
    flags = ["--bind-address=127.0.0.1", "--port=0", "--health-check-port=0", "--drain-seconds=0.2"]
    flags += ["--certificate-poll-seconds=0.1", f"--tls-cert-file={pki.certificate}"]
    flags += [f"--tls-private-key-file={pki.key}"]
    return flags + ([f"--manifests={source}"] if source is not None else [])


@pytest.fixture(scope="module")
def running() -> Iterator[list[Webhook]]:
    started: list[Webhook] = []
    yield started
    for webhook in started:
        webhook.stop()


@pytest.fixture(scope="module")
def launch(running: list[Webhook], manifests: Path) -> Callable[..., Webhook]:
    """Starts a webhook on free ports; `source` None leaves `--manifests` out. Later flags beat earlier ones."""

    def start(pki: Pki, *flags: str, source: Path | None = manifests, **options: Any) -> Webhook:
        running.append(Webhook(pki, *flags_for(pki, source), *flags, **options))
        return running[-1]

    return start


@pytest.fixture(scope="module")
def server(launch: Callable[..., Webhook], pki: Pki) -> Webhook:
    """One webhook for the tests of a module that only ask."""
    webhook: Webhook = launch(pki, "--insecure")
    return webhook.until_ready()
