"""The agent's certificate, key and trusted CA as they lie on disk, read as a whole and checked against each other."""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from app.serving.pair import Pair, read_certificates
from app.tenancy.agent.options import AgentOptions


@dataclass(frozen=True, slots=True)
class Material:
    """PEM texts of one moment; two that are equal make the same channel."""

    ca: bytes
    certificate: bytes
    key: bytes

    @classmethod
    def read(cls, options: AgentOptions) -> Material:
        """Raises OSError or ValueError, with the file in the text, where no channel can be made of the files.

        So it does in the middle of a rotation; the next look finds a certificate and its key.
        """
        ca = options.ca_file.read_bytes()
        read_certificates(ca, source=options.ca_file)
        pair = Pair.read(options.cert_file, options.key_file)
        return cls(ca, pair.certificate, pair.key)

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(self.ca, self.key, self.certificate)
