"""The certificates below the gateway's CA, as files by name: whether the present one will do, and its successor.

Pure (`now` is passed in). A certificate is replaced where it is due, damaged, of another CA or of other names.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from app.certs.certificate_set import load, renewal_due
from app.certs.issuing import (
    Issued,
    Names,
    answers_to,
    common_name_of,
    issue_client,
    issue_serving,
    names_of,
    serving_names,
)
from app.errors import UsageError


@dataclass(frozen=True, slots=True)
class Leaf:
    """One kind of certificate: `fits` says whether one is of the right names, `issue` makes the next after one."""

    stem: str
    fits: Callable[[x509.Certificate], bool]
    issue: Callable[[Issued, x509.Certificate | None, datetime], Issued]


def serving_leaf(names: Names, *, days: int) -> Leaf:
    """`tls`: a server that answers to `names`, and to what it has answered to so far.

    Replicas and commands may each know names of their own; so they do not take turns in dropping the others'.
    """

    def issue(authority: Issued, old: x509.Certificate | None, now: datetime) -> Issued:
        wanted = names if old is None else _joined(names, old)
        return issue_serving(authority, names=wanted, now=now, days=days)

    return Leaf("tls", lambda certificate: answers_to(certificate, names), issue)


def admin_leaf(common_name: str, *, days: int) -> Leaf:
    """`admin`: the cloud admin's client certificate."""

    def issue(authority: Issued, _old: x509.Certificate | None, now: datetime) -> Issued:
        return issue_client(authority, common_name=common_name, now=now, days=days)

    return Leaf("admin", lambda certificate: common_name_of(certificate) == common_name, issue)


def next_files(
    present: Mapping[str, bytes], leaf: Leaf, authority: Issued, *, bundle: bytes, now: datetime
) -> dict[str, bytes]:
    """ca.crt, and certificate and key under the stem: those of `present` while they will do, else new ones."""
    try:
        old = load_pair(present, leaf.stem, place="").certificate
    except UsageError:
        old = None
    names = (f"{leaf.stem}.crt", f"{leaf.stem}.key")
    if old is not None and leaf.fits(old) and now < renewal_due(old) and _signed_by(old, authority.certificate):
        return {"ca.crt": bundle, **{name: present[name] for name in names}}
    issued = leaf.issue(authority, old, now)
    return {"ca.crt": bundle, names[0]: issued.certificate_pem, names[1]: issued.key_pem}


def load_pair(files: Mapping[str, bytes], stem: str, *, place: str) -> Issued:
    """The certificate, chain and key. Raises UsageError, which names the place and shows nothing of the key."""
    try:
        return load(files, stem)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None


def _signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _joined(names: Names, old: x509.Certificate) -> Names:
    dns, addresses = list(names.dns), [str(address) for address in names.addresses]
    for name in names_of(old):
        (addresses if _is_address(name) else dns).append(name)
    return serving_names(dns=dns, addresses=addresses)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
