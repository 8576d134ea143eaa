"""PEM bundles of CA certificates: what a client trusts while an old CA and its successor overlap.

Pure: bytes in, bytes out. A bundle holds each certificate once, newest trust first, and none that has expired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from app.certs.issuing import encode_certificate
from app.errors import UsageError

MOST = 16
"""CAs that a bundle remembers: it is part of an object that has an end, and each is one more that may be stolen."""
Keeps = Callable[[x509.Certificate], bool]
"""Whether a CA that is trusted already stays trusted. Without such a function every one stays."""
_BEGIN = b"-----BEGIN CERTIFICATE-----"


def parse_bundle(pem: bytes, *, source: str) -> list[x509.Certificate]:
    """The certificates of `pem`, in order; [] for a text without any. Raises UsageError for a broken one."""
    if _BEGIN not in pem:
        return []
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise UsageError(f"{source}: a certificate in it cannot be read: {error}") from error


def overlap(
    current: Iterable[x509.Certificate], earlier: Iterable[x509.Certificate], *, now: datetime
) -> list[x509.Certificate]:
    """`current` and then what of `earlier` has not expired, each certificate once and `MOST` in all.

    A current certificate stays even where it has expired: dropping it would leave nothing that explains the failure.
    """
    kept = {fingerprint(certificate): certificate for certificate in current}
    for certificate in earlier:
        if len(kept) < MOST and certificate.not_valid_after_utc > now:
            kept.setdefault(fingerprint(certificate), certificate)
    return list(kept.values())


def encode_bundle(certificates: Iterable[x509.Certificate]) -> bytes:
    return b"".join(encode_certificate(certificate) for certificate in certificates)


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256, lower-case hexadecimal without separators."""
    return certificate.fingerprint(hashes.SHA256()).hex()
