"""The agent's certificate, key and trusted CA as they lie on disk, read as a whole and checked against each other."""

from __future__ import annotations

from dataclasses import dataclass

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from app.tenancy.agent.options import AgentOptions


@dataclass(frozen=True, slots=True)
class Material:
    """PEM texts of one moment; two that are equal make the same channel."""

    ca: bytes
    certificate: bytes
    key: bytes

    @classmethod
    def read(cls, options: AgentOptions) -> Material:
        """Raises OSError or ValueError, with the file in the text, where no channel can be made of the files."""
        found = cls(options.ca_file.read_bytes(), options.cert_file.read_bytes(), options.key_file.read_bytes())
        _load(found.ca, source=str(options.ca_file))
        leaf = _load(found.certificate, source=str(options.cert_file))
        try:
            private = load_pem_private_key(found.key, password=None)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{options.key_file}: no PEM private key without a passphrase") from error
        form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        if private.public_key().public_bytes(*form) != leaf.public_key().public_bytes(*form):
            # A rotation that was met halfway; the next look finds both.
            raise ValueError(f"{options.key_file} is not the key of {options.cert_file}")
        return found

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(self.ca, self.key, self.certificate)


def _load(pem: bytes, *, source: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificates(pem)[0]
    except ValueError as error:
        raise ValueError(f"{source}: no PEM certificate: {error}") from error
