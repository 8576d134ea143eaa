"""The gateway's side of TLS: a certificate and client authorities that follow their files while it runs.

Every handshake gets what the files hold then; connections that are open keep theirs. Files that cannot serve are
never taken: the old ones stay in service and `problem()` says why.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import structlog

from app.errors import UsageError
from app.serving.pair import read_certificates
from app.serving.tls import ServingCertificate, fault
from app.serving.tls_options import server_context
from app.tenancy.gateway.identity import independent_authorities
from app.tenancy.gateway.options import TlsFiles

log = structlog.get_logger(__name__)


class ServingCredentials(ServingCertificate):
    """Raises `UsageError` where the files cannot serve at the start.

    `admin_ca` says who may speak for the cloud admin (PEM), as of the last look; None where the name alone decides.
    """

    def __init__(self, files: TlsFiles, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._admin_file, self._admin_problem = files.admin_ca, ""
        try:
            super().__init__(
                str(files.certificate),
                str(files.key),
                new_context=_context,
                client_cas=[str(files.client_ca)],
                at_each_handshake=True,
                now=now,
            )
            self.admin_ca = _authorities(files.admin_ca)
        except UsageError as error:
            raise UsageError(f"gateway {error}") from error
        except (OSError, ValueError) as error:
            raise UsageError(f"gateway TLS: {fault(error)}") from error
        if files.admin_ca is None:
            count = independent_authorities(files.client_ca.read_bytes(), links=files.certificate.read_bytes())
            if count > 1:
                log.warning("each of several authorities can name itself the cloud admin", authorities=count)

    def look(self) -> None:
        """Look at the files; where they cannot serve, the old ones stay, and there is a problem."""
        super().look()
        try:
            self.admin_ca, self._admin_problem = _authorities(self._admin_file), ""
        except (OSError, ValueError) as error:
            self._admin_problem = fault(error)

    def problem(self) -> str:
        """Why readiness must be false; "" while the certificate that is served is sound."""
        return super().problem() or self._admin_problem


def _context() -> ssl.SSLContext:
    context, _ = server_context(require_client_certificate=True, protocol="h2")
    # An intermediate authority in the file is trusted by itself, as Go and gRPC do.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _authorities(path: Path | None) -> bytes | None:
    """The PEM of these authorities. Raises OSError or ValueError, with the file in the text."""
    if path is None:
        return None
    pem = path.read_bytes()
    read_certificates(pem, source=path)
    return pem
