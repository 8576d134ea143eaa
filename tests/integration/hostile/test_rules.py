"""Rules, templates, tenants' objects and attachments with odd values anywhere, through /validate."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.kube.resources import NETWORK_ATTACHMENTS
from app.workloads.model import (
    ADMIN_RULES,
    TENANT_RULES,
    UVS_CONFIG_MAPS,
    UVS_DAEMON_SETS,
    UVS_PODS,
    UVS_SECRETS,
    WORKLOAD_RULES,
)
from tests.integration.hostile.conftest import Victim
from tests.integration.hostile.generators import JSON, anything, cases, changed, texts
from tests.support.webhook_process import load_review

CONTAINER: JSON = {
    "name": "nginx",
    "image": "nginx:1.14.2",
    "ports": [{"containerPort": 80}],
    "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['a']"}}}],
    "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1", "example.com/foo": "1"}},
    "securityContext": {"runAsUser": 1, "capabilities": {"drop": ["ALL"]}},
    "livenessProbe": {"httpGet": {"path": "/", "port": 80}},
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
}
POD: JSON = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
    "spec": {
        "containers": [CONTAINER],
        "volumes": [
            {"name": "v", "downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}}
        ],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}},
        "tolerations": [{"key": "a", "operator": "Exists"}],
    },
}
TERMS: list[JSON] = [
    {
        "matchExpressions": [
            {"key": "metadata.resourceNamespace", "operator": "In", "values": ["default"]},
            {"key": 'state.extra.labels."k8s-app"', "operator": "Exists"},
        ]
    }
]
SPEC: JSON = {
    "resourceType": "v1/Pod",
    "workloadTerms": TERMS,
    "workloadInfoInject": [{"workloadKey": "state.nodeName", "asAnnotation": {"name": "node"}}],
    "dpuSelectionPolicy": "Any",
    "template": POD,
}
RULES = {found.kind: found for found in (WORKLOAD_RULES, TENANT_RULES, ADMIN_RULES)}
OBJECTS = {
    UVS_PODS: POD,
    UVS_DAEMON_SETS: {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": POD["metadata"], "spec": POD["spec"]},
        },
    },
    UVS_SECRETS: {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "data": {"a": "Yg=="},
        "stringData": {"b": "c"},
    },
    UVS_CONFIG_MAPS: {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}, "binaryData": {"c": "Yg=="}},
}
KINDS = {found.kind: found for found in (*RULES.values(), *OBJECTS)}


def written(resource: Any, spec: Any, *, old: Any = None) -> JSON:
    asked = load_review("plain")
    obj = {"metadata": {"name": "rule1", "namespace": "universe"}, "spec": spec}
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    asked["request"] |= {"kind": kind, "namespace": "universe", "object": obj, "subResource": ""}
    if old is not None:
        asked["request"] |= {"operation": "UPDATE", "oldObject": old}
    return asked


def spec_of(resource: Any) -> JSON:
    if resource in OBJECTS:
        named = {"metadata": {"name": "o", **OBJECTS[resource].get("metadata", {})}}
        return {"object": OBJECTS[resource] | named}
    return SPEC | ({"tenantMatch": ["tenant1"]} if resource is ADMIN_RULES else {})


@pytest.mark.parametrize("kind", KINDS)
def test_the_originals_are_good(victim: Victim, kind: str) -> None:
    """So what is made of them reaches far."""
    response = victim.ask_for(written(KINDS[kind], spec_of(KINDS[kind])), "/validate")
    assert response["allowed"], response


@pytest.mark.parametrize("kind", KINDS)
@cases(100)
@given(data=st.data())
def test_odd_values_anywhere(victim: Victim, kind: str, data: st.DataObject) -> None:
    review = written(KINDS[kind], spec_of(KINDS[kind]), old=data.draw(st.none() | anything))
    victim.ask_for(data.draw(changed(review, within=("request", "object"))), "/validate")


@cases(150)
@given(key=texts | st.text("abc.[]*?@|&()`'\"{}:,<>=!- 019", max_size=40), place=st.sampled_from(["term", "inject"]))
def test_keys_of_rules(victim: Victim, key: str, place: str) -> None:
    """Near the grammar of JMESPath."""
    expression = {"key": key, "operator": "Exists"}
    inject = [{"workloadKey": key, "asAnnotation": {"name": "node"}}]
    more = (
        {"workloadTerms": [{"matchExpressions": [expression]}]} if place == "term" else {"workloadInfoInject": inject}
    )
    victim.ask_for(written(WORKLOAD_RULES, SPEC | more), "/validate")


@pytest.mark.parametrize(
    "key",
    ["a." * 50_000 + "a", "[" * 50_000, "(" * 50_000, "a[0]" * 50_000, "!" * 50_000, "a|" * 50_000, "`" + "[" * 50_000],
)
def test_long_and_deep_keys(victim: Victim, key: str) -> None:
    more = {"workloadTerms": [{"matchExpressions": [{"key": key, "operator": "Exists"}]}]}
    assert victim.ask_for(written(WORKLOAD_RULES, SPEC | more), "/validate")["allowed"] is False


@pytest.mark.parametrize("field", ["containers", "volumes", "terms", "values", "labels", "tolerations", "env"])
def test_a_hundred_thousand_of_a_thing(victim: Victim, field: str) -> None:
    many = range(100_000)
    spec: JSON = json.loads(json.dumps(SPEC))
    pod = spec["template"]["spec"]
    match field:
        case "containers":
            pod["containers"] = [{"name": f"c{number}", "image": "x"} for number in many]
        case "volumes":
            pod["volumes"] = [{"name": f"v{number}", "emptyDir": {}} for number in many]
        case "terms":
            spec["workloadTerms"] = [{"matchExpressions": []}] * 100_000
        case "values":
            spec["workloadTerms"][0]["matchExpressions"][0]["values"] = [f"v{number}" for number in many]
        case "labels":
            spec["template"]["metadata"]["labels"] = {f"l{number}": "x" for number in many}
        case "tolerations":
            pod["tolerations"] = [{"operator": "Exists"}] * 100_000
        case _:
            pod["containers"][0]["env"] = [{"name": f"E{number}", "value": "x"} for number in many]
    victim.ask_for(written(WORKLOAD_RULES, spec), "/validate")


NAD: JSON = {
    "cniVersion": "1.0.0",
    "name": "net",
    "plugins": [{"type": "sriov", "vlan": 5, "ipam": {"type": "host-local"}, "capabilities": {"ips": True}}],
}


@cases(150)
@given(
    config=changed(NAD).map(json.dumps)
    | texts
    | st.sampled_from(["[" * 100_000, '{"plugins":' * 50_000, "1e999999", ""]),
    annotations=st.dictionaries(st.just("k8s.v1.cni.cncf.io/resourceName") | texts, texts | anything, max_size=2),
)
def test_attachments(victim: Victim, config: str, annotations: JSON) -> None:
    asked = written(NETWORK_ATTACHMENTS, {"config": config})
    asked["request"]["object"]["metadata"]["annotations"] = annotations
    victim.ask_for(asked, "/validate")
