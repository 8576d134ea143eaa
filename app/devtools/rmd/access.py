"""Who may call the daemon over TLS: clients whose certificate it has on its lists, compared by signature."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass

from cryptography import x509
from cryptography.x509.oid import NameOID

from app.devtools.rmd.routing import Answer, text
from app.devtools.sandbox.pki import Pair, server_context

_CIPHERS = "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384"
_READABLE = re.compile("/v1/(cache|policy|workloads|hospitality)(/.*)?")
_ROLE = "Cert Client User"


@dataclass(frozen=True, slots=True)
class Tls:
    """The daemon's TLS: its certificate, the CA of its clients (PEM), and the certificates (PEM) that it lets in.

    `admins` may do all, `users` may read. The handshake fails without a certificate of the CA; it is TLS 1.2 at most,
    with the two cipher suites of the daemon. TLS 1.0 and 1.1, which the daemon takes, are not offered.
    """

    pair: Pair
    client_authority: bytes
    admins: tuple[bytes, ...] = ()
    users: tuple[bytes, ...] = ()

    def context(self) -> ssl.SSLContext:
        """The server's side of TLS."""
        context = server_context(self.pair, self.client_authority)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        context.set_ciphers(_CIPHERS)
        return context

    def refusal(self, certificate: bytes, method: str, path: str) -> Answer | None:
        """The answer to a client (DER) who may not do this; None: it may."""
        client = x509.load_der_x509_certificate(certificate)
        if client.signature in _signatures(self.admins):
            return None
        if client.signature in _signatures(self.users):
            if method == "GET" and _READABLE.fullmatch(path):
                return None
            return text(403, f'User "{_ROLE}" is not authorized to access this resource\n')
        names = client.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return text(401, f"{str(names[0].value) if names else ''} is not authorized")


def _signatures(certificates: tuple[bytes, ...]) -> set[bytes]:
    return {x509.load_pem_x509_certificate(one).signature for one in certificates}
