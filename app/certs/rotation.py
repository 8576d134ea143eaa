"""Computes the next set of certificates for a webhook: the present set while it is good enough, else its successor.

Pure (`now` is passed in). Every present set (complete, due, damaged, or another program's) has a successor, which keeps
as much of the present trust as possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from app.certs.bundles import parse_bundle
from app.certs.certificate_set import AUTHORITY, AUTHORITY_DAYS, BRIDGE, BUNDLE, DAYS, SERVING, Files, load, make, renew
from app.certs.issuing import CLOCK_SKEW, Names, answers_to
from app.errors import UsageError

Renewal = Literal["", "certificate", "ca", "revoke"]
"""What is renewed though it is not due; with the CA, all that it has signed. `revoke` is `ca` here: see `retiring`."""
SETTLING = timedelta(seconds=15)
"""How long a new CA waits for every caller to have heard of it, where no bridge leads to it."""

_CERTIFICATE, _KEY = f"{SERVING}.crt", f"{SERVING}.key"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the serving certificate answers to, and the days that new certificates are valid."""

    names: Names
    days: int = DAYS
    authority_days: int = AUTHORITY_DAYS


def successor(present: Files, wanted: Wanted, *, now: datetime, force: Renewal = "") -> dict[str, bytes]:
    """`present` where it is whole, ours and not due; else the set after it.

    A set of another installer (no CA key) or a damaged one is replaced, but for a CA of ours that is whole. What it
    served was trusted through the webhook configuration's own caBundle, which keeps the old CA.
    """
    if not force and _fits(present, wanted):
        try:
            renewed = renew(present, now=now)
        except UsageError:
            renewed = None  # a bundle or bridge that cannot be read
        if renewed is not None and not renewed.renewed:
            return renewed.files
    return make(
        _kept(present),
        names=wanted.names,
        now=now,
        days=wanted.days,
        authority_days=wanted.authority_days,
        new_authority=force in ("ca", "revoke"),
    )


def careful(present: Files, following: Files, *, now: datetime) -> dict[str, bytes]:
    """`following`, but with the certificate of `present` while callers may not trust the new CA yet.

    Callers that trust the former CA accept a new CA with a bridge. A new CA without one must reach the callers first:
    until `settled`, the served certificate stays, if it is valid and not signed by the new CA itself.
    """
    if BRIDGE in following or now >= settled(following) or not _serves(present, now=now):
        return dict(following)
    held = {**following, _CERTIFICATE: present[_CERTIFICATE], _KEY: present[_KEY]}
    return dict(following) if signed_by_own_authority(held) else held


def settled(files: Files) -> datetime:
    """When every caller has heard of the CA, if all were told as soon as it was made."""
    return load(files, AUTHORITY).certificate.not_valid_before_utc + CLOCK_SKEW + SETTLING


def can_sign(files: Files) -> bool:
    """Whether there is a CA with its key."""
    try:
        load(files, AUTHORITY)
    except UsageError:
        return False
    return True


def trusted(files: Files) -> list[x509.Certificate]:
    """The CAs that callers are to trust: those of the bundle, or the CA alone; [] where neither can be read."""
    for name in (BUNDLE, f"{AUTHORITY}.crt"):
        try:
            found = parse_bundle(files.get(name, b""), source=name)
        except UsageError:
            continue
        if found:
            return found
    return []


def signed_by_own_authority(files: Files) -> bool:
    """Whether the serving certificate is whole and the CA beside it has signed it."""
    try:
        load(files, SERVING).certificate.verify_directly_issued_by(load(files, AUTHORITY).certificate)
    except (UsageError, ValueError, TypeError, InvalidSignature):
        return False
    return True


def _fits(present: Files, wanted: Wanted) -> bool:
    return signed_by_own_authority(present) and answers_to(load(present, SERVING).certificate, wanted.names)


def _kept(present: Files) -> dict[str, bytes]:
    """What a successor is made from: our CA, if it is whole, and what of its bundle and bridge can be read."""
    if not can_sign(present):
        return {}
    names = [f"{AUTHORITY}.crt", f"{AUTHORITY}.key"]
    for name in (BUNDLE, BRIDGE):
        try:
            names += [name] if parse_bundle(present.get(name, b""), source=name) else []
        except UsageError:
            continue
    kept = {name: present[name] for name in names}
    kept.setdefault(BUNDLE, kept[f"{AUTHORITY}.crt"])
    return kept


def _serves(files: Files, *, now: datetime) -> bool:
    try:
        return load(files, SERVING).certificate.not_valid_after_utc > now
    except UsageError:
        return False
