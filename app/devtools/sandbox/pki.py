"""A certificate authority of the sandbox's own, its serving certificates and its client identities.

Keys live in memory; what a TLS context needs as files is written to a private temporary folder and removed at once.
"""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Iterable

_LIFETIME = timedelta(days=365)
_SKEW = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """One CA; what it signs is valid for a year."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        self._certificate = (
            _builder(subject, subject, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> bytes:
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def serving(self, names: Iterable[str]) -> Pair:
        """A server certificate for DNS names and IP addresses."""
        alternatives = [_alternative(name) for name in names]
        return self._issue(
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sandbox")]),
            ExtendedKeyUsageOID.SERVER_AUTH,
            x509.SubjectAlternativeName(alternatives),
        )

    def client(self, user: str, groups: Iterable[str]) -> Pair:
        """A client certificate: the user in CN, its groups in O."""
        names = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
        names += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        return self._issue(x509.Name(names), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(
        self, subject: x509.Name, purpose: x509.ObjectIdentifier, alternatives: x509.SubjectAlternativeName | None
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(subject, self._certificate.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Pair(certificate.public_bytes(serialization.Encoding.PEM), private)


def server_context(pair: Pair, client_authority: bytes) -> ssl.SSLContext:
    """TLS for a server that asks for client certificates but also takes clients without one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=client_authority.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["http/1.1"])
    context.num_tickets = 0  # no client of Kubernetes resumes a session, and a ticket is a sixth of a handshake
    with tempfile.TemporaryDirectory(prefix="berth-sandbox-") as folder:  # mode 0700
        certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)
        context.load_cert_chain(certificate, key)
    return context


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFETIME)
    )


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
