"""The table in docs/security.md: no field of a Pod lacks a verdict, and each verdict is what the guards say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest

from app.kinds.shapes import fields_of, tables
from app.kube.resources import PODS
from app.placement.model import parse_policy
from app.tenancy.gateway.resource_service import prepare
from app.workloads.templates.bounds import BOUNDS, MOST_CONDITIONS, MOST_SELECTING, MOST_VALUES, foreign_metadata
from app.workloads.templates.guards import MOST_GRACE_SECONDS, forbidden_fields
from tests.support.paths import ROOT

JSON = dict[str, Any]
PAGE = ROOT / "docs" / "security.md"
VERDICTS = ("harmless", "confined", "bounded", "by name", "refused")
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def rows() -> dict[str, str]:
    """The verdict of each field that the table names."""
    section = PAGE.read_text().partition("## Every field of a tenant's Pod")[2].partition("\n## ")[0]
    table: dict[str, str] = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        for field in re.findall(r"`([^`]+)`", cells[0]) if len(cells) == 3 else ():
            assert field not in table, f"{field} stands in the table twice"
            table[field] = cells[1]
    return table


TABLE = rows()


def below(name: str, path: str) -> Iterator[str]:
    """The fields of a type and of what is in it. `[]` is an item of a list."""
    for field, shape in fields_of(name).items():
        here, inner = (f"{path}.{field}[]", shape[0]) if isinstance(shape, list) else (f"{path}.{field}", shape)
        yield here
        if isinstance(inner, str) and inner in tables().types and not here.endswith(".volumeClaimTemplate.metadata"):
            yield from below(inner, here)


def fields() -> set[str]:
    """Of a Pod's metadata and spec, in any version that Berth knows. The three lists of containers count as one."""
    lists = re.compile(r"^spec\.(initContainers|ephemeralContainers)\[\]\.")
    return {
        lists.sub("spec.containers[].", field)
        for field in (*below("PodSpec", "spec"), *below("ObjectMeta", "metadata"))
    }


def holder(field: str) -> str | None:
    """The row that holds for a field: its own, or the nearest one above it."""
    while field and field not in TABLE:
        field = field.removesuffix("[]") if field.endswith("[]") else field.rpartition(".")[0]
    return field or None


def test_no_field_lacks_a_verdict_and_no_row_lacks_a_field() -> None:
    held = {field: holder(field) for field in fields()}
    assert [field for field, row in held.items() if row is None] == []
    assert TABLE.keys() - set(held.values()) == set()
    assert set(TABLE.values()) == set(VERDICTS)


def term(**more: Any) -> JSON:
    return {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}, **more}


def affinity(kind: str, **more: Any) -> JSON:
    """A required and a preferred term with these members."""
    weighted = {"weight": 1, "podAffinityTerm": term(**more)}
    return {"affinity": {kind: {REQUIRED: [term(**more)], PREFERRED: [weighted]}}}


CONTAINER = {"name": "c", "image": "nginx"}
CLAIM = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "x"}}
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
HOOKS = tuple(f"lifecycle.{hook}" for hook in ("postStart", "preStop"))
CONTEXTS = ("spec.securityContext", "spec.containers[].securityContext")

# What each row is tried with: a value of the field, and, where some values are allowed, one of those.
BAD: dict[str, Any] = {
    "spec.automountServiceAccountToken": True,
    "spec.ephemeralContainers": [CONTAINER],
    "spec.evictionResponders": [{"name": "acme.io/foo", "priority": 1000}],
    "spec.hostIPC": True,
    "spec.hostNetwork": True,
    "spec.hostPID": True,
    "spec.nodeName": "dpu1-host-a",
    "spec.priority": 2_000_000_000,
    "spec.preemptionPolicy": "PreemptLowerPriority",
    "spec.priorityClassName": "gold",
    "spec.runtimeClassName": "kata",
    "spec.schedulerName": "other",
    "spec.serviceAccount": "builder",
    "spec.serviceAccountName": "builder",
    "spec.securityContext.sysctls": [{"name": "kernel.msgmax", "value": "1"}],
    "spec.terminationGracePeriodSeconds": MOST_GRACE_SECONDS + 1,
    "spec.containers[].ports[].hostPort": 80,
    "spec.containers[].securityContext.capabilities.add": ["NET_RAW"],
    "spec.containers[].securityContext.privileged": True,
    "spec.containers[].securityContext.procMount": "Unmasked",
    "spec.volumes[].csi": {"driver": "host.csi.example.com"},
    "spec.volumes[].ephemeral": {"volumeClaimTemplate": CLAIM},
    "spec.volumes[].hostPath": {"path": "/"},
    "spec.volumes[].projected.sources[].podCertificate": {"signerName": "kubernetes.io/kube-apiserver-client-pod"},
    "spec.volumes[].projected.sources[].serviceAccountToken": {"path": "token"},
    "metadata.finalizers": ["example.com/never"],
    "metadata.ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}],
}
BAD |= dict.fromkeys(
    (f"{where}.{name}.type" for where in CONTEXTS for name in ("appArmorProfile", "seccompProfile")), "Unconfined"
)
BAD |= {f"{where}.seLinuxOptions.{field}": "spc_t" for where in CONTEXTS for field in ("user", "role", "type")}
BAD |= {f"{where}.windowsOptions.hostProcess": True for where in CONTEXTS}
BAD |= {f"spec.containers[].{probe}.terminationGracePeriodSeconds": MOST_GRACE_SECONDS + 1 for probe in PROBES}
BAD |= {
    f"spec.containers[].{hook}.{kind}.host": "10.0.0.1" for hook in PROBES + HOOKS for kind in ("httpGet", "tcpSocket")
}
for kind in ("podAffinity", "podAntiAffinity"):
    for place in (f"{REQUIRED}[]", f"{PREFERRED}[].podAffinityTerm"):
        BAD[f"spec.affinity.{kind}.{place}.namespaceSelector"] = {}
        BAD[f"spec.affinity.{kind}.{place}.namespaces"] = ["tenant-other", "universe"]
BAD[f"spec.affinity.podAntiAffinity.{REQUIRED}[].topologyKey"] = "kubernetes.io/os"
ITEMS: dict[str, JSON] = {
    "affinity.podAffinity": term(),
    "affinity.podAntiAffinity": term(),
    "affinity.nodeAffinity": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
    "topologySpreadConstraints": {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"},
    "tolerations": {"key": "a", "operator": "Exists"},
}
LISTS = {
    f"spec.{field}": (bound, next(item for prefix, item in ITEMS.items() if field.startswith(prefix)))
    for field, bound in BOUNDS.items()
}
BAD |= {field: [item] * (bound.most + 1) for field, (bound, item) in LISTS.items()}
BAD |= {field: {"server": "10.0.0.1"} for field, verdict in TABLE.items() if verdict == "by name" and field not in BAD}

NAMES = {
    "spec.priorityClassName": "priorityClass=gold",
    "spec.runtimeClassName": "runtimeClass=kata",
    "spec.schedulerName": "scheduler=other",
    "spec.volumes[].csi": "csiDriver=host.csi.example.com",
}
WITHIN: dict[str, Any] = {
    "spec.securityContext.sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}],
    "spec.containers[].securityContext.capabilities.add": ["NET_BIND_SERVICE"],
    "spec.containers[].securityContext.procMount": "Default",
    f"spec.affinity.podAntiAffinity.{REQUIRED}[].topologyKey": "kubernetes.io/hostname",
}
WITHIN |= {field: [item] * bound.most for field, (bound, item) in LISTS.items()}
WITHIN |= {field: MOST_GRACE_SECONDS for field in BAD if field.endswith("GracePeriodSeconds")}
WITHIN |= {field: "RuntimeDefault" for field in BAD if field.endswith("Profile.type")}
WITHIN |= {field: "container_t" for field in BAD if field.endswith("seLinuxOptions.type")}
SAMPLES: dict[str, Any] = {
    "metadata.labels": {"app": "x"},
    "metadata.annotations": {"example.com/a": "b"},
    "metadata.managedFields": [{"manager": "kubectl"}],
    "spec.affinity.podAffinity": affinity("podAffinity")["affinity"]["podAffinity"],
    "spec.affinity.podAntiAffinity": affinity("podAntiAffinity")["affinity"]["podAntiAffinity"],
    "spec.schedulingGates": [{"name": "example.com/gate"}],
    "spec.resourceClaims": [{"name": "d", "resourceClaimTemplateName": "t"}],
    "spec.containers[].resources": {"limits": {"cpu": "1", "example.com/vf": "1"}},
    "spec.volumes[].projected": {
        "sources": [{"secret": {"name": "s"}}, {"clusterTrustBundle": {"name": "b", "path": "p"}}]
    },
}


def manifest(field: str, value: Any) -> JSON:
    """A Pod in which only this field is out of the ordinary: each segment of its path an object, or a list of one."""
    pod: JSON = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [dict(CONTAINER)]},
    }
    at: Any = pod
    segments = field.split(".")
    for segment in segments[:-1]:
        name = segment.removesuffix("[]")
        if name == segment:
            at = at.setdefault(name, {})
        else:
            entry: JSON = {"name": "v"} if name == "volumes" else term() if name == REQUIRED else {}
            at = at.setdefault(name, [entry])[0]
    at[segments[-1].removesuffix("[]")] = [value] if segments[-1].endswith("[]") else value
    return pod


def findings(pod: JSON, *allowed: str) -> list[str]:
    return [
        *foreign_metadata(pod["metadata"], "metadata"),
        *forbidden_fields(pod["spec"], "spec", parse_policy(allowed)),
    ]


def at(field: str) -> re.Pattern[str]:
    """The beginning of a finding at this field, of any item of its lists."""
    return re.compile(re.escape(field).replace(r"\[\]", r"\[\d+\]") + r"[.:\[]")


REFUSED = sorted(field for field, verdict in TABLE.items() if verdict in ("bounded", "by name", "refused"))


@pytest.mark.parametrize("field", REFUSED)
def test_refused_with_the_path_of_the_field(field: str) -> None:
    (line,) = findings(manifest(field, BAD[field]))
    assert at(field).match(line), line
    assert "; " in line


@pytest.mark.parametrize("field", [field for field in REFUSED if field.startswith("spec.containers[]")])
@pytest.mark.parametrize("where", ["initContainers", "ephemeralContainers"])
def test_refused_in_every_list_of_containers(field: str, where: str) -> None:
    pod = manifest(field, BAD[field])
    pod["spec"][where] = pod["spec"]["containers"]
    pod["spec"]["containers"] = [CONTAINER]
    found = list(forbidden_fields(pod["spec"], "spec", admitted=True))
    assert [line for line in found if at(field.replace("containers[]", f"{where}[]")).match(line)], found


@pytest.mark.parametrize("field", sorted(field for field, verdict in TABLE.items() if verdict == "by name"))
def test_allowed_by_its_name_alone(field: str) -> None:
    name = NAMES.get(field) or f"volumeType={field.rpartition('.')[2]}"
    kind = name.partition("=")[0]
    pod = manifest(field, BAD[field])
    assert findings(pod, name) == []
    other = "another" if kind != "volumeType" else "nfs" if field != "spec.volumes[].nfs" else "iscsi"
    (line,) = findings(pod, f"{kind}={other}")
    assert f"use {other}, or leave" in line


@pytest.mark.parametrize("nothing", [None, "", 0, False, [], {}])
@pytest.mark.parametrize(
    "field", ["priorityClassName", "runtimeClassName", "schedulerName", "serviceAccount", "serviceAccountName"]
)
@pytest.mark.parametrize("admitted", [True, False])
def test_a_name_that_is_empty_asks_for_nothing(field: str, nothing: object, *, admitted: bool) -> None:
    """Also one of the wrong type, which has a line of the validation already."""
    assert list(forbidden_fields({field: nothing}, "spec", admitted=admitted)) == []


@pytest.mark.parametrize("field", sorted(field for field, verdict in TABLE.items() if verdict == "bounded"))
def test_allowed_within_its_bound(field: str) -> None:
    assert findings(manifest(field, WITHIN[field])) == []


@pytest.mark.parametrize("field", sorted(LISTS))
def test_the_row_of_a_list_says_the_figures(field: str) -> None:
    bound, _ = LISTS[field]
    (line,) = [line for line in PAGE.read_text().splitlines() if line.startswith("|") and f"`{field}`" in line]
    assert f"At most {bound.most} {bound.unit}" in line
    if bound.selects:
        assert f"{MOST_CONDITIONS} match expressions and labels in each" in line
        assert f"at most {MOST_SELECTING}" in line
    elif bound.unit != "tolerations":
        assert f"{MOST_CONDITIONS} match expressions, fields and labels in each" in line
        assert f"{MOST_VALUES} values in one expression" in line
    assert not bound.added or f"{bound.added} more" in line


@pytest.mark.parametrize("field", sorted(field for field, verdict in TABLE.items() if verdict == "harmless"))
def test_harmless(field: str) -> None:
    """Nothing is found at the field, nor at any field below it that has no row of its own."""
    below = [name for name in fields() if holder(name) == field]
    values = [(field, SAMPLES[field])] if field in SAMPLES else [(name, "x") for name in below]
    assert values
    assert list(chain.from_iterable(findings(manifest(name, value)) for name, value in values)) == []


@pytest.mark.parametrize("field", sorted(field for field, verdict in TABLE.items() if verdict == "confined"))
def test_confined_to_the_dpus_of_the_tenant(field: str) -> None:
    expression = {"key": "a", "operator": "Exists"}
    value = (
        {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}, PREFERRED: []}
        if field.endswith("nodeAffinity")
        else {"a": "b"}
    )
    made = prepare(manifest(field, value), resource=PODS, namespace="tenant-t", owner="api")
    (only,) = made.body["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert {"key": "berth.dev/tenant", "operator": "In", "values": ["t"]} in only["matchExpressions"]
