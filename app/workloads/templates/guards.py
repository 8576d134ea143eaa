"""What a tenant's Pod may not ask of the infra cluster: the host, other identities, a place of its own choice.

The list is the `baseline` level of the Pod Security Standards
(https://kubernetes.io/docs/concepts/security/pod-security-standards/), and what would break the walls between tenants
beside it. Pure: arbitrary JSON in, one line for each finding, beginning with the field's path. Whether a Pod is valid
at all is not judged here. The verdict on each field of a Pod is in `docs/security.md`.

Volumes may have the types whose content comes from the Pod's own namespace, from images or from the node's scratch
space. Every other type, one that is not known yet among them, makes the kubelet or a driver act on the node or connect
from it (`nfs`, `iscsi`, `gitRepo`), binds storage of others (`ephemeral`), or is as strong as `hostPath` with some
drivers (`csi`): the cloud admin allows it by name.

Required anti-affinity binds both sides in the scheduler: a Pod that runs keeps every Pod off that its terms select, in
whatever namespace that is (https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/). The score of a
node counts terms of running Pods too. So a term may select Pods of its own namespace alone. Topology spread
constraints never look beyond it. How many terms a Pod may have is in `bounds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from app.kube.resources import IMPLICIT_PREFIX
from app.pace import step
from app.placement.model import DEFAULT_SCHEDULER, OWN_VOLUMES, SYSTEM_PRIORITY, Allowance, TenantPolicy
from app.text import cut
from app.wire import JSON
from app.workloads.templates.bounds import PREFERRED, REQUIRED, crowded, each, member, shown

MOST_GRACE_SECONDS: Final = 3600
"""The longest grace period of a tenant's Pod: so long may a drain of its node, or the end of its namespace, wait."""
_HOSTNAME = "kubernetes.io/hostname"
_OWN_SOURCES = frozenset({"clusterTrustBundle", "configMap", "downwardAPI", "secret"})
"""Sources of a projected volume that give the Pod no identity in the infra cluster."""
_TOKEN_VOLUME = "kube-api-access-"  # noqa: S105 - how the API server's ServiceAccount plugin names its volume
_TOKEN = "serviceAccountToken"  # noqa: S105 - a field
_CAPABILITIES = (
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
)
_SYSCTLS = (
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
)
_SELINUX_TYPES = ("container_engine_t", "container_init_t", "container_kvm_t", "container_t")
_NOTHING: Final[tuple[object, ...]] = (None, "", 0, [], {})
"""What asks for nothing. Where it has the wrong type, the validation of shapes says so."""
_STRICT = TenantPolicy()

Check: TypeAlias = Callable[[Any, str, TenantPolicy], Iterable[str]]
"""Looks at the value of one field, None where there is none, and gives a line for each finding."""
Shape: TypeAlias = "Check | Mapping[str, Shape] | list[Shape]"
"""The checks of an object by its fields, of every item of a list by the one item, or of a field."""


def findings(value: Any, shape: Shape, path: str, policy: TenantPolicy) -> Iterator[str]:
    """What the checks find, in their order. What has another form is left to the validation of shapes."""
    if callable(shape):
        yield from shape(value, path, policy)
    elif isinstance(shape, list):
        for index, item in enumerate(value if isinstance(value, list) else ()):
            step(8)
            yield from findings(item, shape[0], f"{path}[{index}]", policy)
    elif isinstance(value, dict):
        for field, below in shape.items():
            part = value.get(field)
            if callable(below):  # called here: most rows are checks, and every review meets all of them
                yield from below(part, f"{path}.{field}", policy)
            elif part is not None:
                yield from findings(part, below, f"{path}.{field}", policy)


def _left_out(why: str) -> Check:
    return lambda value, path, _policy: [f"{path}: {why}; leave it out"] if value else []


def _one_of(fine: Iterable[object], fault: str) -> Check:
    """`fault` shows the value at its {}."""
    values = tuple(fine)
    return lambda value, path, _policy: [] if value in values else [f"{path}: {fault.format(shown(value))}"]


def _by_name(kind: Allowance, *fine: object, of: str = "in a tenant's Pod", whole: str = "it") -> Check:
    """Names that the cloud admin allows, beside those that are `fine`; `whole` is what can be left out."""

    def check(value: Any, path: str, policy: TenantPolicy) -> Iterable[str]:
        if value not in fine and not policy.allows(kind, value):
            yield f"{path}: {shown(value)} is not allowed {of}; {policy.advice(kind, whole=whole)}"

    return check


def _priority_class(name: Any, path: str, policy: TenantPolicy) -> Iterable[str]:
    if isinstance(name, str) and name.startswith(SYSTEM_PRIORITY) and not policy.allows("priorityClass", name):
        return [f"{path}: {shown(name)} is for the cluster's own Pods; leave it out"]
    return _by_name("priorityClass", *_NOTHING)(name, path, policy)


def _grace(seconds: Any, path: str, _policy: TenantPolicy) -> Iterable[str]:
    if isinstance(seconds, (int, float)) and seconds > MOST_GRACE_SECONDS:
        yield f"{path}: {shown(seconds)} is too long for a tenant's Pod; want at most {MOST_GRACE_SECONDS}"


def _device_classes(spec: Any, path: str, policy: TenantPolicy) -> Iterable[str]:
    """Devices that are asked for as an extended resource, without a claim of one's own."""
    for key in spec if isinstance(spec, dict) else ():
        step()
        name = key.removeprefix(IMPLICIT_PREFIX)
        if name != key and not policy.allows("deviceClass", name):
            advice = policy.advice("deviceClass", whole="the resource")
            yield f"{path}[{cut(key)}]: not allowed in a tenant's Pod; {advice}"


def _volume(volume: Any, path: str, policy: TenantPolicy, *, admitted: bool) -> Iterator[str]:
    """One line for each type of volume, or source of a projected one, that a tenant's Pod may not have."""
    for field, value in volume.items() if isinstance(volume, dict) else ():
        if field == "name" or field in OWN_VOLUMES or value is None:
            continue
        if field == "hostPath":
            yield f"{path}.hostPath: a tenant's Pod may not use files of the host; use another kind of volume"
        elif field == "csi":
            yield from _CSI_DRIVER(member(value, "driver"), f"{path}.csi.driver", policy)
        elif not policy.allows("volumeType", field):
            advice = policy.advice("volumeType", whole="the volume")
            yield f"{path}.{cut(field)}: this type of volume is not allowed in a tenant's Pod; {advice}"
    for here, source in each(volume, "projected.sources", path):
        for field, value in source.items():
            if value is not None and field not in _OWN_SOURCES and not (admitted and _is_default_token(volume, source)):
                yield f"{here}.{cut(field)}: would give the Pod an identity in the infra cluster; leave it out"


def _is_default_token(volume: JSON, source: JSON) -> bool:
    """Whether the ServiceAccount admission plugin made this: a token for the API server, in the plugin's own volume."""
    name, token = volume.get("name"), source.get(_TOKEN)
    if not isinstance(name, str) or not name.startswith(_TOKEN_VOLUME) or not isinstance(token, dict):
        return False
    return not token.get("audience") and all(value is None for field, value in source.items() if field != _TOKEN)


_CSI_DRIVER = _by_name("csiDriver", whole="the volume")
# A term that names the Pod's own namespace alone is refused too: the quota of the namespace counts it as crossing.
_FOREIGN = "a tenant's Pod looks at Pods of its own namespace alone"
_NOT_IN_PODS = _left_out("not allowed in a tenant's Pod")
_PROFILE: Shape = {
    "type": _one_of(
        (None, "RuntimeDefault", "Localhost"), "{} takes the profile away; want RuntimeDefault or Localhost"
    )
}
# What confines a container, in the security context of a Pod or of a container.
_CONTEXT: Mapping[str, Shape] = {
    "seccompProfile": _PROFILE,
    "appArmorProfile": _PROFILE,
    "seLinuxOptions": {
        "type": _one_of((None, "", *_SELINUX_TYPES), f"{{}} is not allowed; want one of {', '.join(_SELINUX_TYPES)}"),
        "user": _NOT_IN_PODS,
        "role": _NOT_IN_PODS,
    },
    "windowsOptions": {"hostProcess": _left_out("a tenant's Pod may not run as a process of the host")},
}
# A probe with a host of its own would allow requests from the node to any address.
_REQUESTED: Shape = {"host": _left_out("a tenant's probe goes to its own Pod")}
_HOOK: Mapping[str, Shape] = {"httpGet": _REQUESTED, "tcpSocket": _REQUESTED}
_PROBE: Shape = {**_HOOK, "terminationGracePeriodSeconds": _grace}
_RESOURCES: Shape = {"limits": _device_classes, "requests": _device_classes}
_CONTAINER: Mapping[str, Shape] = {
    "resources": _RESOURCES,
    "ports": [{"hostPort": _left_out("a tenant's Pod may not use ports of the host")}],
    "securityContext": {
        "privileged": _left_out("a tenant's container may not be privileged"),
        "procMount": _one_of((None, "", "Default"), "{} shows more of /proc; want Default"),
        **_CONTEXT,
        "capabilities": {
            "add": [_one_of(_CAPABILITIES, f"{{}} may not be added; want one of {', '.join(_CAPABILITIES)}")]
        },
    },
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "startupProbe": _PROBE,
    "lifecycle": {"postStart": _HOOK, "preStop": _HOOK},
}
_TERM: Mapping[str, Shape] = {
    # A selector that is empty selects all namespaces.
    "namespaceSelector": _one_of((None,), f"{_FOREIGN}; leave it out"),
    "namespaces": _left_out(_FOREIGN),
}
_TOPOLOGY = _one_of((_HOSTNAME,), f"a tenant's Pod may not keep others off {{}}; use {_HOSTNAME}")
_POD: Mapping[str, Shape] = {
    "hostNetwork": _left_out("a tenant's Pod may not use the network of the host"),
    "hostPID": _left_out("a tenant's Pod may not use the processes of the host"),
    "hostIPC": _left_out("a tenant's Pod may not use the IPC namespace of the host"),
    "nodeName": _left_out("a tenant's Pod is placed by the scheduler"),
    "automountServiceAccountToken": _left_out("a tenant's Pod has no token of the infra cluster"),
    "affinity": {
        "podAffinity": {REQUIRED: [_TERM], PREFERRED: [{"podAffinityTerm": _TERM}]},
        "podAntiAffinity": {
            REQUIRED: [{**_TERM, "topologyKey": _TOPOLOGY}],
            PREFERRED: [{"podAffinityTerm": _TERM}],
        },
    },
    "priorityClassName": _priority_class,
    "runtimeClassName": _by_name("runtimeClass", *_NOTHING),
    "schedulerName": _by_name("scheduler", *_NOTHING, DEFAULT_SCHEDULER),
    "evictionResponders": _left_out("would hold up drains of the node"),
    "terminationGracePeriodSeconds": _grace,
    "resources": _RESOURCES,
    "securityContext": {
        **_CONTEXT,
        "sysctls": [{"name": _one_of(_SYSCTLS, f"{{}} is not a safe sysctl; want one of {', '.join(_SYSCTLS)}")}],
    },
    "initContainers": [_CONTAINER],
    "containers": [_CONTAINER],
    "ephemeralContainers": [_CONTAINER],
}
_FOLLOWS = _left_out("follows from the priority class")
PRIORITY: Final[Mapping[str, Shape]] = {"priority": _FOLLOWS, "preemptionPolicy": _FOLLOWS}
"""What the Priority admission plugin writes into a Pod, from its class. A template that has it makes no Pods."""
_ACCOUNT = "a tenant's Pod has the default service account"
_WRITTEN: Shape = {
    **dict.fromkeys(("serviceAccountName", "serviceAccount"), _left_out(_ACCOUNT)),
    **PRIORITY,
    "ephemeralContainers": _left_out("can only be added to a Pod that runs"),
    "volumes": [partial(_volume, admitted=False)],
}
_ADMITTED: Shape = {
    **dict.fromkeys(
        ("serviceAccountName", "serviceAccount"), _one_of((*_NOTHING, "default"), f"{_ACCOUNT}; leave it out")
    ),
    "volumes": [partial(_volume, admitted=True)],
}
_REQUEST: Mapping[str, Shape] = {
    "deviceClassName": _by_name("deviceClass", None, of="for a tenant", whole="the request"),
    "adminAccess": _left_out("a tenant has no access to devices of others"),
}
CLAIM: Final[Shape] = {
    "devices": {"requests": [{**_REQUEST, "exactly": _REQUEST, "firstAvailable": [_REQUEST]}]},
}
"""The spec of a ResourceClaim (of any version): which devices cannot be claimed in a tenant's namespace."""


def forbidden_fields(spec: Any, path: str, policy: TenantPolicy = _STRICT, *, admitted: bool = False) -> Iterator[str]:
    """All that a tenant may not write in the spec of a Pod, of a Pod or of a template at `path`.

    `admitted` is for what the API server has taken: it may hold what admission plugins and controllers write (the
    default service account with its token, ephemeral containers).
    """
    yield from crowded(spec, path, admitted=admitted)
    yield from findings(spec, _POD, path, policy)
    yield from findings(spec, _ADMITTED if admitted else _WRITTEN, path, policy)
