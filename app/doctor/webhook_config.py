"""Checks how the API server calls a webhook: timeout, failurePolicy, path, rules and the other terms of the call."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from app.doctor.cluster import Cluster
from app.doctor.installed import installed
from app.doctor.model import Finding, Severity
from app.doctor.objects import plain
from app.doctor.remediation import fix, value_of
from app.doctor.webhooks import Registered
from app.errors import ApiError

_CHECK = "registrations"
_DEADLINE = "8"
_OF_TIMEOUT = 0.9
"""API servers say how long they wait, and the webhook answers within this part of it."""
_PATHS = {True: "/mutate", False: "/validate"}
_HARMLESS = ("None", "NoneOnDryRun")
"""An older API may have stored another, which API servers of today refuse to be given."""


async def deadline_of(cluster: Cluster) -> float:
    """How long the webhook works on one review, in seconds."""
    try:
        webhooks = [one for one in await installed(cluster) if one.role == "webhook"]
    except ApiError:
        webhooks = []
    given = [one.argument("--deadline-seconds", _DEADLINE) for one in webhooks] or [_DEADLINE]
    try:
        return max(map(float, given))
    except ValueError:
        return float(_DEADLINE)  # the webhook does not start with such a flag


def judge(cluster: Cluster, one: Registered, *, deadline: float) -> Iterator[Finding]:
    """On what terms the API server calls."""
    webhook = one.webhook
    yield from _path(cluster, one)
    if not one.fails_closed:
        confines = one.covers("", "pods", "CREATE") and (not one.mutating or _only_tenants(one))
        consequence = (
            f"while Berth is away, tenants' Pods are admitted without being {'confined' if one.mutating else 'checked'}"
            if confines
            else "while Berth is away, Pods start without their networks' resources and fail later, on their nodes"
            if one.mutating
            else "while Berth is away, broken attachments and rules are stored"
        )
        severity = Severity.warning if confines else Severity.info
        command = fix(cluster, one, "failurePolicy", "Fail", values=value_of(one, "failurePolicy", "Fail"))
        yield Finding(_CHECK, severity, one.subject, "failurePolicy is Ignore", consequence, command)
    timeout = webhook.get("timeoutSeconds") or 10
    if timeout * _OF_TIMEOUT < deadline:
        wanted = min(30, ceil(deadline / _OF_TIMEOUT))
        yield Finding(
            _CHECK,
            Severity.info,
            one.subject,
            f"timeoutSeconds is {timeout}: reviews have {timeout * _OF_TIMEOUT:g} s instead of {deadline:g} s",
            "Berth waits less long for an attachment that is just being made, before it says that there is none",
            fix(cluster, one, "timeoutSeconds", wanted, values=value_of(one, "timeoutSeconds", wanted)),
        )
    if one.mutating and webhook.get("reinvocationPolicy") != "IfNeeded":
        yield Finding(
            _CHECK,
            Severity.warning,
            one.subject,
            "reinvocationPolicy is Never",
            "containers and annotations that later webhooks add get nothing injected",
            fix(cluster, one, "reinvocationPolicy", "IfNeeded"),
        )
    if "v1" not in (webhook.get("admissionReviewVersions") or []):
        yield Finding(
            _CHECK,
            Severity.error,
            one.subject,
            "admissionReviewVersions lacks v1, the only one that Berth speaks",
            "every call fails",
            fix(cluster, one, "admissionReviewVersions", ["v1"]),
        )
    if (said := webhook.get("sideEffects")) not in _HARMLESS:
        yield Finding(
            _CHECK,
            Severity.error,
            one.subject,
            f"sideEffects is {said}",
            "the API server refuses every dry run of what it is called for, such as kubectl diff",
            fix(cluster, one, "sideEffects", "NoneOnDryRun"),
        )
    if one.mutating and not one.covers("", "pods", "CREATE"):
        rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
        yield Finding(
            _CHECK,
            Severity.error,
            one.subject,
            "its rules do not name the creation of Pods",
            "Berth is not called for Pods by it, and injects nothing",
            fix(cluster, one, "rules", [rule]),
        )


def _path(cluster: Cluster, one: Registered) -> Iterator[Finding]:
    """What is called there: Pods are changed at one path, objects checked at the other, and nothing is at any else."""
    wanted = _PATHS[one.mutating]
    path = ((one.webhook.get("clientConfig") or {}).get("service") or {}).get("path") or "/"
    if one.service is not None and path != wanted:
        yield Finding(
            _CHECK,
            Severity.error,
            one.subject,
            f"calls the path {plain(path)} of the Service, where Berth answers at {wanted}",
            "every call fails" + (", and what it is called for cannot be created" if one.fails_closed else ""),
            fix(cluster, one, "clientConfig/service/path", wanted),
        )


def _only_tenants(one: Registered) -> bool:
    """Whether it is not called for a namespace that has only the label of the API server."""
    return not one.selects_namespace({"kubernetes.io/metadata.name": "default"})
