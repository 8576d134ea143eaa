"""What a directory or a Secret holds, as a whole: a CA, its bundle, serving and client certificates by file name.

Plans the next set from the present one: first issue, additions, renewal. Pure (`now` is passed in): reads and
returns file contents by name; writing them is `files` and `install`. Names: `ca.crt`, `ca.key`, `ca-bundle.crt`
(old and new CA while both may be trusted), `ca-bridge.crt` (the CA signed by the one before it), `tls.crt`, `tls.key`,
`client-<cn>.crt`, `client-<cn>.key`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from app.certs.bundles import encode_bundle, overlap, parse_bundle
from app.certs.issuing import (
    CLOCK_SKEW,
    Algorithm,
    Issued,
    Names,
    algorithm_of,
    bridge,
    issue_authority,
    issue_client,
    issue_leaf,
    issue_serving,
)
from app.errors import UsageError
from app.serving.pair import belongs

AUTHORITY = "ca"
SERVING = "tls"
BUNDLE = "ca-bundle.crt"
BRIDGE = "ca-bridge.crt"
AUTHORITY_NAME = "Berth CA"
AUTHORITY_DAYS = 3650
DAYS = 365

Files = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Renewed:
    """The next set (`files` equals the present one where nothing was due) and what was renewed, in words' order."""

    files: dict[str, bytes]
    renewed: tuple[str, ...]
    next_due: datetime


def renewal_due(certificate: x509.Certificate) -> datetime:
    """When less than a third of the certificate's lifetime is left."""
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return end - (end - start) / 3


def client_stem(common_name: str) -> str:
    """The file name, without its ending, of a client certificate; what no file name should carry becomes `-`."""
    return "client-" + (re.sub(r"[^A-Za-z0-9._-]+", "-", common_name).strip("-.") or "unnamed")


def make(
    present: Files,
    *,
    names: Names,
    clients: Sequence[tuple[str, Sequence[str]]] = (),
    now: datetime,
    days: int = DAYS,
    authority_days: int = AUTHORITY_DAYS,
    algorithm: Algorithm = "ecdsa",
    new_authority: bool = False,
) -> dict[str, bytes]:
    """A serving certificate and one for each of `clients` (common name, organizations), under the CA that is there.

    A CA is made where there is none, where it is due for renewal or where `new_authority` asks for it; the CA before
    it stays in the bundle, and bridges to the new one where its key is known.
    """
    files = dict(present)
    authority, fresh = _authority(files, now=now, days=authority_days, algorithm=algorithm, force=new_authority)
    if fresh:
        _renew_leaves(files, authority, now=now, force=True)
    _store(files, SERVING, issue_serving(authority, names=names, now=now, days=days, algorithm=algorithm))
    for common_name, organizations in clients:
        issued = issue_client(
            authority, common_name=common_name, organizations=organizations, now=now, days=days, algorithm=algorithm
        )
        _store(files, client_stem(common_name), issued)
    return files


def renew(present: Files, *, now: datetime, force: bool = False) -> Renewed:
    """Renew what is due: leaves under the CA, and the CA (then every leaf) with the old one kept in the bundle.

    `force` renews all leaves, due or not; the CA only when due. Names, usages, algorithm and length of life stay.
    Raises UsageError where there is no CA with its key to sign with.
    """
    files = dict(present)
    if f"{AUTHORITY}.crt" not in files or f"{AUTHORITY}.key" not in files:
        raise UsageError("no CA to renew with: ca.crt and ca.key are both needed")
    life = load(files, AUTHORITY)
    authority, fresh = _authority(files, now=now, days=_days(life.certificate), algorithm=algorithm_of(life.key))
    renewed = [AUTHORITY] if fresh else []
    renewed += _renew_leaves(files, authority, now=now, force=force or fresh)
    bundle = parse_bundle(files.get(BUNDLE, b""), source=BUNDLE)
    files[BUNDLE] = encode_bundle(overlap([authority.certificate], bundle, now=now))
    due = min(renewal_due(load(files, stem).certificate) for stem in (AUTHORITY, *leaf_stems(files)))
    return Renewed(files, tuple(renewed), due)


def leaf_stems(files: Files) -> list[str]:
    """The stems of all certificates but CAs, the serving one first."""
    stems = (name.removesuffix(".crt") for name in files if name.endswith(".crt"))
    return sorted((stem for stem in stems if stem == SERVING or stem.startswith("client-")), reverse=True)


def load(files: Files, stem: str) -> Issued:
    """The certificate, chain and key under one stem. Raises UsageError for broken, missing or mismatched ones."""
    try:
        certificates = parse_bundle(files[f"{stem}.crt"], source=f"{stem}.crt")
        key = serialization.load_pem_private_key(files[f"{stem}.key"], password=None)
    except KeyError as error:
        raise UsageError(f"{error.args[0]} is missing") from error
    except (ValueError, TypeError) as error:
        raise UsageError(f"{stem}.key cannot be read: {error}") from error
    if not certificates:
        raise UsageError(f"{stem}.crt holds no certificate")
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise UsageError(f"{stem}.key is neither an ECDSA nor an RSA key")
    if not belongs(key, certificates[0]):
        raise UsageError(f"{stem}.key does not belong to {stem}.crt")
    return Issued(certificates[0], key, tuple(certificates[1:]))


def _authority(
    files: dict[str, bytes], *, now: datetime, days: int, algorithm: Algorithm, force: bool = False
) -> tuple[Issued, bool]:
    """The CA to sign with (its chain: the bridge from the one before it), and whether it is a new one."""
    old = load(files, AUTHORITY) if f"{AUTHORITY}.key" in files else None
    if old is not None and not force and now < renewal_due(old.certificate):
        bridges = parse_bundle(files.get(BRIDGE, b""), source=BRIDGE)
        chain = tuple(link for link in bridges if link.not_valid_after_utc > now)
        return Issued(old.certificate, old.key, chain), False
    new = issue_authority(common_name=AUTHORITY_NAME, now=now, days=days, algorithm=algorithm)
    earlier = [
        *parse_bundle(files.get(f"{AUTHORITY}.crt", b""), source=f"{AUTHORITY}.crt"),
        *parse_bundle(files.get(BUNDLE, b""), source=BUNDLE),
    ]
    files.pop(BRIDGE, None)
    _store(files, AUTHORITY, new)
    files[BUNDLE] = encode_bundle(overlap([new.certificate], earlier, now=now))
    if old is None or old.certificate.not_valid_after_utc <= now:
        return new, True
    link = bridge(old, new)
    files[BRIDGE] = encode_bundle([link])
    return Issued(new.certificate, new.key, (link,)), True


def _renew_leaves(files: dict[str, bytes], authority: Issued, *, now: datetime, force: bool) -> list[str]:
    renewed = []
    for stem in leaf_stems(files):
        leaf = load(files, stem)
        if force or now >= renewal_due(leaf.certificate):
            _store(files, stem, _reissue(authority, leaf, now=now))
            renewed.append(stem)
    return renewed


def _reissue(authority: Issued, leaf: Issued, *, now: datetime) -> Issued:
    """The same subject, names, usage, algorithm and length of life, with a new key."""
    extensions = leaf.certificate.extensions
    try:
        alternatives = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        alternatives = None
    try:
        usage = next(iter(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value))
    except x509.ExtensionNotFound:
        usage = ExtendedKeyUsageOID.SERVER_AUTH
    return issue_leaf(
        authority,
        subject=leaf.certificate.subject,
        alternatives=alternatives,
        usage=usage,
        span=(now - CLOCK_SKEW, now + timedelta(days=_days(leaf.certificate))),
        algorithm=algorithm_of(leaf.key),
    )


def _days(certificate: x509.Certificate) -> int:
    """The length of life in whole days, at least one; the skew allowance does not count."""
    return max(1, (certificate.not_valid_after_utc - certificate.not_valid_before_utc).days)


def _store(files: dict[str, bytes], stem: str, issued: Issued) -> None:
    files[f"{stem}.crt"] = issued.certificate_pem
    files[f"{stem}.key"] = issued.key_pem
