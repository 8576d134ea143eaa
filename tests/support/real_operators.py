"""Operators of other projects beside a real control plane: Kueue, and AppWrapper's manager, as their releases install them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import fcntl
import json
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import CONFIG_MAPS, SECRETS
from app.kube.retry import get_or_none
from tests.real.programs import programs
from tests.support.go_modules import module_folder
from tests.support.ports import lasting_port
from tests.support.processes import Background
from tests.support.real_parts import real_part
from tests.support.running import running
from tests.support.waiting import eventually

JSON = dict[str, Any]
SERVICES = "127.80.0.0/16"
"""The range of cluster IPs: on loopback, so that an API server of this machine reaches a webhook at its Service's."""
_LEFT_OUT = ("Deployment", "APIService")


@dataclass(frozen=True)
class Release:
    """Names in the manifests of a release: its program, and what it runs with."""

    program: str
    namespace: str
    account: str
    certificate: str
    """The Secret with the certificate of its webhooks."""
    config: str
    """The ConfigMap with its configuration."""
    address: str
    """The cluster IP of its webhooks' Service."""


KUEUE = Release(
    "kueue",
    "kueue-system",
    "kueue-controller-manager",
    "kueue-webhook-server-cert",
    "kueue-manager-config",
    "127.80.0.50",
)
APP_WRAPPER = Release(
    "appwrapper",
    "appwrapper-system",
    "appwrapper-controller-manager",
    "appwrapper-webhook-server-cert",
    "appwrapper-operator-config",
    "127.80.0.51",
)
_APP_WRAPPER_PORT = 9443
"""Where its webhooks listen, whatever its configuration says: one manager runs at a time on a machine."""


class Operator:
    """Its process; `stop` and `start` are a restart, `configuration` what it reads at the next start."""

    def __init__(
        self, client: KubeClient, release: Release, file: Path, health: str, configuration: JSON, *command: str
    ) -> None:
        """The configuration is kept in the ConfigMap of the release, and in `file`, as where a Pod has it as a volume."""
        self._client, self._release, self._health = client, release, health
        self._file, self._command = file, [*command]
        self.configuration = configuration
        self._process: Background | None = None

    async def start(self) -> None:
        """Returns when it is ready."""
        text = yaml.safe_dump(self.configuration)
        self._file.write_text(text)
        name, namespace = self._release.config, self._release.namespace
        (key,) = (await self._client.get(CONFIG_MAPS, name, namespace=namespace))["data"]
        change = {"data": {key: text}}
        await self._client.patch(CONFIG_MAPS, name, change, patch_type="merge", namespace=namespace)
        self._process = process = await asyncio.to_thread(Background, self._command)
        await eventually(lambda: process.process.poll() is not None or _answers(self._health))
        assert process.process.poll() is None, self.log()

    async def stop(self) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            await asyncio.to_thread(process.stop)

    async def kill(self) -> None:
        """It has no time to finish anything."""
        assert self._process is not None
        self._process.process.kill()
        await self.stop()

    def log(self) -> str:
        return "".join(self._process.lines)[-6000:] if self._process else ""


@contextlib.asynccontextmanager
async def real_kueue(
    client: KubeClient, kubeconfig: Path, directory: Path, *, integrations: JSON, **configuration: Any
) -> AsyncIterator[Operator]:
    """Kueue with these integrations, and further fields of its configuration, at the API server of a directory.

    `kubeconfig` is an administrator's of a server whose cluster IPs are `SERVICES`; Kueue has its own account's rights.
    """
    port, probes = lasting_port(), lasting_port()
    read = await asyncio.to_thread(_installed, KUEUE, kubeconfig, _made(directory / "module"), port)
    certificates = _made(directory / "kueue-certificates")
    read |= {
        "health": {"healthProbeBindAddress": f"127.0.0.1:{probes}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": KUEUE.address, "port": port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "integrations": integrations,
        "featureGates": {"VisibilityOnDemand": False},
        **configuration,
    }
    account, file = await asyncio.to_thread(_account, KUEUE, kubeconfig), directory / "kueue.yaml"
    command = [str(real_part("kueue")), f"--config={file}", f"--kubeconfig={account}"]
    kueue = Operator(client, KUEUE, file, f"http://127.0.0.1:{probes}/readyz", read, *command)
    async with _running(kueue, client, KUEUE, certificates):
        yield kueue


@contextlib.asynccontextmanager
async def real_app_wrapper(client: KubeClient, kubeconfig: Path, directory: Path) -> AsyncIterator[Operator]:
    """AppWrapper's manager with its webhooks and its own account's rights; `kubeconfig` as for `real_kueue`."""
    probes = lasting_port()
    read = await asyncio.to_thread(
        _installed, APP_WRAPPER, kubeconfig, _made(directory / "appwrapper-module"), _APP_WRAPPER_PORT
    )
    certificates = _made(directory / "k8s-webhook-server" / "serving-certs")
    read["controllerManager"] = {
        "health": {"bindAddress": f"127.0.0.1:{probes}"},
        "metrics": {"bindAddress": "127.0.0.1:0"},
    }
    read["certManagement"] = {"certificateDir": str(certificates)}
    account = await asyncio.to_thread(_account, APP_WRAPPER, kubeconfig)
    # Its webhooks read their certificate in the folder for temporary files, whatever its configuration says.
    variables = [f"TMPDIR={directory}", f"NAMESPACE={APP_WRAPPER.namespace}"]
    command = ["env", *variables, str(real_part("appwrapper")), f"--kubeconfig={account}"]
    file = directory / "appwrapper.yaml"
    manager = Operator(client, APP_WRAPPER, file, f"http://127.0.0.1:{probes}/readyz", read, *command)
    async with _alone(APP_WRAPPER.program), _running(manager, client, APP_WRAPPER, certificates):
        yield manager


@contextlib.asynccontextmanager
async def _alone(name: str) -> AsyncIterator[None]:
    """No other process of this machine is in here meanwhile."""
    with (Path(tempfile.gettempdir()) / f"{name}.lock").open("w") as lock:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        yield


@contextlib.asynccontextmanager
async def _running(operator: Operator, client: KubeClient, release: Release, certificates: Path) -> AsyncIterator[None]:
    async with running(_mounted(client, release, certificates)):
        try:
            await operator.start()
            yield
        finally:
            await operator.stop()


def _installed(release: Release, kubeconfig: Path, folder: Path, port: int) -> JSON:
    """Apply the manifests of a release but its Deployment; returns the configuration in them."""
    (pin,) = (program.pin for program in programs() if program.name == release.program)
    built = _run("kubectl", "kustomize", str(module_folder(*pin, at=folder) / "config" / "default"))
    objects = [_here(obj, release, port) for obj in yaml.safe_load_all(built) if obj["kind"] not in _LEFT_OUT]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": release.namespace}}
    _apply(kubeconfig, [namespace, *(obj for obj in objects if obj["kind"] != "Namespace")])
    (stored,) = (obj for obj in objects if obj["metadata"]["name"] == release.config)
    (text,) = stored["data"].values()
    read: JSON = yaml.safe_load(text)
    return read


def _account(release: Release, kubeconfig: Path) -> Path:
    """An administrator's kubeconfig that acts as the account of an operator: its name is too long for a certificate."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"][0]["user"] |= {
        "as": f"system:serviceaccount:{release.namespace}:{release.account}",
        "as-groups": ["system:authenticated", "system:serviceaccounts", f"system:serviceaccounts:{release.namespace}"],
    }
    path = kubeconfig.with_name(f"{release.account}.kubeconfig")
    path.write_text(yaml.safe_dump(config))
    return path


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _here(obj: JSON, release: Release, port: int) -> JSON:
    """The object with the webhooks' Service at an address of this machine."""
    if obj["kind"] == "Service" and obj["metadata"]["name"].endswith("webhook-service"):
        obj["spec"] |= {"clusterIP": release.address, "ports": [{"port": port, "targetPort": port}]}
        obj["spec"].pop("selector", None)
    clients = [hook["clientConfig"] for hook in obj.get("webhooks") or ()]
    with contextlib.suppress(KeyError, TypeError):
        clients.append(obj["spec"]["conversion"]["webhook"]["clientConfig"])
    for client in clients:
        client["service"]["port"] = port
    return obj


def _apply(kubeconfig: Path, objects: list[JSON]) -> None:
    """Definitions first, and the rest when these are served."""
    command = ("kubectl", f"--kubeconfig={kubeconfig}", "apply", "--server-side", "-f", "-")
    first = [obj for obj in objects if obj["kind"] in ("Namespace", "CustomResourceDefinition")]
    for part in (first, [obj for obj in objects if obj not in first]):
        _run(*command, stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": part}))


def _run(*command: str, stdin: str = "") -> str:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def _mounted(client: KubeClient, release: Release, folder: Path) -> None:
    """Does what a kubelet does with a Secret in a volume: an operator writes its certificate there, and reads it here."""
    while True:
        with contextlib.suppress(ApiError):
            secret = await get_or_none(client, SECRETS, release.certificate, namespace=release.namespace)
            for name, content in ((secret or {}).get("data") or {}).items():
                path, read = folder / name, base64.b64decode(content)
                if not path.exists() or path.read_bytes() != read:
                    path.write_bytes(read)
        await asyncio.sleep(0.2)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.HTTPError):
        return False
