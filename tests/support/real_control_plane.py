"""A real kube-scheduler and kube-controller-manager beside a real kube-apiserver, where their binaries are given."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path

import urllib3
import yaml

from tests.support.ports import lasting_port
from tests.support.processes import Background
from tests.support.real_apiserver import client_kubeconfig
from tests.support.waiting import wait_until

SCHEDULER, CONTROLLER_MANAGER = "kube-scheduler", "kube-controller-manager"
_NEEDED = ("/readyz", "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")


def has_control_plane(assets: str) -> bool:
    """Whether the folder holds all programs; envtest's has those of the API server alone."""
    programs = ("etcd", "kube-apiserver", SCHEDULER, CONTROLLER_MANAGER)
    return bool(assets) and all((Path(assets) / one).exists() for one in programs)


@contextlib.contextmanager
def real_control_plane(assets: Path, directory: Path, *, heartbeats: bool = False) -> Iterator[None]:
    """Runs both for the API server of this directory (`real_api_servers`), and yields when they are healthy.

    Nodes that report nothing stay as they are, where no `heartbeats` are looked at: stand-ins have none.
    """
    wait_until(lambda: _lets_in(directory))
    more = [
        "--controllers=*" if heartbeats else "--controllers=*,-node-lifecycle-controller",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={directory / 'sa.key'}",
        f"--root-ca-file={directory / 'ca.crt'}",
        # By default 20 requests a second for each controller, which makes a thousand Pods in a minute.
        "--kube-api-qps=200",
        "--kube-api-burst=200",
    ]
    with (
        _program(assets / SCHEDULER, directory, []),
        _program(assets / CONTROLLER_MANAGER, directory, more),
    ):
        yield


def _lets_in(directory: Path) -> bool:
    """Whether the API server has its roles, and says whose certificates it believes: both programs end without these."""
    context = ssl.create_default_context(cafile=str(directory / "ca.crt"))
    context.load_cert_chain(directory / "admin.crt", directory / "admin.key")
    with urllib3.PoolManager(ssl_context=context, retries=False) as pool:
        return all(pool.request("GET", _server(directory) + path).status == 200 for path in _NEEDED)


def _server(directory: Path) -> str:
    config = yaml.safe_load((directory / "admin.kubeconfig").read_text())
    return str(config["clusters"][0]["cluster"]["server"])


@contextlib.contextmanager
def _program(path: Path, directory: Path, arguments: list[str]) -> Iterator[None]:
    kubeconfig = client_kubeconfig(directory, f"system:{path.name}", url=_server(directory))
    port = lasting_port()
    program = Background(
        [
            str(path),
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={directory / 'tls.crt'}",
            f"--tls-private-key-file={directory / 'tls.key'}",
            "--leader-elect=false",
            *arguments,
        ]
    )
    try:
        context = ssl.create_default_context(cafile=str(directory / "ca.crt"))
        with urllib3.PoolManager(ssl_context=context, retries=False) as pool:
            wait_until(lambda: program.process.poll() is not None or _is_healthy(pool, port))
        assert program.process.poll() is None, "".join(program.lines)[-4000:]
        yield
    finally:
        program.stop()


def _is_healthy(pool: urllib3.PoolManager, port: int) -> bool:
    try:
        return pool.request("GET", f"https://127.0.0.1:{port}/healthz").status == 200
    except urllib3.exceptions.HTTPError:
        return False
