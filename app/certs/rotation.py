"""Computes the set of certificates that follows a set: the present one while it is good enough, else its successor.

Pure (`now` is passed in). A new CA has a bridge from the one before it where that can still sign, and the one before it
stays trusted until it expires, no certificate of it can be valid any more, or its key has leaked. A revocation has two
steps: a new CA is made and its certificate is served; `HANDOVER` later, when every webhook serves that certificate, all
other CAs are removed. The step is stored in the Secret, so that every replica sees the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from cryptography import x509

from app.certs.certificate_set import (
    AUTHORITY,
    AUTHORITY_DAYS,
    AUTHORITY_NAME,
    DAYS,
    SERVING,
    CertificateSet,
    Keeps,
    fingerprint,
    overlap,
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
"""How long a new CA waits until every caller trusts it, where no bridge leads to it."""

REVOKED = "berth.dev/revoked"
"""Annotation on the Secret, by the certificates role: "pending" while a CA made for `revoke` waits to be the only one;
then its SHA-256, and caBundle holds no other until that one is renewed"""
PENDING = "pending"
HANDOVER = timedelta(minutes=5)
"""From a new certificate in the Secret to its being served by all: two minutes for the kubelets, ten seconds for the
readers of files, a minute that the clock of who issued it was behind and one that ours is ahead."""


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
    """When every caller trusts the CA, if it was written into every caBundle as soon as it was made."""
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


def handed_over(held: CertificateSet) -> datetime:
    """When every webhook serves this certificate or one after it; `datetime.max` while its CA has not signed it."""
    if not held.signed_by_own_authority:
        return datetime.max.replace(tzinfo=UTC)
    return _start(held.serving.certificate) + CLOCK_SKEW + HANDOVER


def next_mark(mark: str, held: CertificateSet, *, revoke: bool, now: datetime) -> str:
    """The value of the annotation `REVOKED` that goes with the set, "" for none; `revoke`: its CA was made for it."""
    if revoke:
        return PENDING
    if mark == PENDING:
        return fingerprint(held.authority.certificate) if now >= handed_over(held) else PENDING
    return mark if is_alone(mark, held) else ""  # another CA has followed, by the usual way


def is_alone(mark: str, held: CertificateSet) -> bool:
    """Whether the CA of the set is the one that is left of a revocation."""
    return bool(mark) and held.can_sign and mark == fingerprint(held.authority.certificate)


def alone(held: CertificateSet) -> CertificateSet:
    """The same with the CA as the only one: none beside it in the bundle, no bridge from another."""
    pairs = {**held.pairs, AUTHORITY: held.authority.with_chain(()), SERVING: held.serving.with_chain(())}
    return replace(held, pairs=pairs, trusted=(held.authority.certificate,))


def without_outlived(held: CertificateSet, *, days: int, now: datetime) -> CertificateSet:
    """The same without the CAs whose every certificate has ended, if certificates live for `days`."""
    kept = tuple(filter(needed_still(held, days=days, now=now), held.trusted))
    pairs = dict(held.pairs)
    if len(kept) == 1 and held.can_sign:
        pairs[AUTHORITY] = replace(held.authority, chain=())
    return replace(held, pairs=pairs, trusted=kept)


def needed_still(held: CertificateSet, *, days: int, now: datetime) -> Keeps:
    """Which CAs are still needed, of those that are trusted beside the set: all but older ones that are outlived.

    A CA signs nothing once its successor is there. A CA that Berth has not made is its owner's business.
    """
    latest = now - timedelta(days=days) - CLOCK_SKEW
    successors = [start for start in map(_start, held.trusted) if start < latest]
    return lambda certificate: (
        not successors
        or _start(certificate) >= max(successors)
        or not common_name_of(certificate).startswith(f"{AUTHORITY_NAME} ")
    )


def trusted_by_callers(
    held: CertificateSet, mark: str, *, days: int, now: datetime
) -> tuple[tuple[x509.Certificate, ...], Keeps | None]:
    """The CAs that every caller of the webhook is to trust, and which of the others it may go on trusting."""
    if is_alone(mark, held):
        return (held.authority.certificate,), lambda _: False
    if held.can_sign and without_outlived(held, days=days, now=now) == held:
        # A caller drops a CA only after the Secret has: a process with a wrong clock does not write the Secret.
        return held.trusted, needed_still(held, days=days, now=now)
    return held.trusted, None


def _start(certificate: x509.Certificate) -> datetime:
    return certificate.not_valid_before_utc
