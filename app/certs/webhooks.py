"""The webhook's certificate in its Secret, and the trust in its CA in the webhook configurations: one pass over both.

Safe for concurrent callers, as `install` is. Here the chart owns the webhook configurations: only caBundle is written,
and a missing configuration is waited for. The order keeps requests from failing: every configuration trusts a CA before
its successor is written, and a CA without a bridge signs nothing until the callers have had time to load it. A revoked
CA is removed when it is not needed any more: see `retiring`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime
from typing import get_args

import structlog

from app.certs.certificate_set import AUTHORITY, AUTHORITY_DAYS, DAYS, SERVING, load, renewal_due
from app.certs.controller import Kept
from app.certs.issuing import serving_names
from app.certs.patching import CONFIGURATIONS, ServiceName, trust, trusting
from app.certs.revocation import (
    PENDING,
    REVOKED,
    Keeps,
    alone,
    everything,
    handed_over,
    is_alone,
    needed_still,
    next_mark,
    nothing,
    without_outlived,
)
from app.certs.rotation import (
    Renewal,
    Wanted,
    can_sign,
    careful,
    settled,
    signed_by_own_authority,
    successor,
    trusted,
)
from app.certs.secrets import MANAGED_BY, MANAGER, StoredFiles, read_secret, write_secret
from app.errors import Terminal, Transient, UsageError
from app.kube.client import KubeClient
from app.kube.retry import Sleep, until_no_conflict

RENEW = "berth.dev/renew"
"""Annotation on the Secret, by an admin: `certificate` or `ca` is renewed at once, then the annotation goes; `revoke`
is like `ca`, and minutes later no other CA is trusted"""
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
        self._service = ServiceName(options.namespace, options.service)
        self._known: StoredFiles | None = None

    async def keep(self, now: datetime) -> Kept:
        """Bring the Secret and every caBundle up to date; returns what the Secret holds.

        Raises Terminal for a Secret that Berth does not manage and cannot use, ApiError where the API server refuses a
        request.
        """
        return await until_no_conflict(lambda: self._pass(now), sleep=self._sleep)

    async def _pass(self, now: datetime) -> Kept:
        written: list[str] = []
        for _ in range(_STEPS):
            present = await self._present()
            await self._trust(present, now=now)
            if present.version and not present.ours:
                return _foreign(present)
            following, asked = self._following(present, now=now)
            if present.version and (following.files, following.annotations) == (present.files, present.annotations):
                self._known = present
                return self._kept(present, written)
            await write_secret(self._client, following, following.files)
            # A certificate that sheds its chain is no other; each has a key of its own.
            if following.files.get(f"{SERVING}.key") != present.files.get(f"{SERVING}.key") or not present.version:
                written.append(self._options.secret)
            revoked = following.annotations.get(REVOKED, "")
            _log.info("secret written", secret=present.place, renew=asked or "as due", revoked=revoked)
        raise Transient(f"Secret {self._options.namespace}/{self._options.secret}: another client keeps changing it")

    async def _present(self) -> StoredFiles:
        """What there is; for a Secret that is gone or cannot sign, with what is remembered of it, if that holds still.

        What no caller trusts any more has been revoked while we did not look, and is forgotten.
        """
        present = await read_secret(self._client, self._options.secret, namespace=self._options.namespace)
        known = self._known
        if known is None or can_sign(present.files):
            return present
        callers = [
            authority
            for name in self._options.configurations
            for resource in CONFIGURATIONS
            for authority in await trusting(self._client, resource, name, service=self._service)
        ]
        if callers and load(known.files, AUTHORITY).certificate not in callers:
            self._known = None
        elif not present.version:
            wishes = {name: value for name, value in known.annotations.items() if name in (RENEW, REVOKED)}
            return replace(present, annotations=wishes)
        return present

    def _following(self, present: StoredFiles, *, now: datetime) -> tuple[StoredFiles, Renewal]:
        """What the Secret is to be, and the renewal that was asked for and is done with it."""
        known = self._known.files if self._known else {}
        base = present.files if can_sign(present.files) or not known else known
        asked, mark = _asked(present), present.annotations.get(REVOKED, "")
        # A new CA needs the one before it known to every caller, and a revocation its end. The wish stays until then.
        if asked in ("ca", "revoke") and can_sign(base) and (mark == PENDING or now < settled(base)):
            asked = ""
        files = careful(present.files, successor(base, self._wanted, now=now, force=asked), now=now)
        files = without_outlived(files, days=self._options.days, now=now)
        mark = next_mark(mark, files, revoke=asked == "revoke", now=now)
        if is_alone(mark, files):
            files = alone(files)
        gone = (REVOKED, RENEW) if asked else (REVOKED,)
        annotations = {name: value for name, value in present.annotations.items() if name not in gone}
        return replace(present, files=files, annotations=annotations | ({REVOKED: mark} if mark else {})), asked

    def _kept(self, present: StoredFiles, written: list[str]) -> Kept:
        files, pending = present.files, present.annotations.get(REVOKED) == PENDING
        serving, authority = load(files, SERVING).certificate, load(files, AUTHORITY).certificate
        due = min(renewal_due(serving), renewal_due(authority))
        if pending:
            due = min(due, handed_over(files))
        if (_asked(present) and not pending) or not signed_by_own_authority(files):
            due = min(due, settled(files))  # it waits for the callers of the CA
        return Kept({self._options.secret: serving.not_valid_after_utc}, tuple(written), due)

    async def _trust(self, present: StoredFiles, *, now: datetime) -> None:
        """Have every configuration trust the CAs of the Secret, if there are any, and of others what is needed."""
        files = present.files
        authorities = trusted(files)
        keeps: Keeps = everything
        if present.ours and is_alone(present.annotations.get(REVOKED, ""), files):
            authorities, keeps = [load(files, AUTHORITY).certificate], nothing
        elif present.ours and can_sign(files) and without_outlived(files, days=self._options.days, now=now) == files:
            # Drop a CA here only after the Secret has: a process with a wrong clock does not write the Secret.
            keeps = needed_still(files, days=self._options.days, now=now)
        if not authorities:
            return
        for name in self._options.configurations:
            for resource in CONFIGURATIONS:
                result = await trust(
                    self._client,
                    resource,
                    name,
                    authorities=authorities,
                    service=self._service,
                    now=now,
                    keeps=keeps,
                    sleep=self._sleep,
                )
                if result is not None and result.changed:
                    _log.info("caBundle written", kind=result.kind, name=name, webhooks=result.changed)


def _asked(present: StoredFiles) -> Renewal:
    wish = present.annotations.get(RENEW, "")
    known: tuple[Renewal, ...] = get_args(Renewal)
    return next((renewal for renewal in known if renewal == wish), "")


def _foreign(present: StoredFiles) -> Kept:
    """A Secret that Berth does not manage is used as it is: its CA is trusted, and Berth does not renew it."""
    try:
        serving = load(present.files, SERVING).certificate
    except UsageError as error:
        problem = str(error)
    else:
        if trusted(present.files):
            return Kept({present.name: serving.not_valid_after_utc}, (), renewal_due(serving))
        problem = f"{AUTHORITY}.crt is missing"
    raise Terminal(
        f"{present.place} is not managed by Berth and cannot be used: {problem}; delete it, or hand it over with the "
        f"label {MANAGED_BY}={MANAGER}"
    )
