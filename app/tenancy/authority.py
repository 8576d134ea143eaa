"""The gateway's certificates: its CA, what it serves with, and the cloud admin's, each in a Secret.

Safe for concurrent callers: the first to write a Secret wins, and the others read its contents. A CA that is renewed
stays trusted beside its successor until it expires. A Secret without Berth's label is used as it is and never
written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Self

from cryptography import x509
from pydantic import ValidationInfo, field_validator, model_validator

from app.certs.certificate_set import (
    AUTHORITY,
    AUTHORITY_DAYS,
    DAYS,
    SERVING,
    CertificateSet,
    Files,
    load,
    overlap,
    parse_bundle,
)
from app.certs.issuing import Issued, extension_of, serving_names
from app.certs.rotation import Leaf, Wanted, client_leaf, following, next_leaf, serving_leaf
from app.certs.settings import CertificatesSettings
from app.errors import ApiError, UsageError
from app.kube.client import KubeClient
from app.kube.resources import DEPLOYMENTS, SECRETS
from app.kube.retry import Sleep, until_no_conflict
from app.kube.secrets import StoredFiles, read_secret, write_secret
from app.kube.walls import Apart
from app.settings.source import DnsLabel, Flag, Items
from app.tenancy.model import ADMIN_NAME, ADMIN_SECRET, CA_SECRET, GATEWAY_NAME, SERVING_SECRET
from app.workloads.model import SYSTEM_NAMESPACE, TENANT_NAMESPACE_PREFIX

_GATEWAY = "Gateway"
SERVICE = "berth-gateway"
AUTHORITY_NAME = "Berth Gateway CA"
_ADMIN = "admin"
_OURS, _RELEASE = "app.kubernetes.io/part-of=berth", "app.kubernetes.io/instance"
_SECRETS = {AUTHORITY: CA_SECRET, SERVING: SERVING_SECRET, _ADMIN: ADMIN_SECRET}


@dataclass(frozen=True, slots=True)
class GatewayCertificates:
    """`serving` has tls.crt, tls.key and ca.crt (the CAs to trust); `admin` has ca.crt, admin.crt, admin.key.

    `renewed` names the Secrets that hold a certificate which the call has made.
    """

    authority: CertificateSet
    serving: dict[str, bytes] = field(repr=False)
    admin: dict[str, bytes] = field(repr=False)
    renewed: tuple[str, ...] = field(default=(), compare=False)

    @property
    def next_due(self) -> datetime:
        return self.authority.next_due

    @property
    def ends(self) -> dict[str, datetime]:
        """When the certificate ends, by the name of its Secret."""
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
    return await until_no_conflict(_Ensuring(client, options, now).all, sleep=sleep)


async def ensure_signing(
    client: KubeClient, *, now: datetime, options: AuthorityOptions = _DEFAULTS, sleep: Sleep = asyncio.sleep
) -> CertificateSet:
    """The CA alone, created or renewed where it must be; raises as `ensure_authority`."""
    return await until_no_conflict(_Ensuring(client, options, now).authority, sleep=sleep)


async def locate_authority(client: KubeClient) -> str:
    """The namespace of the one Secret of the CA's name; `universe` where there is none, or where we may not look.

    A chart keeps the CA in its release's namespace, the command line in `universe`; a second CA would sign bundles that
    no gateway knows. Tenants' namespaces are passed over. Of several, that of the cluster's one release counts. Raises
    UsageError where there are several, and not one release in one of them.
    """
    try:
        page = await client.list_page(SECRETS, field_selector=f"metadata.name={CA_SECRET}")
    except ApiError as error:
        if error.status == 403:
            return SYSTEM_NAMESPACE
        raise
    names = [str(secret["metadata"]["namespace"]) for secret in page.items]
    places = sorted(name for name in names if not name.startswith(TENANT_NAMESPACE_PREFIX))
    if len(places) > 1 and (home := await _home(client)) in places:
        return home
    if len(places) > 1:
        raise UsageError(f"Secret {CA_SECRET} is in namespaces {', '.join(places)}: say --berth-namespace")
    return places[0] if places else SYSTEM_NAMESPACE


async def _home(client: KubeClient) -> str:
    """The namespace of the one release in the cluster; "" where there is none, several, or we may not look."""
    try:
        page = await client.list_page(DEPLOYMENTS, label_selector=_OURS)
    except ApiError as error:
        if error.status == 403:
            return ""
        raise
    metadata = [deployment["metadata"] for deployment in page.items]
    releases = {(str(it["namespace"]), (it.get("labels") or {}).get(_RELEASE)) for it in metadata}
    return next(iter(releases))[0] if len(releases) == 1 else ""


def authority_of(files: Files, *, place: str) -> CertificateSet:
    """The CA in tls.crt and tls.key, and what ca.crt trusts beside it. Raises UsageError where it cannot sign."""
    authority = _load(files, "tls", place=place)
    constraints = extension_of(authority.certificate, x509.BasicConstraints)
    if constraints is None or not constraints.ca:
        raise UsageError(f"{place}: its certificate is not a CA")
    bundle = parse_bundle(files.get("ca.crt", b""), source=f"{place}: ca.crt")
    return CertificateSet({AUTHORITY: authority}, (authority.certificate, *bundle))


class _Ensuring:
    """One call, with the Secrets that it has renewed in all of its attempts."""

    def __init__(self, client: KubeClient, options: AuthorityOptions, now: datetime) -> None:
        self._client, self._options, self._now = client, options, now
        self._renewed: dict[str, None] = {}

    async def all(self) -> GatewayCertificates:
        options, days = self._options, self._options.days
        names = serving_names(
            service=options.service,
            namespace=options.namespace,
            dns=(GATEWAY_NAME, "localhost", *options.dns),
            addresses=("127.0.0.1", "::1", *options.addresses),
        )
        held = await self.authority()

        def serving(old: Issued | None) -> Leaf:
            # Replicas and commands may each know names of their own: they do not take turns in dropping the others'.
            return serving_leaf(names if old is None else names.joined(old.certificate), days=days)

        def admin(_: Issued | None) -> Leaf:
            return client_leaf(options.admin_name, days=days)

        files, apart = {}, Apart()
        for stem, leaf_for in ((SERVING, serving), (_ADMIN, admin)):
            with apart.step():
                pair, files[stem] = await self._leaf(stem, leaf_for, held)
                held = replace(held, pairs={**held.pairs, stem: pair})
        apart.end()
        return GatewayCertificates(held, files[SERVING], files[_ADMIN], tuple(self._renewed))

    async def authority(self) -> CertificateSet:
        secret = await self._read(AUTHORITY)
        present = authority_of(secret.files, place=secret.place) if secret.version else CertificateSet()
        if not secret.ours:
            return replace(present, trusted=tuple(overlap(present.trusted[:1], present.trusted, now=self._now)))
        held = following(present, Wanted({}, self._options.authority_days, AUTHORITY_NAME), now=self._now)
        if held.pairs != present.pairs:
            files = _files("tls", held.authority, held.bundle)
            await write_secret(self._client, secret, files, make_namespace=True)
            self._renewed[secret.name] = None
        return held

    async def _leaf(
        self, stem: str, leaf_for: Callable[[Issued | None], Leaf], held: CertificateSet
    ) -> tuple[Issued, dict[str, bytes]]:
        """The certificate, and what its Secret holds after this call."""
        secret = await self._read(stem)
        if not secret.ours:
            return _load(secret.files, stem, place=secret.place), {"ca.crt": held.bundle, **secret.files}
        try:
            old = load(secret.files, stem)
        except UsageError:
            old = None
        pair = next_leaf(leaf_for(old), old, held.signer(self._now), now=self._now)
        files = _files(stem, pair, held.bundle)
        if files != secret.files:
            await write_secret(self._client, secret, files, make_namespace=True)
        if pair is not old:
            self._renewed[secret.name] = None
        return pair, files

    async def _read(self, stem: str) -> StoredFiles:
        return await read_secret(self._client, _SECRETS[stem], namespace=self._options.namespace)


def _files(stem: str, pair: Issued, bundle: bytes) -> dict[str, bytes]:
    return {"ca.crt": bundle, f"{stem}.crt": pair.certificate_pem, f"{stem}.key": pair.key_pem}


def _load(files: Files, stem: str, *, place: str) -> Issued:
    """Raises UsageError, which names the place and shows nothing of the key."""
    try:
        return load(files, stem)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None


class AuthoritySettings(CertificatesSettings):
    """Without `gateway` nothing is kept for the gateway."""

    gateway: Annotated[bool, Flag("Keep the gateway's certificates too", _GATEWAY)] = False
    gateway_service: Annotated[DnsLabel, Flag("Its Service", _GATEWAY)] = SERVICE
    gateway_dns: Annotated[Items, Flag("One more name of the gateway; repeatable", _GATEWAY, repeatable=True)] = ()
    gateway_address: Annotated[
        Items, Flag("One more address of the gateway; repeatable", _GATEWAY, repeatable=True)
    ] = ()

    @property
    def authority_options(self) -> AuthorityOptions | None:
        if not self.gateway:
            return None
        return AuthorityOptions(
            namespace=self.namespace,
            service=self.gateway_service,
            dns=self.gateway_dns,
            addresses=self.gateway_address,
            days=self.days,
            authority_days=self.ca_days,
        )

    @field_validator("gateway_dns", "gateway_address")
    @classmethod
    def _names(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        dns, addresses = (value, ()) if info.field_name == "gateway_dns" else ((), value)
        try:
            serving_names(dns=dns, addresses=addresses)
        except UsageError as error:
            raise ValueError(str(error)) from error
        return value

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not (self.webhook_service or self.ui_service or self.gateway):
            raise ValueError("nothing to keep: want --webhook-service, --ui-service or --gateway")
        return self
