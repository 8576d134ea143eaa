"""Keeps certificates in a cluster up to date for as long as it runs: on every change of a watched object, and when due.

Each subject defines its pass, which is safe to repeat. Any number of these may run at once, without a Lease:
concurrent writes are resolved by the Secrets' resourceVersion.

The pass over the webhook's certificate and the trust in its CA is safe for concurrent callers, as `install` is. Here
the chart owns the webhook configurations: only caBundle is written, and a missing configuration is waited for. The
order keeps requests from failing: every configuration trusts a CA before its successor is written, and a CA without a
bridge signs nothing until the callers have had time to load it. A revoked CA is removed when it is not needed any
more: see `rotation`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, get_args

import structlog
from prometheus_client import Counter, Gauge

from app.certs import issuing, patching, rotation
from app.certs.certificate_set import AUTHORITY, SERVING, CertificateSet, renewal_due
from app.certs.settings import CertificatesSettings
from app.errors import BerthError, Terminal, Transient, UsageError
from app.kube.client import KubeClient
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.events import Regarding
from app.kube.kit import Kit, Wakes
from app.kube.resources import SECRETS, Resource
from app.kube.retry import Sleep, until_no_conflict
from app.kube.secrets import MANAGED_BY, MANAGER, StoredFiles, read_secret, write_secret
from app.kube.store import Key, Store
from app.kube.walls import Apart
from app.text import utc_now
from app.wire import JSON
from app.wiring import REGISTRATION_DELETED

CONTROLLER = "certificates"
_FAULT = "an internal error; the log has it"
_log = structlog.get_logger(__name__)
MANAGED = Gauge("cert_managed_not_after_seconds", "Unix time at which the certificate in a Secret expires", ("secret",))
RENEWALS = Counter("cert_renewals_total", "Certificates written into a Secret, the first included", ("secret",))
RENEW = "berth.dev/renew"
"""Annotation on the Secret, by an admin: `certificate` or `ca` is renewed at once, then the annotation goes; `revoke`
is like `ca`, and minutes later no other CA is trusted"""
_STEPS = 5
"""Writes of one pass: a CA, its certificate, and some patience with rivals that damage it."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a pass found: the ends of certificates by their Secrets, the Secrets renewed in it, and when to look again.

    A Secret counts as renewed when what it serves or signs with is another than before, the first included.
    """

    ends: Mapping[str, datetime]
    renewed: tuple[str, ...]
    next_due: datetime


@dataclass(frozen=True, slots=True)
class Subject:
    """What is kept by one function: `keep` is woken by changes of these Secrets and webhook configurations."""

    name: str
    keep: Callable[[datetime], Awaitable[Kept]]
    secrets: tuple[str, ...]
    configurations: tuple[str, ...] = ()


class Keeper:
    """Keeps all of its subjects, as the controller of the kit; Secrets are those of `namespace`.

    `now` is aware and UTC. The kit gets ready when each pass has succeeded.
    """

    def __init__(
        self, kit: Kit, subjects: Sequence[Subject], *, namespace: str, now: Callable[[], datetime] = utc_now
    ) -> None:
        self._subjects = {subject.name: subject for subject in subjects}
        self._problems = dict.fromkeys(self._subjects, "not looked at yet")
        self._now, self._resync = now, kit.resync
        wakes: dict[Store[Any], Wakes] = {}
        for subject in subjects:
            # Of the object itself nothing is cached: a pass reads what it needs.
            woken = partial(_wake, subject.name)
            for name in subject.secrets:
                RENEWALS.labels(name)  # at zero, so that a rate over it is right from the first scrape
                wakes[kit.cache(SECRETS, _version, namespace=namespace, fields=f"metadata.name={name}")] = woken
            for name in subject.configurations:
                for resource in patching.CONFIGURATIONS:
                    configurations = kit.cache(resource, _version, fields=f"metadata.name={name}")
                    configurations.subscribe(partial(_tell_deleted, kit, resource))
                    wakes[configurations] = woken
        kit.reconcile(
            CONTROLLER,
            self._reconcile,
            stores=(),
            keys=lambda: self._subjects,
            wakes=wakes,
            workers=len(subjects),
            turn=None,
        )
        kit.waits_for(lambda: (f"{name}: {problem}" for name, problem in self._problems.items() if problem))

    async def _reconcile(self, name: str) -> Result:
        """One pass over a subject; a mistake of a user is not tried again before something changes."""
        problem, now = _FAULT, self._now()
        try:
            kept = await self._subjects[name].keep(now)
            problem = ""
        except UsageError as error:
            problem = str(error)
            raise Terminal(problem) from error
        except BerthError as error:
            problem = str(error)
            raise
        finally:
            self._problems[name] = problem
        for secret, not_after in kept.ends.items():
            MANAGED.labels(secret).set(not_after.timestamp())
        for secret in kept.renewed:
            RENEWALS.labels(secret).inc()
            _log.info("certificate renewed", secret=secret, not_after=kept.ends[secret])
        left = (kept.next_due - now).total_seconds()
        # A renewal due after the next resync gets no timer: clocks are set and machines sleep, and the resync checks
        # again. What is still overdue after a pass is not managed by Berth.
        return RequeueAfter(max(1.0, left)) if 0 < left < (self._resync or math.inf) else Done()


def _wake(subject: str, _key: Key, _old: object, _new: object) -> Iterable[str]:
    return (subject,)


def _tell_deleted(kit: Kit, resource: Resource, _event: object, key: Key, old: object, new: object) -> None:
    """A configuration that is gone says nothing, and Pods are created without Berth from then on.

    Each replica watches, and writes an Event of its own: of one deletion there are as many as replicas.
    """
    if kit.events is not None and old is not None and new is None:
        message = f"{resource.kind} {key[1]} was deleted: Berth is not called any more for what it registered"
        regarding = Regarding.of(resource, key, "")
        kit.events.record(regarding, "Warning", reason=REGISTRATION_DELETED, message=message)


def _version(obj: JSON) -> str:
    return str(obj["metadata"].get("resourceVersion"))


@dataclass(frozen=True, slots=True)
class _State:
    """The Secret and what it holds."""

    secret: StoredFiles
    held: CertificateSet

    @property
    def mark(self) -> str:
        return self.secret.annotations.get(rotation.REVOKED, "")

    @property
    def asked(self) -> rotation.Renewal:
        """The renewal that an admin wishes."""
        wish = self.secret.annotations.get(RENEW, "")
        renewals: tuple[rotation.Renewal, ...] = get_args(rotation.Renewal)
        return next((renewal for renewal in renewals if renewal == wish), "")


class WebhookCertificates:
    """Keeps them. Remembers the last whole set, so that a Secret that is deleted comes back as it was.

    `dns` are names that the certificate has beside those of the Service.
    """

    def __init__(
        self,
        client: KubeClient,
        settings: CertificatesSettings,
        *,
        dns: Sequence[str] = (),
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        names = issuing.serving_names(service=settings.webhook_service, namespace=settings.namespace, dns=dns)
        self._client, self._settings, self._sleep = client, settings, sleep
        self._wanted = rotation.webhook(names, days=settings.days, authority_days=settings.ca_days)
        self._service = patching.ServiceName(settings.namespace, settings.webhook_service)
        self._known: _State | None = None

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
            apart = await self._trust(present, now=now)
            secret = present.secret
            if secret.version and not secret.ours:
                apart.end()
                return _foreign(present)
            after, request = self._following(present, now=now)
            if _signer(after) != _signer(present):
                apart.end()  # a CA has no successor before each configuration trusts it; a certificate may have one
            if secret.version and after.secret == secret:
                self._known = present
                apart.end()
                return self._kept(present, written)
            await write_secret(self._client, after.secret, after.secret.files)
            # A certificate that sheds its chain is no other.
            served = present.held.pairs.get(SERVING)
            if not secret.version or served is None or served.certificate != after.held.serving.certificate:
                written.append(self._settings.webhook_secret)
            _log.info("secret written", secret=secret.place, renew=request or "as due", revoked=after.mark)
        raise Transient(
            f"Secret {self._settings.namespace}/{self._settings.webhook_secret}: another client keeps changing it"
        )

    async def _present(self) -> _State:
        """What there is; for a Secret that is gone or cannot sign, with what is remembered of it, if that holds still.

        A CA that no caller trusts any more was revoked meanwhile, and is forgotten.
        """
        secret = await read_secret(self._client, self._settings.webhook_secret, namespace=self._settings.namespace)
        present, before = _State(secret, CertificateSet.parse(secret.files, leaves=[SERVING])), self._known
        if before is None or present.held.can_sign:
            return present
        callers = await patching.trusting(self._client, self._settings.configuration, service=self._service)
        if callers and before.held.authority.certificate not in callers:
            self._known = None
        elif not secret.version:
            wishes = {
                name: value for name, value in before.secret.annotations.items() if name in (RENEW, rotation.REVOKED)
            }
            return _State(replace(secret, annotations=wishes), present.held)
        return present

    def _following(self, present: _State, *, now: datetime) -> tuple[_State, rotation.Renewal]:
        """What the Secret is to be, and the renewal that was asked for and is done with it."""
        base = present.held if present.held.can_sign or self._known is None else self._known.held
        request, mark = present.asked, present.mark
        # A new CA needs the one before it known to every caller, and a revocation its end. The wish stays until then.
        if request in ("ca", "revoke") and base.can_sign and (mark == rotation.PENDING or now < rotation.settled(base)):
            request = ""
        held = rotation.careful(present.held, rotation.successor(base, self._wanted, now=now, force=request), now=now)
        held = rotation.without_outlived(held, days=self._settings.days, now=now)
        mark = rotation.next_mark(mark, held, revoke=request == "revoke", now=now)
        if rotation.is_alone(mark, held):
            held = rotation.alone(held)
        gone = (rotation.REVOKED, RENEW) if request else (rotation.REVOKED,)
        annotations = {name: value for name, value in present.secret.annotations.items() if name not in gone}
        annotations |= {rotation.REVOKED: mark} if mark else {}
        return _State(replace(present.secret, files=held.files, annotations=annotations), held), request

    def _kept(self, present: _State, written: list[str]) -> Kept:
        held, pending = present.held, present.mark == rotation.PENDING
        due = held.next_due
        if pending:
            due = min(due, rotation.handed_over(held))
        if (present.asked and not pending) or not held.signed_by_own_authority:
            due = min(due, rotation.settled(held))  # it waits for the callers of the CA
        return Kept({self._settings.webhook_secret: held.serving.certificate.not_valid_after_utc}, tuple(written), due)

    async def _trust(self, present: _State, *, now: datetime) -> Apart:
        """Have every configuration trust the CAs of the Secret, if there are any, and of others what is needed.

        What the API server says of those that it does not take is in the result.
        """
        apart = Apart()
        authorities, keeps = present.held.trusted, None
        if present.secret.ours:
            authorities, keeps = rotation.trusted_by_callers(
                present.held, present.mark, days=self._settings.days, now=now
            )
        for name in self._settings.configuration if authorities else ():
            with apart.step():
                results = await patching.trust(
                    self._client,
                    name,
                    authorities=authorities,
                    service=self._service,
                    now=now,
                    keeps=keeps,
                    sleep=self._sleep,
                )
                for result in results:
                    if result.changed:
                        _log.info("caBundle written", kind=result.kind, name=name, webhooks=result.changed)
        return apart


def _signer(state: _State) -> object:
    """The CA that signs, and whether it is the only one."""
    return state.held.pairs.get(AUTHORITY), state.mark


def _foreign(present: _State) -> Kept:
    """A Secret that Berth does not manage is used as it is: its CA is trusted, and Berth does not renew it."""
    secret = present.secret
    try:
        serving = present.held.serving.certificate
    except UsageError as error:
        problem = str(error)
    else:
        if present.held.trusted:
            return Kept({secret.name: serving.not_valid_after_utc}, (), renewal_due(serving))
        problem = f"{AUTHORITY}.crt is missing"
    raise Terminal(
        f"{secret.place} is not managed by Berth and cannot be used: {problem}; if nothing else needs what it has, "
        f"hand it over with the label {MANAGED_BY}={MANAGER}"
    )
