"""Manifests of the resource service: what is read, what is stored of it, what is shown. No server."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from app.kube.resources import DAEMON_SETS, PODS, SECRETS, Resource
from app.placement.model import PlacementOptions, parse_policy
from app.tenancy.gateway.failures import Refused
from app.tenancy.gateway.resource_service import prepare, read, render
from app.tenancy.gateway.settings import Limits
from tests.support.gateway_calls import BOMB, POD, manifest, pod

NS = "tenant-tenant1"
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": POD["spec"]}
DAEMON_SET = manifest("DaemonSet", "x", spec={"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE})


def test_yaml_in_answers_reads_the_same_everywhere() -> None:
    """Text that some reader would take for a number, a date or a truth is quoted."""
    words = [
        "1e3",
        "0x10",
        "no",
        "2026-01-01",
        "~",
        "",
        " x",
        "a: b",
        "#",
        "multi\nline\n",
        "ü",
        "1_000",
        "12:30",
        "null",
    ]
    obj = manifest("ConfigMap", "x", data={f"k{n}": word for n, word in enumerate(words)})
    text = render(obj).decode()
    assert yaml.safe_load(text) == obj
    for word in words:
        if word not in ("multi\nline\n", "ü"):
            assert f'"{word}"' in text


@pytest.mark.parametrize("resource", [PODS, DAEMON_SETS], ids=lambda resource: resource.kind)
def test_what_the_cloud_admin_allows_is_stored(resource: Resource) -> None:
    spec = {**POD["spec"], "volumes": [{"name": "v", "csi": {"driver": "a.example"}}]}
    daemon_set = {**DAEMON_SET, "spec": {**DAEMON_SET["spec"], "template": {**TEMPLATE, "spec": spec}}}
    obj = {**pod("x"), "spec": spec} if resource == PODS else daemon_set
    with pytest.raises(Refused, match=r'spec\.volumes\[0\]\.csi\.driver: "a\.example" is not allowed'):
        prepare(obj, resource=resource, namespace=NS, owner="api")
    placement = PlacementOptions(policy=parse_policy(["csiDriver=a.example"]))
    made = prepare(obj, resource=resource, namespace=NS, owner="api", placement=placement)
    assert "a.example" in str(made.body)


def test_what_is_applied_of_a_secret_holds_no_plain_strings() -> None:
    secret = manifest("Secret", "x", stringData={"a": "b"})
    made = prepare(secret, resource=SECRETS, namespace=NS, owner="api")
    assert made.body["data"] == {"a": "Yg=="}
    assert "stringData" not in made.body
    assert (
        prepare(manifest("Secret", "x", data={"a": "Yg=="}), resource=SECRETS, namespace=NS, owner="x").hash
        == made.hash
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [(b'{"a":' * 100 + b"1" + b"}" * 100, "levels"), (b"x: y\n" * 80_000, "use JSON"), (BOMB, "neither JSON nor YAML")],
    ids=["deep", "long YAML", "aliases"],
)
def test_bombs_are_refused_before_they_are_looked_at(text: bytes, problem: str) -> None:
    with pytest.raises(Refused, match=problem):
        read(text, kind="ConfigMap", limits=Limits())


def test_a_large_answer_is_yaml_as_well() -> None:
    obj = manifest("ConfigMap", "x", data={"a": "ü: \x1f\n" * 3000})
    assert yaml.safe_load(render(obj)) == obj


def _terms(spec: dict[str, Any]) -> Any:
    return spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]


def test_pods_and_the_templates_of_daemon_sets_stay_on_the_tenants_nodes() -> None:
    """A DaemonSet's controller reads the template alone: the webhook, which sees its Pods, comes too late."""
    wanted = [{"matchExpressions": [{"key": "berth.dev/tenant", "operator": "In", "values": ["tenant1"]}]}]
    made = prepare(pod("x"), resource=PODS, namespace=NS, owner="api")
    assert _terms(made.body["spec"]) == wanted
    made = prepare(DAEMON_SET, resource=DAEMON_SETS, namespace=NS, owner="api")
    assert _terms(made.body["spec"]["template"]["spec"]) == wanted
    elsewhere = pod("x")
    elsewhere["spec"] = {**elsewhere["spec"], "nodeSelector": {"berth.dev/tenant": "tenant2"}}
    with pytest.raises(Refused, match=r"obj\.obj_spec\.spec\.nodeSelector"):
        prepare(elsewhere, resource=PODS, namespace=NS, owner="api")
