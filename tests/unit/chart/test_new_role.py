"""A role that only these tests have: one entry in the registry, and the chart runs it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Annotated

import helm_python
import pytest

from app import permissions
from app.registry import BY_NAME, ROLES, WINGS
from app.settings.source import SERVING, Flag, RoleSettings
from app.wiring import READ, Argument, Chart, Permission, Permissions, Port, Role, Wing
from docs.generate.chart import SCHEMA, roles_file, with_roles
from tests.support.chart import CHART, NAMESPACE, Rendered, rendering


class NodeSettings(RoleSettings):
    port: Annotated[int, Flag("Port", SERVING)] = 7000
    rate: Annotated[float, Flag("How much", SERVING)] = 1.5
    deep: Annotated[bool, Flag("How", SERVING)] = True
    drain_seconds: Annotated[float, Flag("How long", SERVING)] = 3.0


PERMISSIONS: Permissions = {
    "node": (
        Permission("cluster", "", ("nodes",), READ),
        Permission("release", "", ("secrets",), ("get",), ("node-key",), when="deep"),
    )
}


def _node(kind: str) -> Role:
    chart = Chart(
        kind="DaemonSet" if kind == "DaemonSet" else "Deployment",
        ports=(Port("data", 7000, 70),),
        arguments=(Argument("port", text="7000"), Argument("rate"), Argument("deep"), Argument("drain_seconds")),
        grace=("drain_seconds",),
    )
    return Role("node", f"{__name__}:NodeSettings", "", "Serves a node.", (), chart=chart)


@pytest.fixture(params=["DaemonSet", "Deployment"])
def chart(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The chart with one role more, as `make generate` would write it."""
    node = _node(request.param)
    wing = Wing("test", permissions=f"{__name__}:PERMISSIONS", roles=(node,))
    monkeypatch.setattr(permissions, "WINGS", (*WINGS, wing))
    monkeypatch.setitem(BY_NAME, node.name, node)
    permissions.declared.cache_clear()
    copied = shutil.copytree(CHART, tmp_path / "berth")
    schema = copied / Path(SCHEMA).name
    (copied / "files" / "roles.json").write_text(json.dumps(roles_file((*ROLES, node))))
    schema.write_text(json.dumps(with_roles(json.loads(schema.read_text()), [node])))
    permissions.declared.cache_clear()
    return copied


def _rendered(chart: Path, **values: object) -> Rendered:
    given = {"enabled": True, "args": {"rate": 2, "deep": True, "drainSeconds": 7.5}} | values
    return rendering(helm_python.Chart.load(chart))({"node": given})


def test_its_pods_run_with_its_arguments_and_its_time_to_drain(chart: Path, request: pytest.FixtureRequest) -> None:
    kind = request.node.callspec.params["chart"]
    workload = _rendered(chart).one(kind, "berth-node")
    pod = workload["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    own = ["node", "--port=7000", "--rate=2", "--deep", "--drain-seconds=7.5"]
    assert container["args"] == [*own, "--health-check-port=8444", "--log-level=info"]
    assert [port["containerPort"] for port in container["ports"]] == [7000, 8444]
    assert pod["terminationGracePeriodSeconds"] == 5 + 8 + 10
    assert workload["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"] == "node"
    assert ("replicas" in workload["spec"]) is (kind == "Deployment")


def test_it_has_its_account_its_rights_its_services_and_its_policy(chart: Path, request: pytest.FixtureRequest) -> None:
    rendered = _rendered(chart)
    rules = {kind: rendered.one(kind, "berth-node")["rules"] for kind in ("ClusterRole", "Role")}
    assert rules == {
        "ClusterRole": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}],
        "Role": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["node-key"]}],
    }
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        assert rendered.one(kind, "berth-node")["subjects"][0]["name"] == "berth-node"
    assert rendered.one("ServiceAccount", "berth-node")["metadata"]["namespace"] == NAMESPACE
    assert rendered.one("Service", "berth-node")["spec"]["ports"][0]["port"] == 70
    assert rendered.one("Service", "berth-node-metrics")
    ports = rendered.one("NetworkPolicy", "berth-node")["spec"]["ingress"][0]["ports"]
    assert [port["port"] for port in ports] == [7000, 8444]
    budgets = [obj["metadata"]["name"] for obj in rendered.of("PodDisruptionBudget")]
    # A drain leaves Pods of a DaemonSet alone.
    assert ("berth-node" in budgets) is (request.node.callspec.params["chart"] == "Deployment")


def test_what_is_off_is_not_there(chart: Path) -> None:
    rendered = _rendered(chart, args={"deep": False})
    assert "berth-node" not in [obj["metadata"]["name"] for obj in rendered.of("Role")]
    off = _rendered(chart, enabled=False)
    assert not [obj for obj in off if "node" in obj["metadata"]["name"]]


def test_helm_finds_no_fault_with_it_and_the_schema_knows_its_values(chart: Path) -> None:
    report = helm_python.lint(chart, {"node": {"enabled": True}}, strict=True, namespace=NAMESPACE)
    assert report["errors"] == []
    assert [found for found in report["messages"] if found["severity"] > 1] == []
    with pytest.raises(helm_python.HelmValuesError, match="/node/args/rate"):
        helm_python.Chart.load(chart).validate_schema({"node": {"args": {"rate": "much"}}})
