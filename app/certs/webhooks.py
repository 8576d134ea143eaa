"""The webhook's certificate in its Secret, and the trust in its CA in the webhook configurations: one pass over both.

Any number of callers at once, as with `install`; but objects are somebody else's here (the chart's): of a configuration
nothing but caBundle is written, and one that is missing is waited for. The order keeps requests from failing: a CA is
trusted by every configuration before the next one follows it, and one to which no bridge leads signs nothing until
callers have heard of it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime
from typing import get_args

import structlog
from cryptography import x509

from app.certs.holdings import AUTHORITY, AUTHORITY_DAYS, DAYS, SERVING, load, renewal_due
from app.certs.issuing import serving_names
from app.certs.keeping import Kept
from app.certs.patching import CONFIGURATIONS, ServiceName, trust
from app.certs.secrets import MANAGED_BY, MANAGER, StoredFiles, read_secret, write_secret
from app.certs.succession import (
    Renewal,
    Wanted,
    can_sign,
    careful,
    settled,
    signed_by_own_authority,
    successor,
    trusted,
)
from app.errors import Terminal, Transient, UsageError
from app.kube.client import KubeClient
from app.kube.reading import Sleep, until_no_conflict

RENEW = "berth.dev/renew"
"""Annotation on the Secret, by an admin: `certificate` or `ca` is renewed at once, then the annotation goes."""
_STEPS = 5
"""Writes of one pass: a CA, its certificate, and some patience with rivals that damage it."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """Where the Secret and the Service are, which configurations call it, and how long certificates live, in days."""

    namespace: str
    service: str
    secret: str
    configurations: tuple[str, ...]
    days: int = DAYS
    authority_days: int = AUTHORITY_DAYS


class WebhookCertificates:
    """Keeps them. Remembers the last whole set, so that a Secret that is deleted comes back as it was."""

    def __init__(self, client: KubeClient, options: WebhookOptions, *, sleep: Sleep = asyncio.sleep) -> None:
        names = serving_names(service=options.service, namespace=options.namespace)
        self._client, self._options, self._sleep = client, options, sleep
        self._wanted = Wanted(names, days=options.days, authority_days=options.authority_days)
        self._known: dict[str, bytes] = {}

    async def keep(self, now: datetime) -> Kept:
        """Make both true, and say what there is.

        Raises Terminal for a Secret of somebody else that cannot be used, ApiError where the API server does not let
        us.
        """
        return await until_no_conflict(lambda: self._pass(now), sleep=self._sleep)

    async def _pass(self, now: datetime) -> Kept:
        written: list[str] = []
        for _ in range(_STEPS):
            present = await read_secret(self._client, self._options.secret, namespace=self._options.namespace)
            await self._trust(trusted(present.files), now=now)
            if present.version and not present.ours:
                return _foreign(present)
            following, asked = self._following(present, now=now)
            if following == present.files and not asked:
                self._known = present.files
                return self._kept(present, written)
            kept = {name: value for name, value in present.annotations.items() if not (asked and name == RENEW)}
            await write_secret(self._client, replace(present, annotations=kept), following)
            if following.get(f"{SERVING}.crt") != present.files.get(f"{SERVING}.crt"):
                written.append(self._options.secret)
            _log.info("secret written", secret=present.place, renew=asked or "as due")
        raise Transient(f"Secret {self._options.namespace}/{self._options.secret}: somebody else keeps changing it")

    def _following(self, present: StoredFiles, *, now: datetime) -> tuple[dict[str, bytes], Renewal]:
        """The contents that the Secret is to have, and the renewal that was asked for and is done with them."""
        base = present.files if can_sign(present.files) or not self._known else self._known
        asked = _asked(present)
        if asked == "ca" and can_sign(base) and now < settled(base):
            asked = ""  # a new CA needs the one before it known to every caller; the annotation stays until then
        return careful(present.files, successor(base, self._wanted, now=now, force=asked), now=now), asked

    def _kept(self, present: StoredFiles, written: list[str]) -> Kept:
        files = present.files
        serving, authority = load(files, SERVING).certificate, load(files, AUTHORITY).certificate
        due = min(renewal_due(serving), renewal_due(authority))
        if _asked(present) or not signed_by_own_authority(files):
            due = min(due, settled(files))  # it waits for the callers of the CA
        return Kept({self._options.secret: serving.not_valid_after_utc}, tuple(written), due)

    async def _trust(self, authorities: list[x509.Certificate], *, now: datetime) -> None:
        """Have every configuration trust these, if there are any."""
        if not authorities:
            return
        service = ServiceName(self._options.namespace, self._options.service)
        for name in self._options.configurations:
            for resource in CONFIGURATIONS:
                result = await trust(
                    self._client, resource, name, authorities=authorities, service=service, now=now, sleep=self._sleep
                )
                if result is not None and result.changed:
                    _log.info("caBundle written", kind=result.kind, name=name, webhooks=result.changed)


def _asked(present: StoredFiles) -> Renewal:
    wish = present.annotations.get(RENEW, "")
    known: tuple[Renewal, ...] = get_args(Renewal)
    return next((renewal for renewal in known if renewal == wish), "")


def _foreign(present: StoredFiles) -> Kept:
    """Somebody else's Secret is used as it is: its CA is trusted, and its renewal is their business."""
    try:
        serving = load(present.files, SERVING).certificate
    except UsageError as error:
        problem = str(error)
    else:
        if trusted(present.files):
            return Kept({present.name: serving.not_valid_after_utc}, (), renewal_due(serving))
        problem = f"{AUTHORITY}.crt is missing"
    raise Terminal(
        f"{present.place} is somebody else's and cannot be used: {problem}; delete it, or hand it over with the label "
        f"{MANAGED_BY}={MANAGER}"
    )
