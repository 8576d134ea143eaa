"""Operators of other projects beside a real control plane, as their releases install them: Kueue, AppWrapper's manager,
those of the kinds that AppWrappers hold, and KWOK."""

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
from tests.support.real_releases import APP_WRAPPER, JOB_SET, KUBE_RAY, KUEUE, KWOK, TRAINING_OPERATOR, Release
from tests.support.running import running
from tests.support.waiting import eventually

JSON = dict[str, Any]
SERVICES = "127.80.0.0/16"
"""The range of cluster IPs: on loopback, so that an API server of this machine reaches a webhook at its Service's."""
_LEFT_OUT = ("Deployment", "APIService")
_APP_WRAPPER_PORT = 9443
"""Where its webhooks listen, whatever its configuration says: one manager runs at a time on a machine."""
_MOUNTED = Path("/tmp/k8s-webhook-server/serving-certs")
"""Where JobSet's and Kubeflow's operators wait for the file of a certificate, whichever they serve."""


class Operator:
    """Its process; `stop` and `start` are a restart, `configuration` what it reads at the next start."""

    def __init__(self, client: KubeClient, place: _Place, configuration: JSON, *flags: str) -> None:
        self._client, self._place = client, place
        self._command = [
            "env",
            f"TMPDIR={place.folder}",  # where some have the certificate of their webhooks, whatever they are told
            f"NAMESPACE={place.release.namespace}",
            str(real_part(place.release.program)),
            f"--kubeconfig={place.account}",
            *flags,
        ]
        self.configuration = configuration
        self._process: Background | None = None

    async def start(self) -> None:
        """Returns when it is ready."""
        if self._place.release.config:
            await self._configure()
        started = await self._starts()
        if not started and self._place.release.certificate:
            # It makes its own certificate, and ends where that is not mounted yet. A kubelet starts it again.
            await self.stop()
            await eventually((self._place.certificates / "tls.crt").exists)
            started = await self._starts()
        assert started, self.log()

    async def _starts(self) -> bool:
        """Whether it has become ready; it may have ended instead."""
        self._process = process = await asyncio.to_thread(Background, self._command)
        health = f"http://{self._place.health}/readyz"
        await eventually(lambda: process.process.poll() is not None or _answers(health))
        return process.process.poll() is None

    async def _configure(self) -> None:
        """Keep the configuration in the ConfigMap of the release, and in a file, as where a Pod has it as a volume."""
        text = yaml.safe_dump(self.configuration)
        self._place.file.write_text(text)
        name, namespace = self._place.release.config, self._place.release.namespace
        (key,) = (await self._client.get(CONFIG_MAPS, name, namespace=namespace))["data"]
        change = {"data": {key: text}}
        await self._client.patch(CONFIG_MAPS, name, change, patch_type="merge", namespace=namespace)

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


class _Place:
    """Where a release is installed: a folder for its files, and addresses of this machine."""

    def __init__(self, release: Release, kubeconfig: Path, directory: Path, *, port: int | None = None) -> None:
        """Installs it. `kubeconfig` is an administrator's of a server whose cluster IPs are `SERVICES`."""
        self.release = release
        self.folder = _made(directory / release.program)
        self.file = self.folder / "config.yaml"
        self.certificates = _made(self.folder / "k8s-webhook-server" / "serving-certs")
        self.port = port or lasting_port()
        self.health = f"127.0.0.1:{lasting_port()}"
        self.account = _account(release, kubeconfig)
        self.configuration = _installed(release, kubeconfig, _made(self.folder / "module"), self.port)
        """That of its manifests."""

    @property
    def addresses(self) -> JSON:
        """As the configurations of operators with Kubernetes' own form have them; one replica, which leads."""
        return {
            "health": {"healthProbeBindAddress": self.health},
            "webhook": {"host": self.release.address, "port": self.port, "certDir": str(self.certificates)},
            "leaderElection": {"leaderElect": False},
        }

    @contextlib.asynccontextmanager
    async def running(self, client: KubeClient, *flags: str, **configuration: Any) -> AsyncIterator[Operator]:
        """The operator with these flags, and fields of its configuration in place of those in its manifests."""
        operator = Operator(client, self, self.configuration | configuration, *flags)
        async with running(_mounted(client, self.release, self.certificates)):
            try:
                await operator.start()
                yield operator
            finally:
                await operator.stop()


@contextlib.asynccontextmanager
async def real_kueue(
    client: KubeClient, kubeconfig: Path, directory: Path, *, integrations: JSON, **configuration: Any
) -> AsyncIterator[Operator]:
    """Kueue with these integrations, and further fields of its configuration, at the API server of a directory.

    `kubeconfig` is an administrator's of a server whose cluster IPs are `SERVICES`; Kueue has its own account's rights,
    and so have the operators below.
    """
    place = await asyncio.to_thread(_Place, KUEUE, kubeconfig, directory)
    configuration = {
        **place.addresses,
        "metrics": {"bindAddress": "0"},
        "integrations": integrations,
        "featureGates": {"VisibilityOnDemand": False},
        **configuration,
    }
    async with place.running(client, f"--config={place.file}", **configuration) as kueue:
        yield kueue


@contextlib.asynccontextmanager
async def real_app_wrapper(client: KubeClient, kubeconfig: Path, directory: Path) -> AsyncIterator[Operator]:
    """AppWrapper's manager with its webhooks."""
    place = await asyncio.to_thread(_Place, APP_WRAPPER, kubeconfig, directory, port=_APP_WRAPPER_PORT)
    configuration = {
        "controllerManager": {"health": {"bindAddress": place.health}, "metrics": {"bindAddress": "127.0.0.1:0"}},
        "certManagement": {"certificateDir": str(place.certificates)},
    }
    async with _alone(APP_WRAPPER.program), place.running(client, **configuration) as manager:
        yield manager


@contextlib.asynccontextmanager
async def real_job_set(client: KubeClient, kubeconfig: Path, directory: Path) -> AsyncIterator[Operator]:
    """JobSet's operator with its webhooks."""
    _mount()
    place = await asyncio.to_thread(_Place, JOB_SET, kubeconfig, directory)
    configuration = place.addresses | {"metrics": {"bindAddress": "127.0.0.1:0"}}
    async with place.running(client, f"--config={place.file}", **configuration) as operator:
        yield operator


@contextlib.asynccontextmanager
async def real_training_operator(client: KubeClient, kubeconfig: Path, directory: Path) -> AsyncIterator[Operator]:
    """Kubeflow's training operator with its webhooks."""
    _mount()
    place = await asyncio.to_thread(_Place, TRAINING_OPERATOR, kubeconfig, directory)
    ports = (f"--webhook-server-port={place.port}", f"--health-probe-bind-address={place.health}")
    async with place.running(client, "--metrics-bind-address=0", *ports) as operator:
        yield operator


@contextlib.asynccontextmanager
async def real_kube_ray(client: KubeClient, kubeconfig: Path, directory: Path) -> AsyncIterator[Operator]:
    """KubeRay's operator, which has no webhooks."""
    place = await asyncio.to_thread(_Place, KUBE_RAY, kubeconfig, directory)
    flags = ("--enable-leader-election=false", "--metrics-addr=0", f"--health-probe-bind-address={place.health}")
    async with place.running(client, *flags) as operator:
        yield operator


@contextlib.asynccontextmanager
async def real_kwok(client: KubeClient, kubeconfig: Path, directory: Path) -> AsyncIterator[Operator]:
    """KWOK's controller in place of the kubelets of all nodes, with the stages of its release that take no time.

    Pods run as soon as they have a node, and those of Jobs succeed then.
    """
    place = await asyncio.to_thread(_Place, KWOK, kubeconfig, directory)
    stages = await asyncio.to_thread(_built, KWOK, place.folder / "module", "kustomize/stage/fast")
    await asyncio.to_thread(place.file.write_text, stages)
    # Each node renews its Lease once in a quarter of this. Nobody here looks at them, and hundreds would write many.
    flags = ("--manage-all-nodes", f"--server-address={place.health}", "--node-lease-duration-seconds=240")
    async with place.running(client, f"--config={place.file}", *flags) as operator:
        yield operator


def _mount() -> None:
    """The file stays: an operator that another test runs may look for it."""
    (_made(_MOUNTED) / "tls.crt").touch()


@contextlib.asynccontextmanager
async def _alone(name: str) -> AsyncIterator[None]:
    """No other process of this machine is in here meanwhile."""
    with (Path(tempfile.gettempdir()) / f"{name}.lock").open("w") as lock:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        yield


def _installed(release: Release, kubeconfig: Path, folder: Path, port: int) -> JSON:
    """Apply the manifests of a release but its Deployment; returns the configuration in them, where there is one."""
    built = yaml.safe_load_all(_built(release, folder, release.manifests))
    objects = [_here(obj, release, port) for obj in built if obj["kind"] not in _LEFT_OUT]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": release.namespace}}
    _apply(kubeconfig, [namespace, *(obj for obj in objects if obj["kind"] != "Namespace")])
    if not release.config:
        return {}
    (stored,) = (obj for obj in objects if obj["metadata"]["name"] == release.config)
    (text,) = stored["data"].values()
    read: JSON = yaml.safe_load(text)
    return read


def _built(release: Release, folder: Path, manifests: str) -> str:
    """What is built of a folder of the release's module."""
    (pin,) = (program.pin for program in programs() if program.name == release.program)
    return _run("kubectl", "kustomize", str(module_folder(*pin, at=folder) / manifests))


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
    if obj["kind"] == "Service" and obj["metadata"]["name"] == release.service:
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
    while release.certificate:
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
