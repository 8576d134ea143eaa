"""Computes the set of certificates that follows a set: the present one while it is good enough, else its successor.

Pure (`now` is passed in). A new CA has a bridge from the one before it where that can still sign, and the one before it
stays trusted until it expires.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from cryptography import x509

from app.certs.bundles import overlap
from app.certs.certificate_set import (
    AUTHORITY,
    AUTHORITY_DAYS,
    AUTHORITY_NAME,
    DAYS,
    SERVING,
    CertificateSet,
    renewal_due,
)
from app.certs.issuing import (
    CLOCK_SKEW,
    Algorithm,
    Issued,
    Names,
    answers_to,
    bridge,
    common_name_of,
    issue_authority,
    issue_client,
    issue_serving,
    signed_by,
)

Renewal = Literal["", "certificate", "ca", "revoke"]
"""What is renewed though it is not due; with the CA, all that it has signed. `revoke` is `ca` here."""
SETTLING = timedelta(seconds=15)
"""How long a new CA waits for every caller to have heard of it, where no bridge leads to it."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One certificate of a set: whether the present one `stays` under its CA, and how another is made."""

    stays: Callable[[x509.Certificate, x509.Certificate, datetime], bool]
    issue: Callable[[Issued, datetime], Issued]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The leaves of a set by stem, and what a new CA is like."""

    leaves: Mapping[str, Leaf]
    authority_days: int = AUTHORITY_DAYS
    authority_name: str = AUTHORITY_NAME
    algorithm: Algorithm = "ecdsa"


def serving_leaf(names: Names, *, days: int, algorithm: Algorithm = "ecdsa") -> Leaf:
    return Leaf(
        lambda old, ca, now: answers_to(old, names) and _is_good(old, ca, now),
        lambda ca, now: issue_serving(ca, names=names, now=now, days=days, algorithm=algorithm),
    )


def client_leaf(name: str, *, days: int, organizations: Sequence[str] = (), algorithm: Algorithm = "ecdsa") -> Leaf:
    return Leaf(
        lambda old, ca, now: common_name_of(old) == name and _is_good(old, ca, now),
        lambda ca, now: issue_client(
            ca, common_name=name, organizations=organizations, now=now, days=days, algorithm=algorithm
        ),
    )


def webhook(names: Names, *, days: int = DAYS, authority_days: int = AUTHORITY_DAYS) -> Wanted:
    """A CA and a serving certificate for these names."""
    return Wanted({SERVING: serving_leaf(names, days=days)}, authority_days)


def following(present: CertificateSet, wanted: Wanted, *, now: datetime, force: Renewal = "") -> CertificateSet:
    """The CA and the wanted leaves: each as it is in `present` while it stays and is not forced, else a new one.

    A CA stays until it is due; a new one signs all leaves.
    """
    old, trusted = present.pairs.get(AUTHORITY), present.trusted
    if old is None or force in ("ca", "revoke") or now >= renewal_due(old.certificate):
        authority, force = _next_authority(old, wanted, now=now), "ca"
        trusted = trusted if old is None else (old.certificate, *trusted)
    else:
        authority = old
    trusted = tuple(overlap([authority.certificate], trusted, now=now))
    after = CertificateSet({AUTHORITY: authority}, trusted, others=present.others)
    leaves = {
        stem: next_leaf(leaf, present.pairs.get(stem), after.signer(now), now=now, force=force)
        for stem, leaf in wanted.leaves.items()
    }
    return replace(after, pairs={AUTHORITY: authority, **leaves})


def next_leaf(leaf: Leaf, old: Issued | None, authority: Issued, *, now: datetime, force: Renewal = "") -> Issued:
    """The certificate that is there, while it stays and is not forced, else a new one."""
    if old is not None and not force and leaf.stays(old.certificate, authority.certificate, now):
        return old
    return leaf.issue(authority, now)


def successor(present: CertificateSet, wanted: Wanted, *, now: datetime, force: Renewal = "") -> CertificateSet:
    """What follows a set that others may have damaged: all is new but a CA of ours that is whole, and other files go.

    What a set without one has served was trusted through the webhook configuration's own caBundle, which keeps that CA.
    """
    base = present if present.can_sign else CertificateSet()
    after = following(base, wanted, now=now, force=force or ("certificate" if base.problems else ""))
    return after if after.pairs == base.pairs else replace(after, others={})


def careful(present: CertificateSet, after: CertificateSet, *, now: datetime) -> CertificateSet:
    """`after`, but with the certificate of `present` while callers may not trust the new CA yet.

    Callers that trust the former CA accept a new CA with a bridge. A new CA without one must reach the callers first:
    until `settled`, the served certificate stays, if it is valid and not signed by the new CA itself.
    """
    served = present.pairs.get(SERVING)
    if (
        after.authority.chain
        or now >= settled(after)
        or served is None
        or served.certificate.not_valid_after_utc <= now
    ):
        return after
    held = replace(after, pairs={**after.pairs, SERVING: served})
    return after if held.signed_by_own_authority else held


def settled(held: CertificateSet) -> datetime:
    """When every caller has heard of the CA, if all were told as soon as it was made."""
    return held.authority.certificate.not_valid_before_utc + CLOCK_SKEW + SETTLING


def _next_authority(old: Issued | None, wanted: Wanted, *, now: datetime) -> Issued:
    new = issue_authority(
        common_name=wanted.authority_name, now=now, days=wanted.authority_days, algorithm=wanted.algorithm
    )
    if old is None or old.certificate.not_valid_after_utc <= now:
        return new
    return new.with_chain([bridge(old, new)])


def _is_good(certificate: x509.Certificate, authority: x509.Certificate, now: datetime) -> bool:
    return now < renewal_due(certificate) and signed_by(certificate, authority)
