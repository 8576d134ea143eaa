"""The Roles of the chart say what `app/permissions.py` says, verb by verb, and nobody has more."""

from __future__ import annotations

import asyncio

import pytest

from app.certs.permissions import unregistering
from app.doctor.reachability import READS
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES, ROLE_BINDINGS, Resource
from app.kube.retry import get_or_none
from app.kube.transport import connect
from app.permissions import permissions_of
from app.tenancy.model import tenants_role
from app.tenancy.namespace import NamespaceObject, ensure_grants, parse_grant
from app.tenancy.permissions import TENANT_GRANTS
from app.wiring import Permission
from tests.support.chart import JSON, NAMESPACE, Render, Rendered, Server
from tests.support.chart_arguments import settings_of
from tests.support.chart_combinations import ALL, COMBINATIONS, INFRA
from tests.support.waiting import PATIENCE

POLICIES = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)

Right = tuple[str, str, str, str, str]
"""Scope, group, resource, verb and name ("" for any)."""
each_combination = pytest.mark.parametrize("values", COMBINATIONS.values(), ids=COMBINATIONS)


def _wanted(rendered: Rendered) -> dict[str, set[Right]]:
    """What the code says that the roles need, each with the settings of its container; and the job before an end."""
    table = {}
    for deployment in rendered.workloads():
        role = deployment["metadata"]["labels"]["app.kubernetes.io/component"]
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        table[role] = permissions_of(role, **dict(settings_of(role, container)))
    if rendered.of("Pod"):
        table["test"] = READS
    if rendered.of("Job"):
        name = rendered.one("MutatingWebhookConfiguration")["metadata"]["name"]
        table["unregister"] = unregistering(configurations=(name,))
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
    scopes = {None: "cluster", namespace: "release", "universe": "system", "default": "rmd"}
    granted: dict[str, set[Right]] = {}
    for binding in (*rendered.of("ClusterRoleBinding"), *rendered.of("RoleBinding")):
        (subject,) = binding["subjects"]
        assert subject["kind"] == "ServiceAccount"
        of_node = subject["name"].endswith("-rmd-node")
        assert subject["namespace"] == ("default" if of_node else namespace)
        place = binding["metadata"].get("namespace")
        (role,) = (
            obj
            for obj in rendered.of(binding["roleRef"]["kind"])
            if obj["metadata"]["name"] == binding["roleRef"]["name"] and obj["metadata"].get("namespace") == place
        )
        name = subject["name"].partition("berth-")[2]
        granted.setdefault(name, set()).update(_ruled(role, scopes[place]))
    for role in TENANT_GRANTS:
        for cluster_role in rendered.of("ClusterRole"):
            if cluster_role["metadata"]["name"] == tenants_role(role):
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
def test_each_role_has_what_the_table_says_and_no_verb_more(render: Render, values: JSON) -> None:
    rendered = render(values)
    assert _granted(rendered, NAMESPACE) == _wanted(rendered)


def test_the_rights_of_another_release_are_for_objects_of_its_own_names(render: Render) -> None:
    rendered = render(ALL, name="other")
    assert _granted(rendered, NAMESPACE) == _wanted(rendered)
    (role,) = (obj for obj in rendered.of("Role") if obj["metadata"]["name"] == "other-berth-certificates")
    assert "other-berth-webhook-tls" in {right[4] for right in _ruled(role, "release")}


@each_combination
def test_nobody_has_every_verb_or_the_secrets_of_the_cluster(render: Render, values: JSON) -> None:
    args = (values.get("controller") or {}).get("args") or {}
    impersonates = {"controller"} if args.get("appwrapperImpersonation") == "legacy" else set()
    for role, rights in _granted(render(values), NAMESPACE).items():
        for scope, group, resource, verb, name in rights:
            assert "*" not in (group, resource, verb, name)
            if resource == "secrets":
                assert (role, scope) in {("certificates", "release"), ("gateway", "tenants"), ("controller", "rmd")}
                assert role == "gateway" or name or verb == "create"
            assert verb not in ("escalate", "deletecollection")
            assert verb != "impersonate" or role in impersonates


def test_the_gateway_does_not_read_the_secrets_beside_it(render: Render) -> None:
    """The key of the gateway's CA is the certificates role's alone."""
    for binding in render(ALL).of("RoleBinding"):
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


@pytest.mark.parametrize(("name", "namespace"), [("berth", NAMESPACE), ("other", "elsewhere")])
def test_the_controller_may_bind_them_in_namespaces_of_tenants_alone(render: Render, name: str, namespace: str) -> None:
    rendered = render(ALL, name=name, namespace=namespace)
    account = rendered.one("Deployment", f"{'berth' if name == 'berth' else 'other-berth'}-controller")
    policy = rendered.one("ValidatingAdmissionPolicy", account["metadata"]["name"])["spec"]
    (condition,) = policy["matchConditions"]
    acting = f"system:serviceaccount:{namespace}:{account['spec']['template']['spec']['serviceAccountName']}"
    assert condition["expression"] == f"request.userInfo.username == '{acting}'"
    assert policy["failurePolicy"] == "Fail"
    binding = rendered.one("ValidatingAdmissionPolicyBinding")["spec"]
    assert binding == {"policyName": account["metadata"]["name"], "validationActions": ["Deny"]}
    assert render().of("ValidatingAdmissionPolicy") == []


async def test_an_owner_of_the_controller_does_not_reach_the_secrets_of_others(server: Server) -> None:
    """A real API server has the policy; the sandbox lacks the kind, and the release goes without it."""
    await server.install(INFRA | {"preDeleteHook": {"enabled": False}})
    found = await get_or_none(server.client, POLICIES, "berth-controller")
    assert (found is None) is (server.cluster is not None)
    await server.client.create(NAMESPACES, {"metadata": {"name": "tenant-foreign"}})
    await server.client.create(NAMESPACES, {"metadata": {"name": "tenant-one", "labels": {"berth.dev/tenant": "one"}}})
    async with await connect(
        kubeconfig=str(server.kubeconfig_of(NAMESPACE, "berth-controller")), deadline=PATIENCE
    ) as controller:
        grant = parse_grant(f"berth-gateway-tenants={NAMESPACE}/berth-controller")
        async with asyncio.timeout(PATIENCE):
            while found is not None and await _binds(controller, grant):  # the server takes a moment to heed it
                await server.client.delete(ROLE_BINDINGS, grant.name, namespace="kube-system")
        await ensure_grants(controller, "tenant-one", [grant])
        assert await _binds(controller, grant, "tenant-foreign") is (found is None)


async def _binds(client: KubeClient, grant: NamespaceObject, namespace: str = "kube-system") -> bool:
    try:
        await ensure_grants(client, namespace, [grant])
    except ApiError as error:
        if "ValidatingAdmissionPolicy 'berth-controller'" not in str(error):
            raise
        return False
    return True


def test_the_hook_may_look_at_and_delete_the_releases_own_registration_alone(render: Render) -> None:
    rendered = render({}, name="other")
    (rule,) = rendered.one("ClusterRole", "other-berth-unregister")["rules"]
    assert rule["resourceNames"] == [rendered.one("MutatingWebhookConfiguration")["metadata"]["name"]]
    assert rule["resourceNames"] == ["other-berth"]
