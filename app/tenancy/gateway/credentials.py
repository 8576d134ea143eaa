"""The gateway's side of TLS: a certificate and client authorities that follow their files while it runs.

Every handshake gets what the files hold then; connections that are open keep theirs. Files that cannot serve are
never taken: the old ones stay in service and `problem()` says why.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import structlog

from app.errors import UsageError
from app.serving.tls import ServingCertificate, fault, read_certificates
from app.serving.tls_options import server_context
from app.tenancy.gateway.identity import independent_authorities
from app.tenancy.gateway.settings import GatewaySettings

log = structlog.get_logger(__name__)


class ServingCredentials(ServingCertificate):
    """Raises `UsageError` where the files cannot serve at the start.

    `admin_ca` says who may speak for the cloud admin (PEM), as of the last look; None where the name alone decides.
    """

    def __init__(self, settings: GatewaySettings) -> None:
        self._admin_file, self._admin_problem = settings.admin_ca, ""
        try:
            super().__init__(
                settings.tls_cert_file,
                settings.tls_private_key_file,
                new_context=_context,
                client_cas=[settings.client_ca],
                at_each_handshake=True,
            )
            self.admin_ca = _authorities(settings.admin_ca)
        except UsageError as error:
            raise UsageError(f"gateway {error}") from error
        except (OSError, ValueError) as error:
            raise UsageError(f"gateway TLS: {fault(error)}") from error
        if settings.admin_ca is None:
            authorities, links = (Path(file).read_bytes() for file in (settings.client_ca, settings.tls_cert_file))
            count = independent_authorities(authorities, links=links)
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


def _authorities(file: str | None) -> bytes | None:
    """The PEM of these authorities. Raises OSError or ValueError, with the file in the text."""
    if file is None:
        return None
    pem = Path(file).read_bytes()
    read_certificates(pem, source=Path(file))
    return pem
