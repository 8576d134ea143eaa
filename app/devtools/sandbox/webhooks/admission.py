"""Calls admission webhooks as the API server does: which, in what order, and what their answers mean for the request.

Mutating webhooks run one after another, by configuration name and then in the order of the configuration, with a second
round for those that asked to see later changes; validating ones run side by side. Matching is in `webhookrules`, the
review's form in `webhookreview`, the wire in `webhookcalls`. Nothing is stored here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from app.cel.matchconditions import Attributes
from app.cel.webhookrules import MatchFailed, Target, is_exempt, match
from app.devtools.sandbox.api.failures import failure
from app.devtools.sandbox.webhooks.webhookcalls import CallFailed, WebhookCaller
from app.devtools.sandbox.webhooks.webhookreview import (
    BadAnswer,
    Verdict,
    apply_patch,
    build_review,
    pick_version,
    read_answer,
)
from app.errors import BerthError
from app.wire import JSON


class AdmissionRejected(BerthError):
    """A webhook said no, or had to be asked and could not be; `status` is the Status to answer with."""

    def __init__(self, status: JSON) -> None:
        super().__init__(status.get("message", ""))
        self.status = status


class WebhookDispatcher:
    """The two admission phases over the registered webhooks.

    `configurations("mutating" | "validating")` lists the configuration objects, `namespaces(name)` finds a Namespace,
    `resolve_service(namespace, name, port)` says where a Service listens (None: there is no such Service).
    `defaults` runs over an object that a webhook changed. `versions(group, resource)` are the served versions, for
    matchPolicy Equivalent. `client_certificate` (certificate and key file) is shown to webhooks that ask for one.
    """

    def __init__(
        self,
        configurations: Callable[[str], list[JSON]],
        namespaces: Callable[[str], JSON | None],
        resolve_service: Callable[[str, str, int], tuple[str, int] | None],
        *,
        defaults: Callable[[JSON], JSON] | None = None,
        versions: Callable[[str, str], Sequence[str]] | None = None,
        client_certificate: tuple[str, str] | None = None,
    ) -> None:
        self._configurations = configurations
        self._namespaces = namespaces
        self._defaults = defaults
        self._versions = versions
        self._caller = WebhookCaller(resolve_service, client_certificate=client_certificate)

    async def mutate(self, attributes: Attributes, obj: JSON | None) -> tuple[JSON, list[str]]:
        """The object after all mutating webhooks, and their warnings; raises `AdmissionRejected`.

        For a DELETE (`obj` None) the object in the answer is empty.
        """
        warnings: list[str] = []
        hooks = self._hooks("mutating", attributes)
        seen: list[int] = []
        again: set[int] = set()
        for round_hooks in (list(enumerate(hooks)), None):
            chosen = (
                [(at, hook) for at, hook in enumerate(hooks) if at in again] if round_hooks is None else round_hooks
            )
            for at, hook in chosen:
                changed, verdict = await self._mutate_once(hook, attributes, obj)
                if verdict is None:
                    continue
                warnings += verdict.warnings
                if changed is not None and changed != obj:
                    obj = changed
                    again.update(seen)
                    seen.clear()
                if round_hooks is not None and hook.get("reinvocationPolicy") == "IfNeeded":
                    seen.append(at)
        return obj or {}, warnings

    async def validate(self, attributes: Attributes, obj: JSON | None) -> list[str]:
        """The warnings of all validating webhooks; raises `AdmissionRejected` with the first refusal in order."""
        calls = [self._call(hook, attributes, obj) for hook in self._hooks("validating", attributes)]
        if not calls:
            return []
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return [warning for outcome in outcomes if isinstance(outcome, tuple) for warning in outcome[1].warnings]

    async def close(self) -> None:
        """Closes the connection pool; the dispatcher is of no use afterwards."""
        await self._caller.close()

    def _hooks(self, phase: str, attributes: Attributes) -> list[JSON]:
        if is_exempt(attributes.group, attributes.resource):
            return []
        ordered = sorted(self._configurations(phase), key=lambda one: str(one.get("metadata", {}).get("name", "")))
        return [hook for configuration in ordered for hook in configuration.get("webhooks") or []]

    async def _mutate_once(
        self, hook: JSON, attributes: Attributes, obj: JSON | None
    ) -> tuple[JSON | None, Verdict | None]:
        outcome = await self._call(hook, attributes, obj)
        if outcome is None:
            return None, None
        target, verdict = outcome
        if not verdict.patch:
            return None, verdict
        try:
            patched = apply_patch(hook["name"], verdict.patch, target.convert(obj))
        except BadAnswer as error:
            raise AdmissionRejected(_internal(str(error))) from error
        restored = patched if obj is None else {**patched, "apiVersion": obj.get("apiVersion")}
        return (self._defaults(restored) if self._defaults else restored), verdict

    async def _call(self, hook: JSON, attributes: Attributes, obj: JSON | None) -> tuple[Target, Verdict] | None:
        """One webhook, if it is to be called: None where it does not match or failed and may be ignored."""
        target = self._match(hook, attributes, obj)
        if target is None:
            return None
        name = hook["name"]
        if attributes.dry_run and hook.get("sideEffects") not in ("None", "NoneOnDryRun"):
            raise AdmissionRejected(_failure(400, "BadRequest", f'admission webhook "{name}" does not support dry run'))
        try:
            version = pick_version(hook)
            review = build_review(attributes, obj, target, version=version)
            answer = await self._caller.call(hook, review)
            verdict = read_answer(answer, uid=review["request"]["uid"], version=version)
        except (CallFailed, BadAnswer) as error:
            if hook.get("failurePolicy", "Fail") == "Ignore":
                return None
            text = str(error) if isinstance(error, CallFailed) else f"received invalid webhook response: {error}"
            raise AdmissionRejected(_internal(f'failed calling webhook "{name}": {text}')) from error
        if not verdict.allowed:
            raise AdmissionRejected(_denial(name, verdict.status))
        return target, verdict

    def _match(self, hook: JSON, attributes: Attributes, obj: JSON | None) -> Target | None:
        versions = self._versions(attributes.group, attributes.resource) if self._versions else ()
        try:
            return match(hook, attributes, obj, namespaces=self._namespaces, versions=versions)
        except MatchFailed as error:
            if error.ignorable and hook.get("failurePolicy", "Fail") == "Ignore":
                return None
            raise AdmissionRejected(_failure(error.code, error.reason, str(error))) from error


def _failure(code: int, reason: str, message: str) -> JSON:
    return failure(code, reason, message).status


def _internal(message: str) -> JSON:
    status = _failure(500, "InternalError", f"Internal error occurred: {message}")
    return {**status, "details": {"causes": [{"message": message}]}}


def _denial(name: str, result: JSON) -> JSON:
    """The webhook's own Status, made fit to be an error: code, reason and details are carried over."""
    code = result.get("code")
    denied = f'admission webhook "{name}" denied the request'
    why = result.get("message") or result.get("reason")
    status: JSON = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"{denied}: {why}" if why else f"{denied} without explanation",
        "code": code if isinstance(code, int) and code >= 400 else 400,
    }
    return status | {key: result[key] for key in ("reason", "details") if result.get(key)}
