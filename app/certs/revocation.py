"""Decides when a CA is no longer trusted: no certificate of it can be valid any more, or its key has leaked.

Pure (`now` is passed in). A revocation has two steps: a new CA is made and its certificate is served; `HANDOVER` later,
when every webhook serves that certificate, all other CAs are removed. The step is stored in the Secret, so that every
replica sees the same one, and a restart changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from cryptography import x509

from app.certs.bundles import encode_bundle, fingerprint
from app.certs.certificate_set import AUTHORITY, AUTHORITY_NAME, BRIDGE, BUNDLE, SERVING, Files, load
from app.certs.issuing import CLOCK_SKEW, common_name_of, encode_certificate
from app.certs.rotation import can_sign, signed_by_own_authority, trusted

Keeps = Callable[[x509.Certificate], bool]
"""Whether a CA that is trusted already stays trusted."""

REVOKED = "berth.dev/revoked"
"""Annotation on the Secret, by the certificates role: "pending" while a CA made for `revoke` waits to be the only one;
then its SHA-256, and caBundle holds no other until that one is renewed"""
PENDING = "pending"
HANDOVER = timedelta(minutes=5)
"""From a new certificate in the Secret to its being served by all: two minutes for the kubelets, ten seconds for the
readers of files, a minute that the clock of who issued it was behind and one that ours is ahead (clocks.APART)."""


def handed_over(files: Files) -> datetime:
    """When every webhook serves this certificate or one after it; `datetime.max` while its CA has not signed it."""
    if not signed_by_own_authority(files):
        return datetime.max.replace(tzinfo=UTC)
    return load(files, SERVING).certificate.not_valid_before_utc + CLOCK_SKEW + HANDOVER


def next_mark(mark: str, files: Files, *, revoke: bool, now: datetime) -> str:
    """The value of the annotation `REVOKED` that goes with `files`, "" for none; `revoke`: their CA was made for it."""
    if revoke:
        return PENDING
    if mark == PENDING:
        return _only(files) if now >= handed_over(files) else PENDING
    return mark if is_alone(mark, files) else ""  # another CA has followed, by the usual way


def is_alone(mark: str, files: Files) -> bool:
    """Whether the CA of `files` is the one that is left of a revocation."""
    return bool(mark) and can_sign(files) and mark == _only(files)


def alone(files: Files) -> dict[str, bytes]:
    """The same with the CA as the only one: none beside it in the bundle, no bridge from another."""
    authority = encode_certificate(load(files, AUTHORITY).certificate)
    left = {name: content for name, content in files.items() if name != BRIDGE}
    serving = encode_certificate(load(files, SERVING).certificate)
    return left | {f"{AUTHORITY}.crt": authority, BUNDLE: authority, f"{SERVING}.crt": serving}


def without_outlived(files: Files, *, days: int, now: datetime) -> dict[str, bytes]:
    """The same without the CAs whose every certificate has ended, if certificates live for `days`."""
    bundle = trusted(files)
    needed = needed_still(files, days=days, now=now)
    kept = [authority for authority in bundle if needed(authority)]
    if kept == bundle:
        return dict(files)
    left = {**files, BUNDLE: encode_bundle(kept)}
    if len(kept) == 1:
        left.pop(BRIDGE, None)
    return left


def needed_still(files: Files, *, days: int, now: datetime) -> Keeps:
    """Tells of CAs that are trusted beside those of `files` which are needed: all but older ones that are outlived.

    A CA signs nothing once its successor is there. A CA that Berth has not made is its owner's business.
    """
    latest = now - timedelta(days=days) - CLOCK_SKEW
    starts = [start for start in map(_start, trusted(files)) if start < latest]
    return _later_than(max(starts)) if starts else everything


def everything(_: x509.Certificate) -> bool:
    """Keeps every CA."""
    return True


def nothing(_: x509.Certificate) -> bool:
    """Keeps no CA."""
    return False


def _later_than(successor: datetime) -> Keeps:
    return lambda one: _start(one) >= successor or not common_name_of(one).startswith(f"{AUTHORITY_NAME} ")


def _start(authority: x509.Certificate) -> datetime:
    return authority.not_valid_before_utc


def _only(files: Files) -> str:
    return fingerprint(load(files, AUTHORITY).certificate)
