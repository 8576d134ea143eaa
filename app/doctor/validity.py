"""Reads certificates out of objects, and says until when, for which name and by whose signature each is valid. Pure."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import datetime

from cryptography import x509

from app.certs.certificate_set import parse_bundle, renewal_due
from app.certs.issuing import names_of, signed_by
from app.errors import UsageError
from app.text import stamp

_GRACE = 12
"""A renewal counts as overdue a twelfth of the lifetime after it was due."""
_LONGEST_PATH = 4


def read(text: object, *, source: str) -> tuple[list[x509.Certificate], str]:
    """The certificates in a value of an object, which is base64 of PEM, and why they cannot be read, or "".

    What is no base64 has none; API servers do not store it.
    """
    try:
        return parse_bundle(base64.b64decode(str(text), validate=True), source=source), ""
    except ValueError:
        return [], ""
    except UsageError as broken:
        return [], str(broken)


def trusts(roots: Sequence[x509.Certificate], leaf: x509.Certificate, chain: Sequence[x509.Certificate]) -> bool:
    """Whether signatures lead from the leaf to one of `roots`, over what is sent after it; dates are not looked at."""
    at = [leaf]
    for _ in range(_LONGEST_PATH):
        if any(signed_by(one, root) for one in at for root in roots):
            return True
        at = [link for link in chain if any(signed_by(one, link) for one in at)]
    return leaf in roots


def begin(certificate: x509.Certificate) -> str:
    return stamp(certificate.not_valid_before_utc)


def end(certificate: x509.Certificate) -> str:
    return stamp(certificate.not_valid_after_utc)


def has_ended(certificate: x509.Certificate, now: datetime) -> bool:
    return now >= certificate.not_valid_after_utc


def is_overdue(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether it should have been renewed by now."""
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return now > renewal_due(certificate) + life / _GRACE


def expiry(certificate: x509.Certificate, now: datetime) -> str:
    """That it has expired, or should have been renewed; "" where neither is so."""
    if has_ended(certificate, now):
        return f"expired on {end(certificate)}"
    if is_overdue(certificate, now):
        return f"expires on {end(certificate)}; its renewal was due on {stamp(renewal_due(certificate))}"
    return ""


def misnamed(certificate: x509.Certificate, name: str) -> str:
    """That it is not for this name; "" where it is, or has a wildcard for it."""
    names = names_of(certificate)
    if name in names or f"*.{name.partition('.')[2]}" in names:
        return ""
    return f"is for {', '.join(names) or 'no name'}, not for {name}"
