"""The gateway's certificates: its CA, what it serves with, and the cloud admin's, each in a Secret.

Safe for concurrent callers: the first to write a Secret wins, and the others read its contents. Renews what is due. A
CA that is renewed stays trusted beside its successor until it expires. A Secret without Berth's label is used as it is
and never written. Keys are in the Secrets and in the values returned here, never in messages.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import datetime

from cryptography import x509

from app.certs.bundles import encode_bundle, overlap, parse_bundle
from app.certs.certificate_set import AUTHORITY_DAYS, DAYS, renewal_due
from app.certs.issuing import Issued, bridge, issue_authority, serving_names
from app.certs.secrets import read_secret, write_secret
from app.errors import UsageError
from app.kube.client import KubeClient
from app.kube.retry import Sleep, until_no_conflict
from app.tenancy.authority.leaves import Leaf, admin_leaf, load_pair, next_files, serving_leaf
from app.tenancy.model import ADMIN_NAME, GATEWAY_NAME
from app.workloads.model import SYSTEM_NAMESPACE

CA_SECRET = "berth-gateway-ca"  # noqa: S105 - the name of an object
SERVING_SECRET = "berth-gateway-tls"  # noqa: S105 - the name of an object
ADMIN_SECRET = "berth-cloud-admin"  # noqa: S105 - the name of an object
SERVICE = "berth-gateway"
AUTHORITY_NAME = "Berth Gateway CA"


@dataclass(frozen=True, slots=True)
class SigningAuthority:
    """The CA that signs (`issued`, its chain: the bridge from the CA before it), and the PEM bundle to trust.

    `written` says whether the call that returned it has made it.
    """

    issued: Issued = field(repr=False, compare=False)  # keys cannot be compared; the bundle begins with its certificate
    bundle: bytes
    written: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class GatewayCertificates:
    """All of it: `serving` has tls.crt, tls.key and ca.crt (whom to trust); `admin` has ca.crt, admin.crt, admin.key.

    `next_due` is when `ensure_authority` will next have something to renew, `renewed` names the Secrets that hold a
    certificate which the call has made.
    """

    authority: SigningAuthority
    serving: dict[str, bytes] = field(repr=False)
    admin: dict[str, bytes] = field(repr=False)
    next_due: datetime
    renewed: tuple[str, ...] = field(default=(), compare=False)

    @property
    def ends(self) -> dict[str, datetime]:
        """When the certificate in each Secret ends."""
        stems = ((SERVING_SECRET, self.serving, "tls"), (ADMIN_SECRET, self.admin, "admin"))
        leaves = {secret: load_pair(files, stem, place=secret).certificate for secret, files, stem in stems}
        found = {CA_SECRET: self.authority.issued.certificate, **leaves}
        return {secret: certificate.not_valid_after_utc for secret, certificate in found.items()}


@dataclass(frozen=True, slots=True)
class AuthorityOptions:
    """`dns` and `addresses` are names of the gateway beside those of its Service; `days` the life of certificates."""

    namespace: str = SYSTEM_NAMESPACE
    service: str = SERVICE
    dns: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    admin_name: str = ADMIN_NAME
    days: int = DAYS
    authority_days: int = AUTHORITY_DAYS


_DEFAULTS = AuthorityOptions()


async def ensure_authority(
    client: KubeClient, *, now: datetime, options: AuthorityOptions = _DEFAULTS, sleep: Sleep = asyncio.sleep
) -> GatewayCertificates:
    """Create what is missing, renew what is due, and say what there is.

    Raises UsageError for a Secret that cannot be used, ApiError where the API server does not let us.
    """
    names = serving_names(
        service=options.service,
        namespace=options.namespace,
        dns=(GATEWAY_NAME, "localhost", *options.dns),
        addresses=("127.0.0.1", "::1", *options.addresses),
    )
    authority = await ensure_signing(client, now=now, options=options, sleep=sleep)
    due = [renewal_due(authority.issued.certificate)]
    kept, renewed = [], [CA_SECRET] if authority.written else []
    for secret, leaf in (
        (SERVING_SECRET, serving_leaf(names, days=options.days)),
        (ADMIN_SECRET, admin_leaf(options.admin_name, days=options.days)),
    ):
        files, written = await until_no_conflict(
            lambda secret=secret, leaf=leaf: _ensure_leaf(  # type: ignore[misc]  # mypy infers no defaults of lambdas
                client, secret, leaf, authority, namespace=options.namespace, now=now
            ),
            sleep=sleep,
        )
        due.append(renewal_due(load_pair(files, leaf.stem, place=secret).certificate))
        kept.append(files)
        renewed += [secret] if written else []
    return GatewayCertificates(authority, serving=kept[0], admin=kept[1], next_due=min(due), renewed=tuple(renewed))


async def ensure_signing(
    client: KubeClient, *, now: datetime, options: AuthorityOptions = _DEFAULTS, sleep: Sleep = asyncio.sleep
) -> SigningAuthority:
    """The CA alone, created or renewed where it must be; raises as `ensure_authority`."""
    return await until_no_conflict(lambda: _signing(client, now=now, options=options), sleep=sleep)


def signing_of_files(certificate: bytes, key: bytes, *, source: str) -> SigningAuthority:
    """A CA from PEM files instead of the cluster's. Raises UsageError where it cannot sign."""
    issued = load_pair({"tls.crt": certificate, "tls.key": key}, "tls", place=source)
    _check_signs(issued.certificate, place=source)
    return SigningAuthority(issued, encode_bundle([issued.certificate]))


async def _signing(client: KubeClient, *, now: datetime, options: AuthorityOptions) -> SigningAuthority:
    present = await read_secret(client, CA_SECRET, namespace=options.namespace)
    old = load_pair(present.files, "tls", place=present.place) if present.version else None
    bundle = parse_bundle(present.files.get("ca.crt", b""), source=f"{present.place}: ca.crt")
    if old is not None:
        _check_signs(old.certificate, place=present.place)
        if not present.ours or now < renewal_due(old.certificate):
            chain = tuple(link for link in old.chain if link.not_valid_after_utc > now)
            return SigningAuthority(
                replace(old, chain=chain), encode_bundle(overlap([old.certificate], bundle, now=now))
            )
    new = issue_authority(common_name=AUTHORITY_NAME, now=now, days=options.authority_days)
    earlier = [] if old is None else [old.certificate, *bundle]
    if old is not None and old.certificate.not_valid_after_utc > now:
        new = replace(new, chain=(bridge(old, new),))
    trusted = encode_bundle(overlap([new.certificate], earlier, now=now))
    files = {"tls.crt": new.certificate_pem, "tls.key": new.key_pem, "ca.crt": trusted}
    await write_secret(client, present, files, make_namespace=True)
    return SigningAuthority(new, trusted, written=True)


async def _ensure_leaf(
    client: KubeClient, secret: str, leaf: Leaf, authority: SigningAuthority, *, namespace: str, now: datetime
) -> tuple[dict[str, bytes], bool]:
    """What the Secret holds after this call, and whether its certificate is a new one."""
    present = await read_secret(client, secret, namespace=namespace)
    if not present.ours:
        load_pair(present.files, leaf.stem, place=present.place)
        return {"ca.crt": authority.bundle, **present.files}, False
    files = next_files(present.files, leaf, authority.issued, bundle=authority.bundle, now=now)
    if files != present.files:
        await write_secret(client, present, files, make_namespace=True)
    certificate = f"{leaf.stem}.crt"
    return files, files[certificate] != present.files.get(certificate)


def _check_signs(certificate: x509.Certificate, *, place: str) -> None:
    try:
        authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        authority = False
    if not authority:
        raise UsageError(f"{place}: its certificate is no CA")
