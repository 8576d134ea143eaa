"""Pairs of certificate and key that are served, and those that cannot be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from app.serving.tls import Pair

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
NAME = x509.Name(
    [x509.NameAttribute(NameOID.COMMON_NAME, "a" * 60), x509.NameAttribute(NameOID.ORGANIZATION_NAME, "b" * 60)]
)


def elliptic() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def certificate(key: Key, begin: datetime, end: datetime) -> bytes:
    made = x509.CertificateBuilder(NAME, NAME, key.public_key(), x509.random_serial_number(), begin, end)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def pem_of(key: Key, passphrase: bytes = b"") -> bytes:
    how = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)


NOW = datetime(2026, 11, 29, 12, 30, 15, tzinfo=UTC)
PARSED = {"cert_file": "tls.crt", "key_file": "tls.key"}


@pytest.mark.parametrize("content", [b"", b"text", b"-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----\n"])
def test_no_certificate(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"^tls\.crt: no PEM certificate: "):
        Pair.parse(content, pem_of(elliptic()), **PARSED)


def test_a_chain_with_a_broken_certificate() -> None:
    key = elliptic()
    whole = certificate(key, NOW, NOW + timedelta(days=1))
    with pytest.raises(ValueError, match=r"^tls\.crt: no PEM certificate: "):
        Pair.parse(whole + whole.replace(b"MII", b"AAA"), pem_of(key), **PARSED)


@pytest.mark.parametrize("other", [elliptic(), rsa.generate_private_key(65537, 2048)], ids=["EC", "RSA"])
def test_the_key_of_another_certificate(other: Key) -> None:
    with pytest.raises(ValueError, match=r"^tls\.key is not the key of tls\.crt$"):
        Pair.parse(certificate(elliptic(), NOW, NOW + timedelta(days=1)), pem_of(other), **PARSED)


@pytest.mark.parametrize("content", [b"", b"text", pem_of(elliptic(), b"secret")], ids=["empty", "text", "encrypted"])
def test_no_key_that_can_be_read(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"^tls\.key: no PEM private key without a passphrase: ") as caught:
        Pair.parse(certificate(elliptic(), NOW, NOW + timedelta(days=1)), content, **PARSED)
    assert ("is encrypted" in str(caught.value)) == (b"ENCRYPTED" in content)
