"""What a run needs around it, in a temporary directory: a certificate, attachments as manifests, a kubeconfig."""

from __future__ import annotations

import ipaddress
import json
import socket
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

RESOURCES = {"foo-network": "example.com/foo", "bar-network": "example.com/bar"}
"""The resource that each attachment of namespace `default` names."""

_CONFIG = {"cniVersion": "0.3.1", "type": "bridge", "bridge": "br0", "isGateway": True}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Paths below one temporary directory."""

    directory: Path

    @property
    def certificate(self) -> Path:
        return self.directory / "tls.crt"

    @property
    def key(self) -> Path:
        return self.directory / "tls.key"

    @property
    def manifests(self) -> Path:
        return self.directory / "manifests"

    @classmethod
    def prepare(cls, directory: Path) -> Surroundings:
        made = cls(directory)
        made._make_certificate()
        made.manifests.mkdir()
        for name, resource in RESOURCES.items():
            # JSON is YAML; one object a file, as one would keep them.
            (made.manifests / f"{name}.yaml").write_text(json.dumps(attachment("default", name, resource)))
        return made

    def kubeconfig(self, port: int) -> Path:
        """A kubeconfig for a plain API server on that port of the loopback interface."""
        path = self.directory / f"kubeconfig-{port}"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "bench",
            "clusters": [{"name": "bench", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "bench", "user": {}}],
            "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        }
        path.write_text(json.dumps(content))
        return path

    def _make_certificate(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))]
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        self.key.touch(mode=0o600)
        self.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )


def attachment(namespace: str, name: str, resource: str, *, version: int = 1) -> dict[str, object]:
    """A NetworkAttachmentDefinition as an API server serves it."""
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "resourceVersion": str(version),
            "annotations": {"k8s.v1.cni.cncf.io/resourceName": resource},
        },
        "spec": {"config": json.dumps({"name": name, **_CONFIG})},
    }


def free_port() -> int:
    """A TCP port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
