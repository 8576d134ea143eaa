"""The gateway's side of TLS: a certificate and client authorities that follow their files while it runs.

Every handshake gets what the files hold then; connections that are open keep theirs. Files that cannot serve are
never taken: the old ones stay in service and `problem()` says why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import grpc
import structlog
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from app.errors import UsageError
from app.tenancy.gateway.identity import independent_authorities
from app.tenancy.gateway.options import TlsFiles

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Content:
    certificate: bytes
    key: bytes
    client_ca: bytes
    admin_ca: bytes | None

    @classmethod
    def read(cls, files: TlsFiles) -> _Content:
        """Raises OSError or ValueError, with the file in the text."""
        content = cls(
            certificate=files.certificate.read_bytes(),
            key=files.key.read_bytes(),
            client_ca=files.client_ca.read_bytes(),
            admin_ca=files.admin_ca.read_bytes() if files.admin_ca is not None else None,
        )
        found = (
            (files.certificate, content.certificate),
            (files.client_ca, content.client_ca),
            (files.admin_ca, content.admin_ca),
        )
        for path, pem in found:
            if pem is None:
                continue
            try:
                x509.load_pem_x509_certificates(pem)
            except ValueError as error:
                raise ValueError(f"{path}: no PEM certificate: {error}") from error
        try:
            private = load_pem_private_key(content.key, password=None)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{files.key}: no PEM private key without a passphrase") from error
        form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        if private.public_key().public_bytes(*form) != content.leaf.public_key().public_bytes(*form):
            raise ValueError(f"{files.key} is not the key of {files.certificate}")
        return content

    @property
    def leaf(self) -> x509.Certificate:
        return x509.load_pem_x509_certificates(self.certificate)[0]

    @property
    def configuration(self) -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration([(self.key, self.certificate)], self.client_ca)


class ServingCredentials:
    """Raises `UsageError` where the files cannot serve at the start."""

    def __init__(self, files: TlsFiles, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._files = files
        self._now = now
        self._problem = ""
        try:
            self._served = self._latest = _Content.read(files)
        except (OSError, ValueError) as error:
            raise UsageError(f"gateway TLS: {_text(error)}") from error
        served = self._served
        if files.admin_ca is None:
            count = independent_authorities(served.client_ca, links=served.certificate)
            if count > 1:
                log.warning("each of several authorities can name itself the cloud admin", authorities=count)
        self.credentials: grpc.ServerCredentials = grpc.dynamic_ssl_server_credentials(
            self._served.configuration,
            self._fetch,  # type: ignore[arg-type]  # None is "no change", which the stubs leave out
            require_client_authentication=True,
        )

    @property
    def admin_ca(self) -> bytes | None:
        """Who may speak for the cloud admin (PEM), as of the last look; None where the name alone decides."""
        return self._latest.admin_ca

    @property
    def not_after(self) -> datetime:
        """When the certificate ends that the next handshake meets."""
        return self._latest.leaf.not_valid_after_utc

    def look(self) -> _Content | None:
        """Read the files; None, and a problem, where they cannot serve."""
        try:
            found = _Content.read(self._files)
        except (OSError, ValueError) as error:
            text = _text(error)
            if self._problem != text:
                log.warning("certificate on disk cannot be served; the old one stays", problem=text)
            self._problem = text
            return None
        self._problem = ""
        self._latest = found
        return found

    def problem(self) -> str:
        """Why readiness must be false; "" while the certificate that is served is sound."""
        if self._problem:
            return self._problem
        leaf, now = self._latest.leaf, self._now()
        if not leaf.not_valid_before_utc <= now < leaf.not_valid_after_utc:
            return f"certificate {self._files.certificate} is not valid at this time"
        return ""

    def _fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """For each handshake, on a thread of gRPC's; None leaves what is served."""
        found = self.look()
        if found is None or found == self._served:
            return None
        self._served = found
        log.info("certificate reloaded", not_after=f"{found.leaf.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}")
        return found.configuration


def _text(error: Exception) -> str:
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
