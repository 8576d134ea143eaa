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

from app.certs.bundles import overlap, parse_bundle
from app.certs.certificate_set import AUTHORITY, AUTHORITY_DAYS, DAYS, SERVING, CertificateSet, Files, load
from app.certs.issuing import Issued, serving_names
from app.certs.rotation import Leaf, Wanted, client_leaf, following, next_leaf, serving_leaf
from app.certs.secrets import StoredFiles, read_secret, write_secret
from app.errors import UsageError
from app.kube.client import KubeClient
from app.kube.retry import Sleep, until_no_conflict
from app.tenancy.model import ADMIN_NAME, GATEWAY_NAME
from app.workloads.model import SYSTEM_NAMESPACE

CA_SECRET = "berth-gateway-ca"  # noqa: S105 - the name of an object
SERVING_SECRET = "berth-gateway-tls"  # noqa: S105 - the name of an object
ADMIN_SECRET = "berth-cloud-admin"  # noqa: S105 - the name of an object
SERVICE = "berth-gateway"
AUTHORITY_NAME = "Berth Gateway CA"
_SECRETS = {AUTHORITY: CA_SECRET, SERVING: SERVING_SECRET, "admin": ADMIN_SECRET}


@dataclass(frozen=True, slots=True)
class GatewayCertificates:
    """All of it: `serving` has tls.crt, tls.key and ca.crt (whom to trust); `admin` has ca.crt, admin.crt, admin.key.

    `renewed` names the Secrets that hold a certificate which the call has made.
    """

    authority: CertificateSet
    serving: dict[str, bytes] = field(repr=False)
    admin: dict[str, bytes] = field(repr=False)
    renewed: tuple[str, ...] = field(default=(), compare=False)

    @property
    def next_due(self) -> datetime:
        """When `ensure_authority` will next have something to renew."""
        return self.authority.next_due

    @property
    def ends(self) -> dict[str, datetime]:
        """When the certificate in each Secret ends."""
        return {_SECRETS[stem]: pair.certificate.not_valid_after_utc for stem, pair in self.authority.pairs.items()}


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
    # Replicas and commands may each know names of their own; joined, they do not take turns in dropping the others'.
    leaves = {
        SERVING: serving_leaf(names, days=options.days, joined=True),
        "admin": client_leaf(options.admin_name, days=options.days),
    }
    renewed: list[str] = []

    async def attempt() -> GatewayCertificates:
        held = await _ensure_ca(client, options, now=now, renewed=renewed)
        files = {}
        for stem, leaf in leaves.items():
            secret = await read_secret(client, _SECRETS[stem], namespace=options.namespace)
            pair, files[stem] = await _ensure_leaf(client, secret, stem, leaf, held, now=now, renewed=renewed)
            held = replace(held, pairs={**held.pairs, stem: pair})
        return GatewayCertificates(held, files[SERVING], files["admin"], tuple(dict.fromkeys(renewed)))

    return await until_no_conflict(attempt, sleep=sleep)


async def ensure_signing(
    client: KubeClient, *, now: datetime, options: AuthorityOptions = _DEFAULTS, sleep: Sleep = asyncio.sleep
) -> CertificateSet:
    """The CA alone, created or renewed where it must be; raises as `ensure_authority`."""
    return await until_no_conflict(lambda: _ensure_ca(client, options, now=now, renewed=[]), sleep=sleep)


def signing_of_files(certificate: bytes, key: bytes, *, source: str) -> CertificateSet:
    """A CA from PEM files instead of the cluster's. Raises UsageError where it cannot sign."""
    return _ca_of({"tls.crt": certificate, "tls.key": key}, place=source)


async def _ensure_ca(
    client: KubeClient, options: AuthorityOptions, *, now: datetime, renewed: list[str]
) -> CertificateSet:
    secret = await read_secret(client, CA_SECRET, namespace=options.namespace)
    present = _ca_of(secret.files, place=secret.place) if secret.version else CertificateSet()
    if not secret.ours:
        return replace(present, trusted=tuple(overlap(present.trusted[:1], present.trusted, now=now)))
    held = following(present, Wanted({}, options.authority_days, AUTHORITY_NAME), now=now)
    if held.pairs != present.pairs:
        files = {"tls.crt": held.authority.certificate_pem, "tls.key": held.authority.key_pem, "ca.crt": held.bundle}
        await write_secret(client, secret, files, make_namespace=True)
        renewed.append(CA_SECRET)
    return held


async def _ensure_leaf(
    client: KubeClient,
    secret: StoredFiles,
    stem: str,
    leaf: Leaf,
    held: CertificateSet,
    *,
    now: datetime,
    renewed: list[str],
) -> tuple[Issued, dict[str, bytes]]:
    """The certificate, and what the Secret holds after this call."""
    try:
        old = load(secret.files, stem)
    except UsageError as error:
        if not secret.ours:
            raise UsageError(f"{secret.place}: {error}") from None
        old = None
    if old is not None and not secret.ours:
        return old, {"ca.crt": held.bundle, **secret.files}
    pair = next_leaf(leaf, old, held.signer(now), now=now)
    files = {"ca.crt": held.bundle, f"{stem}.crt": pair.certificate_pem, f"{stem}.key": pair.key_pem}
    if files != secret.files:
        await write_secret(client, secret, files, make_namespace=True)
    if pair is not old:
        renewed.append(secret.name)
    return pair, files


def _ca_of(files: Files, *, place: str) -> CertificateSet:
    """The CA of a Secret or of files, and what is trusted beside it. Raises UsageError where it cannot sign."""
    try:
        authority = load(files, "tls")
        trusted = (authority.certificate, *parse_bundle(files.get("ca.crt", b""), source="ca.crt"))
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None  # the text shows nothing of the key
    try:
        signs = authority.certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        signs = False
    if not signs:
        raise UsageError(f"{place}: its certificate is no CA")
    return CertificateSet({AUTHORITY: authority}, tuple(trusted))
