"""Validation of security contexts, of Pods and of containers, in the API server's words. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from app.kinds.fielderrors import FieldError
from app.kinds.name_syntax import supported

if TYPE_CHECKING:
    from app.wire import JSON

_HIGHEST_ID = 2**31 - 1
_ID_TEXT = f"must be between 0 and {_HIGHEST_ID}, inclusive"
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL_FORM = re.compile(_SYSCTL, re.ASCII)
_SYSCTL_LIMIT = 253


def check_pod_security(spec: JSON, path: str) -> list[FieldError]:
    """The security context of a Pod, and what it shares with the host; `path` is the spec's."""
    here, context = f"{path}.securityContext", spec.get("securityContext") or {}
    errors = _check_ids(context, here, ("fsGroup", "runAsUser", "runAsGroup"))
    errors += [
        FieldError(f"{here}.supplementalGroups[{index}]", "Invalid", _ID_TEXT, group)
        for index, group in enumerate(context.get("supplementalGroups") or [])
        if not 0 <= group <= _HIGHEST_ID
    ]
    for field, values in (
        ("fsGroupChangePolicy", ("Always", "OnRootMismatch")),
        ("supplementalGroupsPolicy", ("Merge", "Strict")),
    ):
        if field in context:
            errors += supported(f"{here}.{field}", context[field], values)
    errors += _check_sysctls(context.get("sysctls") or [], f"{here}.sysctls")
    errors += _check_profiles(context, here)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(FieldError(f"{here}.shareProcessNamespace", "Invalid", text, bad_value=True))
    if spec.get("hostUsers") is False:
        errors += [
            FieldError(f"{path}.{field}", "Forbidden", "when `hostUsers` is false")
            for field in ("hostNetwork", "hostPID", "hostIPC")
            if spec.get(field)
        ]
    return errors


def check_container_security(context: JSON, path: str) -> list[FieldError]:
    """The security context of one container."""
    errors = _check_ids(context, path, ("runAsUser", "runAsGroup"))
    if "procMount" in context:
        errors += supported(f"{path}.procMount", context["procMount"], ("Default", "Unmasked"))
    errors += _check_profiles(context, path)
    if context.get("allowPrivilegeEscalation") is False:
        added = (context.get("capabilities") or {}).get("add") or []
        refused = ["`privileged` to true"] if context.get("privileged") else []
        refused += ["`capabilities.Add` CAP_SYS_ADMIN"] if "CAP_SYS_ADMIN" in added else []
        text = "cannot set `allowPrivilegeEscalation` to false and"
        errors += [FieldError(path, "Invalid", f"{text} {what}", context) for what in refused]
    return errors


def _check_ids(context: JSON, path: str, fields: tuple[str, ...]) -> list[FieldError]:
    return [
        FieldError(f"{path}.{field}", "Invalid", _ID_TEXT, context[field])
        for field in fields
        if not 0 <= context.get(field, 0) <= _HIGHEST_ID
    ]


def _check_sysctls(sysctls: list[JSON], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        here, name = f"{path}[{index}].name", sysctl.get("name") or ""
        if not name:
            errors.append(FieldError(here, "Required"))
        elif len(name) > _SYSCTL_LIMIT or not _SYSCTL_FORM.fullmatch(name):
            text = f"must have at most {_SYSCTL_LIMIT} characters and match regex ^{_SYSCTL}$"
            errors.append(FieldError(here, "Invalid", text, name))
        elif name in seen:
            errors.append(FieldError(here, "Duplicate", "", name))
        seen.add(name)
    return errors


def _check_profiles(context: JSON, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field, word in (("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")):
        profile = context.get(field)
        if profile is None:
            continue
        here, kind, local = f"{path}.{field}", profile.get("type") or "", profile.get("localhostProfile")
        if not kind:
            errors.append(FieldError(f"{here}.type", "Required", f"type is required when {field} is set"))
        else:
            errors += supported(f"{here}.type", kind, _PROFILES)
        if kind == "Localhost" and not local:
            text = f"must be set when {word} type is Localhost"
            errors.append(FieldError(f"{here}.localhostProfile", "Required", text))
        elif kind != "Localhost" and local is not None:
            text = f"can only be set when {word} type is Localhost"
            errors.append(FieldError(f"{here}.localhostProfile", "Invalid", text, local))
    return errors
