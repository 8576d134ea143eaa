"""Real kube-apiservers, where their binaries are given."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import kubernetes
import urllib3
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from app.certs.issuing import Issued, issue_authority, issue_client, issue_serving, serving_names
from tests.support.ports import lasting_port
from tests.support.processes import Background
from tests.support.waiting import wait_until

AUDIT_LOG = "audit.log"


@contextlib.contextmanager
def real_api_servers(
    assets: Path,
    directory: Path,
    names: Sequence[str],
    *,
    services: str = "10.0.0.0/24",
    audited: str = "",
    accounts: bool = False,
    arguments: Sequence[str] = (),
) -> Iterator[dict[str, Path]]:
    """One etcd and a kube-apiserver a name, as envtest starts them; yields administrators' kubeconfigs.

    `services` is the range of cluster IPs. Each keeps the requests of the group of users `audited` in `AUDIT_LOG`, beside
    its kubeconfig. With `accounts` each Pod gets the token of its ServiceAccount, which a controller manager has to make.
    `arguments` are more of each API server's.
    """
    port = lasting_port()
    url = f"http://127.0.0.1:{port}"
    etcd = Background(
        [
            str(assets / "etcd"),
            f"--data-dir={directory / 'etcd'}",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            "--listen-peer-urls=http://127.0.0.1:0",
            "--unsafe-no-fsync",
        ]
    )
    try:
        with contextlib.ExitStack() as stack:
            yield {
                name: stack.enter_context(
                    _api_server(
                        assets,
                        directory / name,
                        etcd=url,
                        services=services,
                        audited=audited,
                        accounts=accounts,
                        arguments=arguments,
                    )
                )
                for name in names
            }
    finally:
        etcd.stop()


@contextlib.contextmanager
def _api_server(
    assets: Path,
    directory: Path,
    *,
    etcd: str,
    services: str,
    audited: str,
    accounts: bool,
    arguments: Sequence[str],
) -> Iterator[Path]:
    directory.mkdir()
    port = lasting_port()
    _write_files(directory)
    audit = [f"--audit-policy-file={_policy(directory, audited)}", f"--audit-log-path={directory / AUDIT_LOG}"]
    server = Background(
        [
            str(assets / "kube-apiserver"),
            f"--etcd-servers={etcd}",
            f"--etcd-prefix=/{directory.name}",
            f"--cert-dir={directory / 'apiserver'}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={directory / 'tls.crt'}",
            f"--tls-private-key-file={directory / 'tls.key'}",
            f"--client-ca-file={directory / 'ca.crt'}",
            f"--service-account-issuer=https://127.0.0.1:{port}/",
            f"--service-account-key-file={directory / 'sa.key'}",
            f"--service-account-signing-key-file={directory / 'sa.key'}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            *(() if accounts else ("--disable-admission-plugins=ServiceAccount",)),
            "--allow-privileged=true",
            f"--service-cluster-ip-range={services}",
            *(audit if audited else ()),
            *arguments,
        ]
    )
    kubeconfig = client_kubeconfig(directory, "admin", url=f"https://127.0.0.1:{port}", groups=["system:masters"])
    try:
        client = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(str(kubeconfig)))
        wait_until(lambda: server.process.poll() is not None or _answers(client))
        assert server.process.poll() is None, "".join(server.lines)[-4000:]
        yield kubeconfig
    finally:
        server.stop()


def _write_files(directory: Path) -> None:
    """Its CA, its certificate and keys."""
    now = datetime.now(UTC)
    ca = issue_authority(common_name="e2e", now=now, days=2)
    serving = issue_serving(ca, names=serving_names(addresses=("127.0.0.1",)), now=now, days=1)
    files = {
        "ca.crt": ca.certificate_pem,
        "ca.key": ca.key_pem,
        "tls.crt": serving.certificate_pem,
        "tls.key": serving.key_pem,
        "sa.key": _service_account_key(),
    }
    for name, content in files.items():
        (directory / name).write_bytes(content)


def _policy(directory: Path, group: str) -> Path:
    """That of an audit (`audit.k8s.io/v1`), which keeps the answers to one group."""
    rules = [{"level": "Metadata", "userGroups": [group]}, {"level": "None"}]
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}
    path = directory / "audit.yaml"
    path.write_text(yaml.safe_dump(policy))
    return path


def read_authority(directory: Path) -> Issued:
    """The authority whose client certificates the API server of this directory believes."""
    key = serialization.load_pem_private_key((directory / "ca.key").read_bytes(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return Issued(x509.load_pem_x509_certificate((directory / "ca.crt").read_bytes()), key)


def client_kubeconfig(directory: Path, user: str, *, url: str, groups: Sequence[str] = ()) -> Path:
    """The file by which one acts as this user at the API server of this directory, which listens at `url`."""
    pair = issue_client(
        read_authority(directory), common_name=user, organizations=list(groups), now=datetime.now(UTC), days=1
    )
    name = user.replace(":", "-")
    files = {f"{name}.crt": pair.certificate_pem, f"{name}.key": pair.key_pem}
    for file, content in files.items():
        (directory / file).write_bytes(content)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "e2e",
        "clusters": [{"name": "e2e", "cluster": {"server": url, "certificate-authority": str(directory / "ca.crt")}}],
        "users": [
            {
                "name": "admin",
                "user": {
                    "client-certificate": str(directory / f"{name}.crt"),
                    "client-key": str(directory / f"{name}.key"),
                },
            }
        ],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "admin"}}],
    }
    path = directory / f"{name}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def _service_account_key() -> bytes:
    """kube-apiserver wants an RSA key in its traditional form here."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _answers(client: kubernetes.client.CoreV1Api) -> bool:
    try:
        client.read_namespace("default")
    except (kubernetes.client.exceptions.ApiException, urllib3.exceptions.HTTPError):
        return False
    return True
