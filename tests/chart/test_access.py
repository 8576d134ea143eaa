"""The Roles of the chart say what `app/permissions.py` says, verb by verb, and nobody has more."""

from __future__ import annotations

import helm_python
import pytest

from app import permissions
from app.permissions import Permission
from tests.chart.combinations import ALL, COMBINATIONS
from tests.chart.conftest import JSON, NAMESPACE, Render, Rendered

Right = tuple[str, str, str, str, str]
"""Scope, group, resource, verb and name ("" for any)."""
each_combination = pytest.mark.parametrize("values", COMBINATIONS.values(), ids=COMBINATIONS)


def _wanted(values: JSON) -> dict[str, set[Right]]:
    """What the table says for the roles that these (whole) values enable."""
    on = {role: values[role]["enabled"] for role in ("webhook", "controller", "gateway", "agent")}
    table: dict[str, tuple[Permission, ...]] = {}
    if on["webhook"]:
        args = values["webhook"]["args"]
        table["webhook"] = permissions.webhook(confine_tenants=args["confineTenants"], events=args["events"])
        if values["preDeleteHook"]["enabled"]:
            table["unregister"] = permissions.unregistering()
    for role, said in (
        ("controller", permissions.controller),
        ("gateway", permissions.gateway),
        ("agent", permissions.agent),
    ):
        if on[role]:
            table[role] = said()
    if values["certificates"]["mode"] == "self-managed" and (on["webhook"] or on["gateway"]):
        table["certificates"] = permissions.certificates(webhook=on["webhook"], gateway=on["gateway"])
    return {role: {right for one in said for right in _rights(one)} for role, said in table.items()}


def _rights(permission: Permission) -> set[Right]:
    return {
        (permission.scope, permission.group, resource, verb, name)
        for resource in permission.resources
        for verb in permission.verbs
        for name in permission.names or ("",)
    }


def _granted(rendered: Rendered, namespace: str) -> dict[str, set[Right]]:
    """What the rendered bindings give to each role, and what the controller will bind in tenants' namespaces."""
    scopes = {None: "cluster", namespace: "release", "universe": "system"}
    granted: dict[str, set[Right]] = {}
    for binding in (*rendered.of("ClusterRoleBinding"), *rendered.of("RoleBinding")):
        (subject,) = binding["subjects"]
        assert subject["kind"] == "ServiceAccount"
        assert subject["namespace"] == namespace
        place = binding["metadata"].get("namespace")
        (role,) = (
            obj
            for obj in rendered.of(binding["roleRef"]["kind"])
            if obj["metadata"]["name"] == binding["roleRef"]["name"] and obj["metadata"].get("namespace") == place
        )
        granted.setdefault(subject["name"].removeprefix("berth-"), set()).update(_ruled(role, scopes[place]))
    for role in permissions.TENANT_GRANTS:
        for cluster_role in rendered.of("ClusterRole"):
            if cluster_role["metadata"]["name"] == permissions.tenants_role(role):
                granted[role] |= _ruled(cluster_role, "tenants")
    return granted


def _ruled(role: JSON, scope: str) -> set[Right]:
    return {
        (scope, group, resource, verb, name)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames") or ("",)
    }


@each_combination
def test_each_role_has_what_the_table_says_and_no_verb_more(
    chart: helm_python.Chart, render: Render, values: JSON
) -> None:
    assert _granted(render(values), NAMESPACE) == _wanted(chart.merge_values(values))


@each_combination
def test_nobody_has_every_verb_or_the_secrets_of_the_cluster(render: Render, values: JSON) -> None:
    for role, rights in _granted(render(values), NAMESPACE).items():
        for scope, group, resource, verb, name in rights:
            assert "*" not in (group, resource, verb, name)
            if resource == "secrets":
                assert (role, scope) in {("certificates", "release"), ("gateway", "tenants")}
                assert role == "gateway" or name or verb == "create"
            assert verb not in ("escalate", "impersonate", "deletecollection")


def test_the_gateway_does_not_read_the_secrets_beside_it(render: Render) -> None:
    """Where the release is in `universe`, the gateway's CA is there: its key is the certificates role's alone."""
    for binding in render(ALL, namespace="universe").of("RoleBinding"):
        if binding["subjects"][0]["name"] == "berth-gateway":
            assert binding["roleRef"]["kind"] == "Role"
    rights = _granted(render(ALL), NAMESPACE)["gateway"]
    assert {right[2] for right in rights if right[0] in ("system", "release")} == {"adminworkloadrules"}


def test_the_controller_binds_the_two_roles_that_it_is_told_and_no_other(render: Render) -> None:
    rendered = render(ALL)
    rights = _granted(rendered, NAMESPACE)["controller"]
    bound = {right[4] for right in rights if right[3] == "bind"}
    flags = [arg for arg in rendered.container("controller")["args"] if arg.startswith("--namespace-grant=")]
    assert flags == [
        f"--namespace-grant=berth-controller-tenants={NAMESPACE}/berth-controller",
        f"--namespace-grant=berth-gateway-tenants={NAMESPACE}/berth-gateway",
    ]
    assert {flag.split("=")[1] for flag in flags} == bound
    assert bound <= {obj["metadata"]["name"] for obj in rendered.of("ClusterRole")}


def test_the_hook_may_look_at_and_delete_the_releases_own_registration_alone(render: Render) -> None:
    rendered = render({}, name="other")
    (rule,) = rendered.one("ClusterRole", "other-berth-unregister")["rules"]
    assert rule["resourceNames"] == [rendered.one("MutatingWebhookConfiguration")["metadata"]["name"]]
    assert rule["resourceNames"] == ["other-berth"]
