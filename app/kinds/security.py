"""Validation of security contexts, of Pods and of containers, in the API server's words. Pure."""

from __future__ import annotations

import re

from app.kinds.fielderrors import Field, invalid
from app.kinds.name_syntax import descending_path_faults
from app.kinds.operating_system import check_windows_options, containers_of
from app.wire import JSON

_HIGHEST_ID = 2**31 - 1
_ID_TEXT = f"must be between 0 and {_HIGHEST_ID}, inclusive"
_SYSCTL = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL_FORM = re.compile(_SYSCTL, re.ASCII)
_SYSCTL_LIMIT = 253
_OF_IPC = frozenset(
    f"kernel.{name}" for name in (
        "sem", "shmall", "shmmax", "shmmni", "shm_rmid_forced", "msg", "msgmax", "msgmnb", "msgmni"
    )
)  # fmt: skip
_LONGEST_PROFILE = 4095
_PLAIN = ("RuntimeDefault", "Unconfined")
_PROFILES = (("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor"))


def check_pod_security(pod: Field) -> None:
    """The security context of a Pod, and what it shares with the host."""
    context, spec = pod.below("securityContext"), pod.value
    _check_context(context, spec)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        pod.fault("shareProcessNamespace", "Invalid", text, value=True)
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get("hostUsers") is False and spec.get(field):
            pod.fault(field, "Forbidden", "when `hostUsers` is false")
    for container in containers_of(pod) if spec.get("hostUsers") is False else ():
        if container.value.get("volumeDevices"):
            container.fault("volumeDevices", "Forbidden", "when `hostUsers` is false")


def _check_context(context: Field, spec: JSON) -> None:
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
        _check_namespace(sysctl, spec)
    context.one_of("seLinuxChangePolicy", ("MountOption", "Recursive"), optional=True)
    _check_profiles(context)
    check_windows_options(context.below("windowsOptions"))


def _check_namespace(sysctl: Field, spec: JSON) -> None:
    """A setting of a namespace that the Pod shares with the host is the host's."""
    name = sysctl.text("name")
    if (separator := re.search(r"[./]", name)) and separator[0] == "/":
        name = name.translate({ord("."): "/", ord("/"): "."})
    if spec.get("hostNetwork") and name.startswith("net."):
        sysctl.fault("name", "Invalid", "may not be specified when 'hostNetwork' is true")
    if spec.get("hostIPC") and (name in _OF_IPC or name.startswith("fs.mqueue.")):
        sysctl.fault("name", "Invalid", "may not be specified when 'hostIPC' is true")


def check_container_security(context: Field, *, host_users: bool) -> None:
    """The security context of one container. `host_users`: whether its users are those of the host."""
    _check_ids(context, "runAsUser", "runAsGroup")
    context.one_of("procMount", ("Default", "Unmasked"), optional=True)
    if host_users and context.text("procMount") == "Unmasked":
        context.fault("procMount", "Invalid", "`hostUsers` must be false to use `Unmasked`")
    _check_profiles(context)
    check_windows_options(context.below("windowsOptions"))
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
    for field, word in _PROFILES:
        if field not in context.value:
            continue
        profile = context.below(field)
        if profile.required("type", f"type is required when {field} is set"):
            profile.one_of("type", ("Localhost", "RuntimeDefault", "Unconfined"))
        if profile.text("type") == "Localhost":
            _check_local_profile(profile, word)
        elif "localhostProfile" in profile.value and (word == "seccomp" or profile.text("type") in _PLAIN):
            profile.fault("localhostProfile", "Invalid", f"can only be set when {word} type is Localhost")


def _check_local_profile(profile: Field, word: str) -> None:
    """A profile of the node: a file below a directory of kubelet, or a name that is loaded there."""
    name, missing = profile.text("localhostProfile"), f"must be set when {word} type is Localhost"
    if "localhostProfile" not in profile.value:
        profile.fault("localhostProfile", "Required", missing)
    elif word == "seccomp":
        profile.errors += invalid(profile.at("localhostProfile"), name, descending_path_faults(name))
    else:
        if name != name.strip():
            profile.fault("localhostProfile", "Invalid", "must not be padded with whitespace")
        elif not name:
            profile.fault("localhostProfile", "Required", missing)
        if len(name.encode()) > _LONGEST_PROFILE:
            profile.fault("localhostProfile", "TooLong", f"may not be more than {_LONGEST_PROFILE} bytes")
