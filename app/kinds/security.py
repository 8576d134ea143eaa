"""Validation of security contexts, of Pods and of containers, in the API server's words. Pure."""

from __future__ import annotations

import re

from app.kinds.fielderrors import Field

_HIGHEST_ID = 2**31 - 1
_ID_TEXT = f"must be between 0 and {_HIGHEST_ID}, inclusive"
_SYSCTL = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL_FORM = re.compile(_SYSCTL, re.ASCII)
_SYSCTL_LIMIT = 253


def check_pod_security(pod: Field) -> None:
    """The security context of a Pod, and what it shares with the host."""
    context, spec = pod.below("securityContext"), pod.value
    _check_ids(context, "fsGroup", "runAsUser", "runAsGroup")
    for here, group in context.entries("supplementalGroups"):
        if not 0 <= group <= _HIGHEST_ID:
            context.fault(here, "Invalid", _ID_TEXT, group)
    context.one_of("fsGroupChangePolicy", ("Always", "OnRootMismatch"), optional=True)
    context.one_of("supplementalGroupsPolicy", ("Merge", "Strict"), optional=True)
    seen: set[str] = set()
    for sysctl in context.each("sysctls"):
        name = sysctl.text("name")
        if sysctl.required("name") and (len(name) > _SYSCTL_LIMIT or not _SYSCTL_FORM.fullmatch(name)):
            sysctl.fault("name", "Invalid", f"must have at most {_SYSCTL_LIMIT} characters and match regex ^{_SYSCTL}$")
        elif name:
            sysctl.unique("name", name, seen)
    _check_profiles(context)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        context.fault("shareProcessNamespace", "Invalid", text, value=True)
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get("hostUsers") is False and spec.get(field):
            pod.fault(field, "Forbidden", "when `hostUsers` is false")


def check_container_security(context: Field) -> None:
    """The security context of one container."""
    _check_ids(context, "runAsUser", "runAsGroup")
    context.one_of("procMount", ("Default", "Unmasked"), optional=True)
    _check_profiles(context)
    if context.value.get("allowPrivilegeEscalation") is False:
        added = (context.value.get("capabilities") or {}).get("add") or []
        refused = ["`privileged` to true"] if context.value.get("privileged") else []
        refused += ["`capabilities.Add` CAP_SYS_ADMIN"] if "CAP_SYS_ADMIN" in added else []
        for what in refused:
            text = f"cannot set `allowPrivilegeEscalation` to false and {what}"
            context.fault("", "Invalid", text, context.value)


def _check_ids(context: Field, *fields: str) -> None:
    for field in fields:
        context.number(field, 0, _ID_TEXT, _HIGHEST_ID)


def _check_profiles(context: Field) -> None:
    for field, word in (("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")):
        if field not in context.value:
            continue
        profile = context.below(field)
        if profile.required("type", f"type is required when {field} is set"):
            profile.one_of("type", ("Localhost", "RuntimeDefault", "Unconfined"))
        if profile.text("type") == "Localhost":
            profile.required("localhostProfile", f"must be set when {word} type is Localhost")
        elif "localhostProfile" in profile.value:
            profile.fault("localhostProfile", "Invalid", f"can only be set when {word} type is Localhost")
