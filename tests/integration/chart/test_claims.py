"""The policies for statuses of claims, where the API server has the kind and where it has not."""

from __future__ import annotations

from typing import Any

from app.claims.permissions import format_policy
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import NODES, PODS, RESOURCE_CLAIMS
from app.kube.retry import get_or_none
from app.kube.transport import connect
from app.wiring import Permission
from tests.integration.chart.test_access import POLICIES
from tests.support.chart import JSON, NAMESPACE, Render, Server
from tests.support.networked_pods import DRIVER, claim
from tests.support.rbac import allow, token_kubeconfig
from tests.support.real_parts import CLAIMS, real_minor, since
from tests.support.waiting import PATIENCE, eventually

ALONE = {"webhook": {"enabled": False}, "claims": {"formatPolicy": "Deny"}}
NAME = "berth-claims-format"


def test_the_policy_is_that_of_the_code(render: Render) -> None:
    for action in ("Warn", "Deny"):
        rendered = render({"claims": {"formatPolicy": action}})
        assert rendered.one("ValidatingAdmissionPolicy", NAME)["spec"] == format_policy()
        binding = rendered.one("ValidatingAdmissionPolicyBinding", NAME)["spec"]
        assert binding == {"policyName": NAME, "validationActions": [action]}
    assert render().of("ValidatingAdmissionPolicy") == []


async def test_a_release_of_the_policy_alone(server: Server) -> None:
    """The sandbox lacks the kind, and Kubernetes before 1.31 functions of its rules: the release goes without it."""
    await server.install(ALONE)
    found = await get_or_none(server.client, POLICIES, NAME)
    assert (found is None) is (server.cluster is not None or real_minor() < 31)
    if found is not None:
        assert found["spec"]["variables"] == format_policy()["variables"]


AGENT = "berth-claims-node"
ON_NODES = {"webhook": {"enabled": False}, "claims-node": {"enabled": True}}
DEVICE: JSON = {"driver": DRIVER, "pool": "pool", "device": "vf-0"}
DATA = {"devices": [DEVICE | {"networkData": {"interfaceName": "net1"}}]}
NOTHING: JSON = {"devices": []}
ALLOCATION: JSON = {"devices": {"results": [{"request": "vf", **DEVICE}]}}


def _field(node: str, operator: str = "In") -> JSON:
    return {"key": "metadata.name", "operator": operator, "values": [node]}


OWN: list[JSON] = [{"matchFields": [_field("n1")]}]
OTHERS: dict[str, list[JSON]] = {
    "anywhere": [],
    "elsewhere": [{"matchFields": [_field("n2")]}],
    "anywhere-else": [{"matchFields": [_field("n1", "NotIn")]}],
    "either": [*OWN, {"matchFields": [_field("n2")]}],
    "twice": [{"matchFields": [_field("n1"), _field("n1")]}],
    "by-label": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}],
    "also-by-label": [{**OWN[0], "matchExpressions": [{"key": "zone", "operator": "Exists"}]}],
}
"""Terms of allocations that the API server takes for none of node n1."""


def test_the_policy_for_node_agents_is_for_their_account_alone(render: Render) -> None:
    rendered = render(ON_NODES, name="net", namespace="networks")
    account = rendered.one("ServiceAccount", "net-berth-claims-node")["metadata"]
    policy = rendered.one("ValidatingAdmissionPolicy", account["name"])["spec"]
    (condition,) = policy["matchConditions"]
    user = f"system:serviceaccount:{account['namespace']}:{account['name']}"
    assert condition["expression"] == f"request.userInfo.username == '{user}'"
    assert policy["failurePolicy"] == "Fail"
    binding = rendered.one("ValidatingAdmissionPolicyBinding")["spec"]
    assert binding == {"policyName": account["name"], "validationActions": ["Deny"]}


async def _claim(server: Server, name: str, allocation: JSON) -> None:
    made = await server.client.create(RESOURCE_CLAIMS, claim(name), namespace="default")
    body = made | {"status": {"allocation": allocation}}
    await server.client.replace(RESOURCE_CLAIMS, name, body, namespace="default", subresource="status")


def _allocation(terms: list[JSON]) -> JSON:
    return ALLOCATION | ({"nodeSelector": {"nodeSelectorTerms": terms}} if terms else {})


async def _agent(server: Server, *, pod: str = "") -> KubeClient:
    """Acts by a token of the agent's account, bound to a Pod."""
    file = await token_kubeconfig(server.client, server.kubeconfig, NAMESPACE, AGENT, pod=pod)
    return await connect(kubeconfig=str(file), deadline=PATIENCE)


async def _said(client: KubeClient, name: str, status: JSON) -> str:
    """ "" where the API server takes the change of the status, else why not."""
    place: Any = {"patch_type": "merge", "namespace": "default", "subresource": "status"}
    try:
        await client.patch(RESOURCE_CLAIMS, name, {"status": status}, **place)
    except ApiError as error:
        return str(error)
    return ""


async def _release(server: Server) -> None:
    """Its account has also the rights of who allocates, as each writer of a status before Kubernetes 1.36."""
    await server.install(ON_NODES)
    more = [
        Permission("cluster", RESOURCE_CLAIMS.group, ("resourceclaims/driver",), ("arbitrary-node:patch",)),
        Permission("cluster", RESOURCE_CLAIMS.group, ("resourceclaims/binding",), ("patch",)),
    ]
    await allow(server.client, f"system:serviceaccount:{NAMESPACE}:{AGENT}", more, role="more", release=NAMESPACE)
    await server.client.create(NODES, NODES.body({"name": "n1"}))
    spec = {"serviceAccountName": AGENT, "nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    await server.client.create(PODS, PODS.body({"name": "agent"}, spec=spec), namespace=NAMESPACE)


@since(CLAIMS)
async def test_a_node_agent_writes_the_devices_of_its_node_alone(server: Server) -> None:
    """A real API server has the policy; the sandbox lacks the kind, and the release goes without it."""
    await _release(server)
    for name, terms in {"own": OWN, **OTHERS}.items():
        await _claim(server, name, _allocation(terms))
    await server.client.create(RESOURCE_CLAIMS, claim("free"), namespace="default")
    async with await _agent(server, pod="agent") as agent, await _agent(server) as unbound:
        assert await _said(agent, "own", DATA) == ""
        if server.cluster is not None:
            return
        refused = "want devices allocated on n1"
        await eventually(lambda: _said(agent, "elsewhere", DATA), lambda said: refused in said)
        for name in OTHERS:
            assert refused in await _said(agent, name, DATA), name
        handed = {"reservedFor": [{"resource": "pods", "name": "other", "uid": "u"}]}
        kept = "want allocation and reservedFor as they are"
        for name, change in {"own": {"allocation": None}, "free": {"allocation": _allocation(OWN)}}.items():
            assert kept in await _said(agent, name, change), name
        assert kept in await _said(agent, "own", handed)
        assert [await _said(agent, name, NOTHING) for name in ("own", "free")] == ["", ""]
        assert "has to be that of its Pod" in await _said(unbound, "own", DATA)
        assert await _said(server.client, "elsewhere", DATA) == ""
