"""What a tenant's Pod may not ask of the infra cluster: the host, other identities, a place of its own choice.

The list is the `baseline` level of the Pod Security Standards
(https://kubernetes.io/docs/concepts/security/pod-security-standards/), and what would break the walls between tenants
beside it. Pure: arbitrary JSON in, one line for each finding, beginning with the field's path. Whether a Pod is valid
at all is not judged here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.placement.policy import TenantPolicy
from app.wire import JSON
from app.workloads.templates.isolation import shared_fate
from app.workloads.templates.marks import CONTAINERS, PROBES, each, member, shown
from app.workloads.templates.volumes import forbidden_volumes

_HOST = {
    "hostNetwork": "the network of the host",
    "hostPID": "the processes of the host",
    "hostIPC": "the IPC namespace of the host",
}
_FIXED = {
    "nodeName": "a tenant's Pod is placed by the scheduler",
    "serviceAccountName": "a tenant's Pod has the default service account",
    "serviceAccount": "a tenant's Pod has the default service account",
}
_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
_SELINUX_TYPES = ("container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_PROFILES = ("RuntimeDefault", "Localhost")
_DEFAULT_ACCOUNT = "default"
_STRICT = TenantPolicy()


def forbidden_fields(spec: Any, path: str, policy: TenantPolicy = _STRICT, *, admitted: bool = False) -> Iterator[str]:
    """All that a tenant may not write in the spec of a Pod, of a Pod or of a template at `path`.

    `admitted` is for what the API server has taken: it may hold what admission plugins and controllers write (the
    default service account with its token, ephemeral containers).
    """
    yield from _identity(spec, path, admitted=admitted)
    yield from shared_fate(spec, path, policy, admitted=admitted)
    yield from forbidden_volumes(spec, path, policy, admitted=admitted)
    security = member(spec, "securityContext")
    yield from _profiles(security, f"{path}.securityContext")
    for here, sysctl in each(security, "sysctls", f"{path}.securityContext"):
        name = sysctl.get("name")
        if not isinstance(name, str) or name not in _SYSCTLS:
            yield f"{here}.name: {shown(name)} is not a safe sysctl; want {_listed(_SYSCTLS)}"
    if member(spec, "ephemeralContainers") and not admitted:
        yield f"{path}.ephemeralContainers: can only be added to a Pod that runs; leave it out"
    for field in CONTAINERS:
        for here, container in each(spec, field, path):
            yield from _container(container, here)


def _identity(spec: Any, path: str, *, admitted: bool) -> Iterator[str]:
    """Whose namespaces the Pod shares, where it runs, and as whom."""
    for field, what in _HOST.items():
        if member(spec, field):
            yield f"{path}.{field}: a tenant's Pod may not use {what}; leave it out"
    for field, reason in _FIXED.items():
        value = member(spec, field)
        if value and not (admitted and field != "nodeName" and value == _DEFAULT_ACCOUNT):
            yield f"{path}.{field}: {reason}; leave it out"
    if member(spec, "automountServiceAccountToken"):
        yield f"{path}.automountServiceAccountToken: a tenant's Pod has no token of the infra cluster; leave it out"


def _container(container: JSON, path: str) -> Iterator[str]:
    for here, port in each(container, "ports", path):
        if port.get("hostPort"):
            yield f"{here}.hostPort: a tenant's Pod may not use ports of the host; leave it out"
    security, where = container.get("securityContext"), f"{path}.securityContext"
    if member(security, "privileged"):
        yield f"{where}.privileged: a tenant's container may not be privileged; leave it out"
    mount = member(security, "procMount")
    if mount not in (None, "", "Default"):
        yield f"{where}.procMount: {shown(mount)} shows more of /proc; want Default"
    yield from _profiles(security, where)
    yield from _capabilities(security, where)
    for hook in PROBES:
        yield from _hosts(container.get(hook), f"{path}.{hook}")
    for hook in ("postStart", "preStop"):
        yield from _hosts(member(container.get("lifecycle"), hook), f"{path}.lifecycle.{hook}")


def _capabilities(security: Any, path: str) -> Iterator[str]:
    added = member(member(security, "capabilities"), "add")
    for index, name in enumerate(added if isinstance(added, list) else []):
        if not isinstance(name, str) or name not in _CAPABILITIES:
            yield f"{path}.capabilities.add[{index}]: {shown(name)} may not be added; want {_listed(_CAPABILITIES)}"


def _profiles(security: Any, path: str) -> Iterator[str]:
    """What confines a container, in the security context of a Pod or of a container."""
    for field in ("seccompProfile", "appArmorProfile"):
        kind = member(member(security, field), "type")
        if kind is not None and kind not in _PROFILES:
            yield f"{path}.{field}.type: {shown(kind)} takes the profile away; want {' or '.join(_PROFILES)}"
    linux = member(security, "seLinuxOptions")
    kind = member(linux, "type")
    if kind not in (None, "", *_SELINUX_TYPES):
        yield f"{path}.seLinuxOptions.type: {shown(kind)} is not allowed; want {_listed(_SELINUX_TYPES)}"
    for field in ("user", "role"):
        if member(linux, field):
            yield f"{path}.seLinuxOptions.{field}: not allowed in a tenant's Pod; leave it out"
    if member(member(security, "windowsOptions"), "hostProcess"):
        yield f"{path}.windowsOptions.hostProcess: a tenant's Pod may not run as a process of the host; leave it out"


def _hosts(handler: Any, path: str) -> Iterator[str]:
    """A probe with a host of its own would let the node knock at any door."""
    for field in ("httpGet", "tcpSocket"):
        if member(member(handler, field), "host"):
            yield f"{path}.{field}.host: a tenant's probe goes to its own Pod; leave it out"


def _listed(names: frozenset[str] | tuple[str, ...]) -> str:
    return f"one of {', '.join(sorted(names))}"
