"""Validation of security contexts, and what the operating system of a Pod rules out, in the API server's words. Pure.

Source: `validateLinux`, `validateWindows` and the checks of Windows options of Kubernetes 1.37.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.kinds.fielderrors import Field, invalid
from app.kinds.name_syntax import descending_path_faults, subdomain_faults
from app.wire import JSON

_SYSTEMS = ("linux", "windows")
_POD_FIELDS = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls", "runAsUser",
    "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy",
)  # fmt: skip
_CONTAINER_FIELDS = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged",
    "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup",
)  # fmt: skip
_NOT_ON_WINDOWS = "cannot be set for a windows pod"
_LONGEST_SPEC = 64 * 1024
_LONGEST_DOMAIN = 255
_LONGEST_USER = 104
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NETBIOS = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}', re.DOTALL)
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_WRONG_IN_USER = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
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


def check_system(pod: Field) -> None:
    """The name of the Pod's operating system, and what cannot be set for it; where none is named, all can."""
    _check_host_processes(pod)
    for system in pod.present("os"):
        if not system.text("name"):
            system.fault("name", "Required")
        elif system.text("name") not in _SYSTEMS:
            supported = ", ".join(f'"{name}"' for name in _SYSTEMS)
            system.fault("", "NotSupported", f"supported values: {supported}", system.text("name"))
        elif system.text("name") == "linux":
            for holder in (pod, *containers_of(pod)):
                context = holder.below("securityContext")
                _forbid(context, ("windowsOptions",), "windows options cannot be set for a linux pod")
        else:
            _check_windows(pod)


def containers_of(pod: Field) -> Iterator[Field]:
    """All containers, in the order in which the server visits them."""
    for kind in ("initContainers", "containers"):
        yield from pod.each(kind)


def _check_windows(pod: Field) -> None:
    _forbid(pod.below("securityContext"), _POD_FIELDS, _NOT_ON_WINDOWS)
    _forbid(pod, ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"), _NOT_ON_WINDOWS)
    for container in containers_of(pod):
        _forbid(container.below("securityContext"), _CONTAINER_FIELDS, _NOT_ON_WINDOWS)


def _forbid(holder: Field, fields: tuple[str, ...], text: str) -> None:
    for field in fields:
        empty = (field == "sysctls" and not holder.value.get(field)) or (
            field in ("hostPID", "hostIPC") and not holder.value.get(field)
        )
        if field in holder.value and not empty:
            holder.fault(field, "Forbidden", text)


def check_windows_options(options: Field) -> None:
    """Credentials of a group-managed account, and the user that runs the process."""
    if "gmsaCredentialSpecName" in options.value:
        options.syntax("gmsaCredentialSpecName", subdomain_faults)
    for text in [options.text("gmsaCredentialSpec")] if "gmsaCredentialSpec" in options.value else []:
        if not text:
            options.fault("gmsaCredentialSpec", "Invalid", "gmsaCredentialSpec cannot be an empty string")
        elif len(text.encode()) > _LONGEST_SPEC:
            options.fault("gmsaCredentialSpec", "Invalid", "gmsaCredentialSpec size must be under 64 KiB")
    if "runAsUserName" in options.value:
        name = options.text("runAsUserName")
        texts = [f"runAsUserName{text}" for text in _user_faults(name)]
        options.errors += invalid(options.at("runAsUserName"), name, texts)


def _user_faults(name: str) -> list[str]:
    if not name:
        return [" cannot be an empty string"]
    if _CONTROL.search(name):
        return [" cannot contain control characters"]
    if name.count("\\") > 1:
        return [" cannot contain more than one backslash"]
    domain, backslash, user = name.rpartition("\\")
    faults = []
    if len(domain.encode()) > _LONGEST_DOMAIN:
        faults.append(f"'s Domain length must be under {_LONGEST_DOMAIN + 1} characters")
    if backslash and not (_NETBIOS.fullmatch(domain) or _DOMAIN.fullmatch(domain)):
        faults.append("'s Domain doesn't match the NetBios nor the DNS format")
    if not user:
        faults.append("'s User cannot be empty")
    elif len(user.encode()) > _LONGEST_USER:
        faults.append(f"'s User length must not be longer than {_LONGEST_USER} characters")
    if user and not user.strip(". "):
        faults.append("'s User cannot contain only periods or spaces")
    if _WRONG_IN_USER.search(user):
        faults.append("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
    return faults


def _check_host_processes(pod: Field) -> None:
    """Containers that are processes of a Windows host: all of them or none, and in the host's network."""
    of_pod = _host_process(pod)
    count = 0
    containers = list(containers_of(pod))
    for container in containers:
        own = _host_process(container)
        if None not in (of_pod, own) and own != of_pod:
            text = f"pod hostProcess value must be identical if both are specified, was {str(of_pod).lower()}"
            container.fault("securityContext.windowsOptions.hostProcess", "Invalid", text, own)
        count += bool(of_pod if own is None else own)
    if not count:
        return
    if count != len(containers):
        text = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        pod.fault("", "Invalid", text, "")
    if not pod.value.get("hostNetwork"):
        text = "hostNetwork must be true if pod contains any hostProcess containers"
        pod.fault("hostNetwork", "Invalid", text, value=False)


def _host_process(holder: Field) -> bool | None:
    host_process: bool | None = holder.below("securityContext").below("windowsOptions").value.get("hostProcess")
    return host_process
