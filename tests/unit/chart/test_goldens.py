"""What the chart renders from many sets of values, object by object, in any order of the objects.

The golden of the set `all` is what it renders. Every other golden is the difference from it, or from `defaults`.
`python -m tests.unit.chart.test_goldens` writes them.
"""

from __future__ import annotations

import difflib
import functools
import json
from pathlib import Path

import helm_python
import pytest
import yaml

from app.registry import BY_NAME
from tests.support.chart import CHART, JSON, NAMESPACE, Render, rendering
from tests.support.chart_combinations import AGENT, ALL, CALLER_TOKEN, COMBINATIONS, INFRA, NOTHING, WRAPPERS
from tests.support.paths import ROOT

GOLDENS = Path(__file__).parent / "goldens"
MONITORED: JSON = {part: {"enabled": True, "labels": {"of": part}} for part in ("serviceMonitor", "prometheusRule")}
GIVEN_PODS: JSON = {
    role: {
        **({"replicas": 3} if BY_NAME[role].chart.kind == "Deployment" else {}),
        "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
        "nodeSelector": {"a": "b"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "podAnnotations": {"a": "b"},
        "podLabels": {"team": role},
        "extraArgs": ["--log-level=error"],
        "extraEnv": [{"name": "BERTH_LOG_LEVEL", "value": "debug"}],
    }
    for role in BY_NAME
}


def _together(*values: JSON) -> JSON:
    """The values of all, those of the later ones over those of the earlier ones."""
    merged: JSON = {}
    for given in values:
        for key, value in given.items():
            merged[key] = _together(merged.get(key, {}), value) if isinstance(value, dict) else value
    return merged


def _example(name: str) -> JSON:
    values: JSON = yaml.safe_load((ROOT / "examples" / "helm" / name).read_text())
    return values


SETS: dict[str, JSON] = {
    **COMBINATIONS,
    "example infra": _example("infra.yaml"),
    "example tenant": _example("tenant.yaml"),
    "agent and controller": NOTHING | AGENT | {"controller": {"enabled": True}},
    "webhook and gateway": {"gateway": {"enabled": True}},
    "all with cert-manager": _together(
        ALL, {"certificates": {"mode": "cert-manager"}, "gateway": {"certificate": {"secretName": "g"}}}
    ),
    "all with provided": _together(ALL, COMBINATIONS["provided"], {"ui": {"certificate": {"secretName": "page"}}}),
    "pods": _together(ALL, GIVEN_PODS),
    "on the host": _together(INFRA, {"webhook": {"hostNetwork": True}}),
    "load balancer": _together(
        INFRA,
        {"gateway": {"service": {"type": "LoadBalancer", "port": 443, "nodePort": 30001, "annotations": {"a": "b"}}}},
    ),
    "bounded network": ALL
    | {
        "networkPolicy": {"apiServerCIDRs": ["10.0.0.10/32", "fd00::1/128"], "apiServerPorts": [6443]},
        "tracing": {"endpoint": "https://collector.example/v1"},
    },
    "terms": _together(
        ALL,
        {
            "webhook": {
                "webhooks": {
                    name: {"failurePolicy": "Ignore", "timeoutSeconds": seconds}
                    for seconds, name in enumerate(("pods", "tenantPods", "attachments", "rules", "tenantIsolation"), 3)
                },
                "exemptNamespaces": ["monitoring", "kube-system"],
                "injectionLabels": ["company.example/rdma"],
            }
        },
    ),
    "no conditions, confined": {"webhook": {"args": {"confineTenants": True}, "matchConditions": {"enabled": False}}},
    "client CA in a Secret": {"webhook": {"args": {"clientCA": {"secret": "ca"}}}},
    "monitored": ALL | {"monitoring": MONITORED | {"dashboard": {"enabled": True}}},
    "webhook monitored": {"monitoring": MONITORED},
    "definitions go with the release": ALL | {"crds": {"keep": False}},
    "app wrappers": WRAPPERS,
    "example appwrappers beside another release": _together(
        _example("appwrappers.yaml"), _example("beside.yaml"), {"webhook": {"callerToken": CALLER_TOKEN}}
    ),
    "claims format alone": NOTHING | {"claims": {"formatPolicy": "Deny"}},
    "services on networks": _together(
        NOTHING,
        {"controller": {"enabled": True, "args": {"controllers": ["network-services"]}}},
        {"webhook": {"args": {"networkResourceNameKeys": ["a.example/b"], "defaultNetworkNamespace": "cni"}}},
    ),
    "own priority class": {"priorityClass": {"create": False, "name": "gold"}, "imagePullSecrets": []},
}
PLACES = {"other release": (ALL, "other", "elsewhere"), "in universe": (AGENT, "berth", "universe")}
"""Values with another name of the release and another namespace."""
CASES = {name: (values, "berth", NAMESPACE) for name, values in SETS.items()} | PLACES
BASES = ("all", "defaults")
"""The sets that the others are compared with."""


@pytest.mark.parametrize("case", CASES)
def test_the_rendered_objects_are_those_of_the_golden(render: Render, case: str) -> None:
    assert _golden(render, case) == _path(case).read_text()


def test_every_golden_has_its_values() -> None:
    assert sorted(GOLDENS.iterdir()) == sorted(map(_path, CASES))


def _golden(render: Render, case: str) -> str:
    """The whole rendering, or what differs from the nearer of the sets before it in `BASES`, object by object."""
    found = _texts(render, case)
    bases = {name: _texts(render, name) for name in BASES[: BASES.index(case) if case in BASES else None]}
    if not bases:
        return "".join(f"---\n{found[one]}" for one in sorted(found))
    ids = sorted({*bases["all"], *found})
    differences = [
        [_difference(name, base.get(one, ""), found.get(one, "")) for name, base in bases.items()] for one in ids
    ]
    return "".join(f"{one}: {min(told, key=len)}" for one, told in zip(ids, differences, strict=True) if told[0])


def _difference(base: str, old: str, new: str) -> str:
    if not new:
        return "absent\n"
    if old == new:
        return f"as in {base}\n" if base != "all" else ""
    lines = list(difflib.unified_diff(old.splitlines(True), new.splitlines(True), n=0))[2:]
    return f"{base} but\n{''.join(lines)}" if old else f"new\n{new}"


@functools.cache
def _texts(render: Render, case: str) -> dict[str, str]:
    """The objects as sorted YAML, by kind, namespace and name."""
    values, name, namespace = CASES[case]
    renamed = {"other-berth": "berth", "instance: other": "instance: berth"} if name == "other" else {}
    renamed |= {namespace: NAMESPACE} if namespace == "elsewhere" else {}
    found = {}
    for obj in render(values, name=name, namespace=namespace):
        metadata = obj["metadata"]
        where = "release" if metadata.get("namespace") == namespace else metadata.get("namespace", "-")
        texts = [f"{obj['kind']} {where} {metadata['name']}", _yaml(json.dumps(_shortened(obj)))]
        for old, new in renamed.items():
            texts = [text.replace(old, new) for text in texts]
        assert texts[0] not in found
        found[texts[0]] = texts[1]
    return found


@functools.cache
def _yaml(text: str) -> str:
    """An object in JSON as sorted YAML; most are the same in many sets."""
    return yaml.safe_dump(json.loads(text))


def _shortened(obj: JSON) -> JSON:
    """Without what comes out of the files of the chart, which other tests compare; rights have no order."""
    match obj["kind"]:
        case "Role" | "ClusterRole":
            rules = [{key: sorted(rule[key]) for key in sorted(rule)} for rule in obj["rules"]]
            return obj | {"rules": sorted(rules, key=repr)}
        case "CustomResourceDefinition":
            return obj | {"spec": {}}
        case "PrometheusRule":
            groups = {group["name"]: [rule["alert"] for rule in group["rules"]] for group in obj["spec"]["groups"]}
            return obj | {"spec": groups}
        case "ValidatingAdmissionPolicy" if obj["metadata"]["name"].endswith("-claims-format"):
            return obj | {"spec": {}}
        case "ConfigMap" if "berth.json" in obj["data"]:
            return obj | {"data": {}}
    return obj


def _path(case: str) -> Path:
    return GOLDENS / f"{case.replace(',', '').replace(' ', '-')}.txt"


if __name__ == "__main__":
    for written in CASES:
        _path(written).write_text(_golden(rendering(helm_python.Chart.load(CHART)), written))
