"""Kueue itself beside a real control plane: its manager, webhooks, conversions and rights, as its release installs them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import yaml

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import SECRETS
from app.kube.retry import get_or_none
from tests.real.programs import programs
from tests.support.go_modules import module_folder
from tests.support.ports import lasting_port
from tests.support.processes import Background
from tests.support.real_apiserver import client_kubeconfig
from tests.support.real_parts import real_part
from tests.support.running import running
from tests.support.waiting import eventually

JSON = dict[str, Any]
SERVICES = "127.80.0.0/16"
"""The range of cluster IPs: on loopback, so that an API server of this machine reaches Kueue at that of its Service."""
_ADDRESS = "127.80.0.50"
_NAMESPACE, _ACCOUNT, _CERTIFICATE = "kueue-system", "kueue-controller-manager", "kueue-webhook-server-cert"
_CONFIG = "kueue-manager-config"
_LEFT_OUT = ("Deployment", "APIService")


class Kueue:
    """Its process; `stop` and `start` are a restart, `configuration` what it reads at the next start."""

    def __init__(self, command: list[str], config: Path, configuration: JSON, health: str) -> None:
        self._command, self._config, self._health = command, config, health
        self.configuration = configuration
        self._process: Background | None = None

    async def start(self) -> None:
        """Returns when it is ready."""
        self._config.write_text(yaml.safe_dump(self.configuration))
        self._process = process = await asyncio.to_thread(Background, self._command)
        await eventually(lambda: process.process.poll() is not None or _answers(self._health))
        assert process.process.poll() is None, self.log()

    async def stop(self) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            await asyncio.to_thread(process.stop)

    def log(self) -> str:
        return "".join(self._process.lines)[-6000:] if self._process else ""


@contextlib.asynccontextmanager
async def real_kueue(
    client: KubeClient, kubeconfig: Path, directory: Path, *, integrations: JSON, **configuration: Any
) -> AsyncIterator[Kueue]:
    """Kueue with these integrations, and further fields of its configuration, at the API server of a directory.

    `kubeconfig` is an administrator's of a server whose cluster IPs are `SERVICES`; Kueue has its own account's rights.
    """
    (pin,) = (program.pin for program in programs() if program.name == "kueue")
    folder = await asyncio.to_thread(module_folder, *pin, at=_made(directory / "module"))
    built = await asyncio.to_thread(_run, "kubectl", "kustomize", str(folder / "config" / "default"))
    port, probes = lasting_port(), lasting_port()
    objects = [_here(obj, port) for obj in yaml.safe_load_all(built) if obj["kind"] not in _LEFT_OUT]
    await asyncio.to_thread(_apply, kubeconfig, objects)
    (stored,) = (obj for obj in objects if obj["metadata"]["name"] == _CONFIG)
    read = yaml.safe_load(stored["data"]["controller_manager_config.yaml"])
    certificates = _made(directory / "kueue-certificates")
    read |= {
        "health": {"healthProbeBindAddress": f"127.0.0.1:{probes}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": _ADDRESS, "port": port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "integrations": integrations,
        "featureGates": {"VisibilityOnDemand": False},
        **configuration,
    }
    account = await asyncio.to_thread(_account, kubeconfig)
    config = directory / "kueue.yaml"
    command = [str(real_part("kueue")), f"--config={config}", f"--kubeconfig={account}"]
    async with running(_mounted(client, certificates)):
        kueue = Kueue(command, config, read, f"http://127.0.0.1:{probes}/readyz")
        try:
            await kueue.start()
            yield kueue
        finally:
            await kueue.stop()


def _account(kubeconfig: Path) -> Path:
    """By which Kueue acts as itself."""
    server = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{_NAMESPACE}"]
    user = f"system:serviceaccount:{_NAMESPACE}:{_ACCOUNT}"
    return client_kubeconfig(kubeconfig.parent, user, url=server, groups=groups)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _here(obj: JSON, port: int) -> JSON:
    """The object with the webhooks' Service at an address of this machine."""
    if obj["kind"] == "Service" and obj["metadata"]["name"].endswith("webhook-service"):
        obj["spec"] |= {"clusterIP": _ADDRESS, "ports": [{"port": port, "targetPort": port}]}
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


async def _mounted(client: KubeClient, folder: Path) -> None:
    """Does what a kubelet does with a Secret in a volume: Kueue writes its certificate there, and reads it here."""
    while True:
        with contextlib.suppress(ApiError):
            secret = await get_or_none(client, SECRETS, _CERTIFICATE, namespace=_NAMESPACE)
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
