"""A certificate and its private key as PEM files, checked against each other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate chain and its key as read from disk."""

    certificate: bytes
    key: bytes
    leaf: x509.Certificate

    @classmethod
    def read(cls, cert_file: Path, key_file: Path) -> Pair:
        """Raises ValueError or OSError, with the file in the text, where the pair cannot serve."""
        certificate, key = cert_file.read_bytes(), key_file.read_bytes()
        leaf = read_certificates(certificate, source=cert_file)[0]
        try:
            private = load_pem_private_key(key, password=None)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{key_file}: no PEM private key without a passphrase: {error}") from error
        if not belongs(private, leaf):
            raise ValueError(f"{key_file} is not the key of {cert_file}")
        return cls(certificate, key, leaf)

    def equals(self, cert_file: Path, key_file: Path) -> bool:
        """Whether it is what the files hold; reading a key takes far longer. Raises OSError."""
        return (cert_file.read_bytes(), key_file.read_bytes()) == (self.certificate, self.key)


def belongs(key: PrivateKeyTypes, certificate: x509.Certificate) -> bool:
    """Whether the certificate is of this key."""
    return key.public_key() == certificate.public_key()


def read_certificates(pem: bytes, *, source: Path) -> list[x509.Certificate]:
    """At least one. Raises ValueError, with the source in the text."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise ValueError(f"{source}: no PEM certificate: {error}") from error
