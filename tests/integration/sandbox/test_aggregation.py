"""ClusterRoles that aggregate others, in the sandbox and beside a real kube-controller-manager."""

from __future__ import annotations

from typing import Any

from app.devtools.sandbox.bootstrap import default_roles
from app.kube.client import KubeClient
from app.kube.resources import CLUSTER_ROLES
from tests.support.control_plane import ControlPlane
from tests.support.waiting import eventually

JSON = dict[str, Any]
LABEL = "rbac.authorization.k8s.io/aggregate-to-view"
SHIPPED = (
    *("cluster-admin", "admin", "edit", "view"),
    *(f"system:aggregate-to-{name}" for name in ("admin", "edit", "view")),
    *("system:basic-user", "system:discovery", "system:public-info-viewer"),
)
VERBS = ("get", "list", "watch")


def rule(*resources: str, group: str = "example.com") -> JSON:
    return {"apiGroups": [group], "resources": [*resources], "verbs": [*VERBS]}


def role(name: str, *rules: JSON, **fields: Any) -> JSON:
    return CLUSTER_ROLES.body({"name": name, **fields.pop("metadata", {})}, rules=[*rules], **fields)


def rules_of(client: KubeClient, name: str) -> Any:
    async def read() -> list[JSON]:
        return (await client.get(CLUSTER_ROLES, name)).get("rules") or []

    return read


async def test_roles_that_every_cluster_has_are_those_of_kubernetes(control_plane: ControlPlane) -> None:
    """The sandbox has them from a file, which is compared with what a real cluster has."""
    expected = {body["metadata"]["name"]: body for body in default_roles()}
    assert set(expected) == set(SHIPPED)
    for name in SHIPPED:
        await eventually(
            rules_of(control_plane.client, name), lambda found, name=name: found == expected[name]["rules"]
        )
        found = await control_plane.client.get(CLUSTER_ROLES, name)
        assert found["metadata"]["labels"] == expected[name]["metadata"]["labels"]
        assert found.get("aggregationRule") == expected[name].get("aggregationRule")


async def test_rules_of_what_is_labeled_come_and_go(control_plane: ControlPlane) -> None:
    client, labels = control_plane.client, {"labels": {LABEL: "true"}}
    shipped = {body["metadata"]["name"]: body["rules"] for body in default_roles()}
    before = {name: shipped[name] for name in ("view", "edit", "admin")}
    for name, rules in before.items():
        await eventually(rules_of(client, name), lambda found, rules=rules: found == rules)
    await client.create(CLUSTER_ROLES, role("b-viewer", rule("bs"), rule("shared"), metadata=labels))
    await client.create(CLUSTER_ROLES, role("a-viewer", rule("as"), rule("shared"), metadata=labels))
    # By name, and what two have once.
    own = [rule("as"), rule("shared"), rule("bs")]
    for name, rules in before.items():
        found = await eventually(rules_of(client, name), lambda rules: all(one in rules for one in own))
        assert [one for one in found if one in own] == own
        assert [one for one in found if one not in own] == rules
    await client.patch(CLUSTER_ROLES, "b-viewer", {"metadata": {"labels": {LABEL: "false"}}}, patch_type="merge")
    await eventually(rules_of(client, "admin"), lambda rules: rule("bs") not in rules and rule("shared") in rules)
    await client.delete(CLUSTER_ROLES, "a-viewer")
    for name, rules in before.items():
        await eventually(rules_of(client, name), lambda found, rules=rules: found == rules)


async def test_rules_that_are_written_into_an_aggregate_do_not_last(control_plane: ControlPlane) -> None:
    client = control_plane.client
    selectors = [
        {"matchExpressions": [{"key": "team", "operator": "In", "values": ["red", "blue"]}]},
        {"matchLabels": {"extra": "yes"}},
    ]
    await client.create(CLUSTER_ROLES, role("a-extra", rule("extras"), metadata={"labels": {"extra": "yes"}}))
    await client.create(CLUSTER_ROLES, role("z-red", rule("reds"), metadata={"labels": {"team": "red"}}))
    # It selects itself too: its own rules are no source.
    body = role("team", rule("written"), aggregationRule={"clusterRoleSelectors": selectors})
    body["metadata"]["labels"] = {"team": "blue"}
    await client.create(CLUSTER_ROLES, body)
    # In the order of the selectors.
    wanted = [rule("reds"), rule("extras")]
    await eventually(rules_of(client, "team"), lambda found: found == wanted)
    await client.patch(CLUSTER_ROLES, "team", {"rules": [rule("written")]}, patch_type="merge")
    await eventually(rules_of(client, "team"), lambda found: found == wanted)
    fields = (await client.get(CLUSTER_ROLES, "team"))["metadata"]["managedFields"]
    assert ("clusterrole-aggregation-controller", "Apply") in {(one["manager"], one["operation"]) for one in fields}
