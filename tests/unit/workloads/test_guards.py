"""What tenants may not do in a Pod: every line of the list, in every list of containers, with the field's path."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from app.workloads.templates.bounds import foreign_metadata, is_reserved, reserved_marks, token_secret
from app.workloads.templates.guards import forbidden_fields

POD: dict[str, Any] = {"containers": [{"name": "c", "image": "nginx:1.14.2"}]}
SAFE_CAPABILITIES = [
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
]


def findings(**fields: Any) -> list[str]:
    return list(forbidden_fields({**copy.deepcopy(POD), **fields}, "spec"))


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"hostNetwork": True}, "spec.hostNetwork"),
        ({"hostPID": True}, "spec.hostPID"),
        ({"hostIPC": True}, "spec.hostIPC"),
        ({"nodeName": "dpu1-host-a"}, "spec.nodeName"),
        ({"serviceAccountName": "default"}, "spec.serviceAccountName"),
        ({"serviceAccount": "default"}, "spec.serviceAccount"),
        ({"priorityClassName": "system-node-critical"}, "spec.priorityClassName"),
        ({"volumes": [{"name": "a"}, {"name": "v", "hostPath": {"path": "/"}}]}, "spec.volumes[1].hostPath"),
        ({"volumes": [{"name": "v", "hostPath": {}}]}, "spec.volumes[0].hostPath"),
        ({"ephemeralContainers": [{"name": "e"}]}, "spec.ephemeralContainers"),
        ({"securityContext": {"sysctls": [{"name": "kernel.msgmax"}]}}, "spec.securityContext.sysctls[0].name"),
        ({"securityContext": {"sysctls": [{}]}}, "spec.securityContext.sysctls[0].name"),
    ],
)
def test_a_pod_may_not(fields: dict[str, Any], path: str) -> None:
    """One finding, at the field, that says what is wrong and what would be right."""
    (line,) = findings(**fields)
    assert line.startswith(f"{path}: ")
    assert ";" in line


@pytest.mark.parametrize("holder", ["containers", "initContainers", "ephemeralContainers"])
@pytest.mark.parametrize(
    ("container", "path"),
    [
        ({"ports": [{"containerPort": 1}, {"containerPort": 80, "hostPort": 80}]}, "ports[1].hostPort"),
        ({"securityContext": {"privileged": True}}, "securityContext.privileged"),
        ({"securityContext": {"procMount": "Unmasked"}}, "securityContext.procMount"),
        ({"securityContext": {"capabilities": {"add": ["CHOWN", "NET_RAW"]}}}, "securityContext.capabilities.add[1]"),
        ({"securityContext": {"capabilities": {"add": ["ALL"]}}}, "securityContext.capabilities.add[0]"),
        ({"livenessProbe": {"httpGet": {"host": "10.0.0.1"}}}, "livenessProbe.httpGet.host"),
        ({"readinessProbe": {"tcpSocket": {"host": "10.0.0.1"}}}, "readinessProbe.tcpSocket.host"),
        ({"startupProbe": {"httpGet": {"host": "10.0.0.1"}}}, "startupProbe.httpGet.host"),
        ({"lifecycle": {"preStop": {"httpGet": {"host": "10.0.0.1"}}}}, "lifecycle.preStop.httpGet.host"),
        ({"lifecycle": {"postStart": {"tcpSocket": {"host": "10.0.0.1"}}}}, "lifecycle.postStart.tcpSocket.host"),
    ],
)
def test_a_container_may_not(holder: str, container: dict[str, Any], path: str) -> None:
    found = findings(**{holder: [{"name": "a"}, {"name": "b", **container}]})
    lines = [line for line in found if not line.startswith("spec.ephemeralContainers:")]
    assert [line.partition(":")[0] for line in lines] == [f"spec.{holder}[1].{path}"]


@pytest.mark.parametrize("holder", ["pod", "containers", "initContainers", "ephemeralContainers"])
@pytest.mark.parametrize(
    ("context", "path"),
    [
        ({"seccompProfile": {"type": "Unconfined"}}, "seccompProfile.type"),
        ({"appArmorProfile": {"type": "Unconfined"}}, "appArmorProfile.type"),
        ({"seLinuxOptions": {"type": "spc_t"}}, "seLinuxOptions.type"),
        ({"seLinuxOptions": {"user": "root"}}, "seLinuxOptions.user"),
        ({"seLinuxOptions": {"role": "system_r"}}, "seLinuxOptions.role"),
        ({"windowsOptions": {"hostProcess": True}}, "windowsOptions.hostProcess"),
    ],
)
def test_profiles_stay_on(holder: str, context: dict[str, Any], path: str) -> None:
    """In the security context of the Pod and of every kind of container."""
    if holder == "pod":
        found, where = findings(securityContext=context), "spec.securityContext"
    else:
        found, where = findings(**{holder: [{"securityContext": context}]}), f"spec.{holder}[0].securityContext"
    lines = [line for line in found if not line.startswith("spec.ephemeralContainers:")]
    assert [line.partition(":")[0] for line in lines] == [f"{where}.{path}"]


def test_what_the_baseline_allows_passes() -> None:
    fine: dict[str, Any] = {
        "hostNetwork": False,
        "hostPID": None,
        "nodeName": "",
        "serviceAccountName": "",
        "securityContext": {
            "sysctls": [{"name": "net.ipv4.tcp_syncookies"}, {"name": "net.ipv4.tcp_rmem"}],
            "seccompProfile": {"type": "RuntimeDefault"},
            "appArmorProfile": {"type": "Localhost", "localhostProfile": "p"},
            "seLinuxOptions": {"type": "container_t", "level": "s0"},
            "windowsOptions": {"hostProcess": False},
        },
        "volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": None}],
        "containers": [
            {
                "name": "c",
                "ports": [{"containerPort": 80, "hostPort": 0}],
                "securityContext": {
                    "privileged": False,
                    "procMount": "Default",
                    "capabilities": {"add": SAFE_CAPABILITIES, "drop": ["ALL"]},
                },
                "livenessProbe": {"httpGet": {"path": "/", "port": 80, "host": ""}},
            }
        ],
    }
    assert findings(**fine) == []


@pytest.mark.parametrize("odd", [None, 7, "x", [], [None], {"volumes": {}, "containers": [7, None]}, {"containers": 1}])
def test_what_is_no_pod_is_no_finding_of_the_guards(odd: Any) -> None:
    assert list(forbidden_fields(odd, "spec")) == []


@pytest.mark.parametrize(
    ("key", "reserved"),
    [
        ("berth.dev/mirror", True),
        ("x.berth.dev/y", True),
        ("Berth.Dev/mirror", True),
        ("workloadrule.workload.universe.nvidia.com/name", True),
        ("universe.nvidia.com/a", True),
        ("notberth.dev/a", False),
        ("nvidia.com/a", False),
        ("berth.dev", False),
        ("app", False),
    ],
)
def test_reserved_domains(key: str, *, reserved: bool) -> None:
    assert is_reserved(key) is reserved
    for field in ("labels", "annotations"):
        lines = list(reserved_marks({field: {key: "x"}}, "metadata"))
        assert [line.partition(": ")[0] for line in lines] == ([f"metadata.{field}[{key}]"] if reserved else [])


@pytest.mark.parametrize(
    ("metadata", "path"),
    [
        ({"labels": {"berth.dev/companion": "tenant"}}, "metadata.labels[berth.dev/companion]"),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, "metadata.annotations[kubernetes.io/config.mirror]"),
        ({"annotations": {"kubernetes.io/config.source": "x"}}, "metadata.annotations[kubernetes.io/config.source]"),
        ({"ownerReferences": [{}]}, "metadata.ownerReferences"),
        ({"finalizers": ["example.com/a"]}, "metadata.finalizers"),
        (
            {"annotations": {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}},
            "metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]",
        ),
        (
            {"annotations": {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}},
            "metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]",
        ),
        (
            {"annotations": {"container.seccomp.security.alpha.kubernetes.io/c": "unconfined"}},
            "metadata.annotations[container.seccomp.security.alpha.kubernetes.io/c]",
        ),
    ],
)
def test_metadata_may_not(metadata: dict[str, Any], path: str) -> None:
    (line,) = foreign_metadata(metadata, "metadata")
    assert line.startswith(f"{path}: ")


def test_ordinary_metadata_passes() -> None:
    profiles = {
        "container.apparmor.security.beta.kubernetes.io/c": "runtime/default",
        "seccomp.security.alpha.kubernetes.io/pod": "localhost/p",
    }
    fine = {"labels": {"app": "a"}, "annotations": {"kubernetes.io/description": "d", **profiles}, "finalizers": []}
    assert list(foreign_metadata(fine, "metadata")) == []


@pytest.mark.parametrize("kind", ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"])
def test_token_secrets_are_refused(kind: str) -> None:
    (line,) = token_secret({"type": kind}, "spec.object")
    assert line.startswith("spec.object.type: ")


@pytest.mark.parametrize("kind", ["Opaque", "kubernetes.io/tls", "", None, 7, ["x"]])
def test_other_secrets_pass(kind: Any) -> None:
    assert list(token_secret({"type": kind}, "spec.object")) == []


@pytest.mark.parametrize("name", [[], {}, None, 1])
def test_a_sysctl_without_a_readable_name_is_not_safe(name: object) -> None:
    found = list(forbidden_fields({"securityContext": {"sysctls": [{"name": name, "value": "1"}]}}, "spec"))
    assert [line.partition(":")[0] for line in found] == ["spec.securityContext.sysctls[0].name"]
