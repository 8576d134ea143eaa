"""Decides when a CA is no longer trusted: no certificate of it can be valid any more, or its key has leaked.

Pure (`now` is passed in). A revocation has two steps: a new CA is made and its certificate is served; `HANDOVER` later,
when every webhook serves that certificate, all other CAs are removed. The step is stored in the Secret, so that every
replica sees the same one, and a restart changes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from cryptography import x509

from app.certs.bundles import fingerprint
from app.certs.certificate_set import AUTHORITY, AUTHORITY_NAME, SERVING, CertificateSet
from app.certs.issuing import CLOCK_SKEW, common_name_of
from app.certs.patching import Keeps

REVOKED = "berth.dev/revoked"
"""Annotation on the Secret, by the certificates role: "pending" while a CA made for `revoke` waits to be the only one;
then its SHA-256, and caBundle holds no other until that one is renewed"""
PENDING = "pending"
HANDOVER = timedelta(minutes=5)
"""From a new certificate in the Secret to its being served by all: two minutes for the kubelets, ten seconds for the
readers of files, a minute that the clock of who issued it was behind and one that ours is ahead (clocks.APART)."""


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
    """Tells of CAs that are trusted beside those of the set which are needed: all but older ones that are outlived.

    A CA signs nothing once its successor is there. A CA that Berth has not made is its owner's business.
    """
    latest = now - timedelta(days=days) - CLOCK_SKEW
    successors = [start for start in map(_start, held.trusted) if start < latest]
    return lambda one: (
        not successors or _start(one) >= max(successors) or not common_name_of(one).startswith(f"{AUTHORITY_NAME} ")
    )


def _start(certificate: x509.Certificate) -> datetime:
    return certificate.not_valid_before_utc
