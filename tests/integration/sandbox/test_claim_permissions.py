"""Who may write which part of a ResourceClaim's status: RBAC, and the questions of granular authorization.

The rules are those of Kubernetes 1.36.
"""

from __future__ import annotations

import ssl
from typing import Any

import pytest
import urllib3

from tests.support.resource_claims import (
    ALLOCATION,
    APPLY,
    DEVICE,
    DRIVER,
    MERGE,
    RESULTS,
    allocate,
    apply_devices,
    claim_path,
    create_claim,
    patch_status,
)
from tests.support.waiting import PATIENCE, wait_until

JSON = dict[str, Any]
GROUP = "resource.k8s.io"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
STATUS = {
    "apiGroups": [GROUP],
    "resources": ["resourceclaims", "resourceclaims/status"],
    "verbs": ["get", "patch", "update"],
}
ENTRIES = [{**DEVICE, "data": {"a": 1}}]


def driver_rule(*verbs: str, names: tuple[str, ...] = ()) -> JSON:
    rule: JSON = {"apiGroups": [GROUP], "resources": ["resourceclaims/driver"], "verbs": list(verbs)}
    return {**rule, "resourceNames": list(names)} if names else rule


@pytest.fixture
def claim(served: Any, namespace: str) -> str:
    """The namespace of a claim that is allocated on the node n1."""
    create_claim(served, namespace)
    allocate(served, namespace)
    return namespace


def grant(served: Any, namespace: str, subject: JSON, *rules: JSON) -> None:
    """Give the subject these rules in the namespace, and wait until they hold."""
    name = subject["name"]
    served.request("POST", f"{RBAC}/namespaces/{namespace}/roles", {"metadata": {"name": name}, "rules": list(rules)})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    answer = served.request("POST", f"{RBAC}/namespaces/{namespace}/rolebindings", binding)
    assert answer.status == 201, answer.body
    account = f"system:serviceaccount:{namespace}:{name}"
    question = {
        "spec": {
            "user": account if subject["kind"] == "ServiceAccount" else name,
            "resourceAttributes": {
                "group": GROUP,
                "resource": "resourceclaims",
                "verb": "patch",
                "namespace": namespace,
            },
        }
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    wait_until(lambda: bool(served.request("POST", path, question).body["status"]["allowed"]))


def as_user(namespace: str, word: str) -> JSON:
    """The options of a request by a user of this test."""
    return {"user": f"{word}-{namespace}", "groups": ()}


def user(namespace: str, word: str) -> JSON:
    return {"kind": "User", "name": f"{word}-{namespace}", "apiGroup": "rbac.authorization.k8s.io"}


def refusal(namespace: str, who: str, verbs: tuple[str, ...], driver: str = DRIVER) -> str:
    """The whole message of a refused write of a driver's entries."""
    return (
        'ResourceClaim.resource.k8s.io "claim" is invalid: status.devices: Forbidden: changing status.devices requires '
        f'resource="resourceclaims/driver", verb="[{" ".join(verbs)}]" permission: resourceclaims.resource.k8s.io '
        f'"{driver}" is forbidden: User "{who}" cannot {verbs[0]} resource "resourceclaims/driver" in API group '
        f'"resource.k8s.io" in the namespace "{namespace}"'
    )


def test_the_status_needs_its_own_permission(served: Any, claim: str) -> None:
    grant(served, claim, user(claim, "claims"), {**STATUS, "resources": ["resourceclaims"]})
    answer = apply_devices(served, claim, ENTRIES, "m", **as_user(claim, "claims"))
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")


@pytest.mark.parametrize(
    "rules",
    [
        (),
        (driver_rule("arbitrary-node:update"),),
        (driver_rule("arbitrary-node:patch", names=("other.example.com",)),),
        (driver_rule("arbitrary-node:patch", names=("*",)),),
        (driver_rule("associated-node:patch"),),
    ],
    ids=["status alone", "verb of PUT", "other driver", "no wildcard", "node of a user"],
)
def test_entries_of_a_driver_need_its_permission(served: Any, claim: str, rules: tuple[JSON, ...]) -> None:
    grant(served, claim, user(claim, "writer"), STATUS, *rules)
    answer = apply_devices(served, claim, ENTRIES, "m", **as_user(claim, "writer"))
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert answer.body["message"] == refusal(claim, f"writer-{claim}", ("arbitrary-node:patch",))


@pytest.mark.parametrize("names", [(), (DRIVER,)])
def test_with_the_permission_entries_are_written(served: Any, claim: str, names: tuple[str, ...]) -> None:
    grant(served, claim, user(claim, "writer"), STATUS, driver_rule("arbitrary-node:patch", names=names))
    assert apply_devices(served, claim, ENTRIES, "m", **as_user(claim, "writer")).status == 200
    assert patch_status(served, claim, {"devices": None}, **as_user(claim, "writer")).status == 200


def test_a_put_is_asked_with_its_own_verb(served: Any, claim: str) -> None:
    grant(served, claim, user(claim, "patcher"), STATUS, driver_rule("arbitrary-node:patch"))
    grant(served, claim, user(claim, "updater"), STATUS, driver_rule("arbitrary-node:update"))
    body = served.request("GET", claim_path(claim, "claim")).body
    body["status"]["devices"] = ENTRIES
    path = claim_path(claim, "claim", status=True)
    answer = served.request("PUT", path, body, **as_user(claim, "patcher"))
    assert answer.body["message"] == refusal(claim, f"patcher-{claim}", ("arbitrary-node:update",))
    assert served.request("PUT", path, body, **as_user(claim, "updater")).status == 200


def test_what_changes_no_entry_needs_no_permission_for_a_driver(served: Any, claim: str) -> None:
    grant(served, claim, user(claim, "writer"), STATUS)
    assert apply_devices(served, claim, ENTRIES, "m").status == 200
    assert apply_devices(served, claim, ENTRIES, "other", **as_user(claim, "writer")).status == 200


def test_each_changed_driver_is_asked_about(served: Any, namespace: str) -> None:
    create_claim(served, namespace)
    drivers = ("a.example.com", "b.example.com", "c.example.com")
    results = [{**RESULTS[0], "driver": driver} for driver in drivers]
    allocate(served, namespace, allocation={**ALLOCATION, "devices": {"results": results}})
    entries = [{**DEVICE, "driver": driver, "data": {"a": 1}} for driver in drivers]
    assert patch_status(served, namespace, {"devices": entries[:2]}).status == 200
    grant(served, namespace, user(namespace, "writer"), STATUS, driver_rule("arbitrary-node:patch", names=drivers[1:2]))
    changed = [{**entries[0], "data": {"a": 2}}, {**entries[1], "data": {"a": 2}}, entries[2]]
    answer = patch_status(served, namespace, {"devices": changed}, **as_user(namespace, "writer"))
    text = answer.body["message"]
    assert [driver for driver in drivers if f'"{driver}" is forbidden' in text] == [drivers[0], drivers[2]]
    removed = patch_status(served, namespace, {"devices": entries[1:2]}, **as_user(namespace, "writer"))
    assert removed.body["message"] == refusal(
        namespace, f"writer-{namespace}", ("arbitrary-node:patch",), "a.example.com"
    )


def test_without_an_allocation_no_driver_is_asked_about(served: Any, namespace: str) -> None:
    create_claim(served, namespace)
    grant(served, namespace, user(namespace, "writer"), STATUS)
    answer = patch_status(served, namespace, {"devices": ENTRIES}, **as_user(namespace, "writer"))
    assert answer.status == 422
    assert answer.body["message"].endswith("must be an allocated device in the claim")


def node(served: Any, name: str) -> None:
    assert served.request("POST", "/api/v1/nodes", {"metadata": {"name": name}}).status in (201, 409)


def token_of(served: Any, namespace: str, account: str, reference: JSON | None) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    answer = served.request("POST", path, {"spec": {"boundObjectRef": reference}})
    assert answer.status == 201, answer.body
    return str(answer.body["status"]["token"])


def apply_with_token(served: Any, namespace: str, token: str, devices: list[JSON]) -> tuple[int, JSON]:
    """A server-side apply as the account of a token; the HTTP status and the answer."""
    body = {"apiVersion": f"{GROUP}/v1", "kind": "ResourceClaim", "metadata": {"name": "claim"}}
    headers = {"Authorization": f"Bearer {token}", "Content-Type": APPLY}
    context = ssl.create_default_context(cadata=served.ca_pem)
    with urllib3.PoolManager(ssl_context=context, retries=False, timeout=PATIENCE) as pool:
        url = f"{served.url}{claim_path(namespace, 'claim', status=True)}?fieldManager=agent"
        answer = pool.request("PATCH", url, json={**body, "status": {"devices": devices}}, headers=headers)
        return answer.status, answer.json()


@pytest.fixture
def account(served: Any, claim: str) -> str:
    """The namespace of a ServiceAccount `agent` that may write entries on its own node, and of its Pod on n1."""
    for name in ("n1", "n2"):
        node(served, name)
    served.request("POST", f"/api/v1/namespaces/{claim}/serviceaccounts", {"metadata": {"name": "agent"}})
    pod = {"serviceAccountName": "agent", "nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    answer = served.request("POST", f"/api/v1/namespaces/{claim}/pods", {"metadata": {"name": "agent"}, "spec": pod})
    assert answer.status == 201, answer.body
    subject = {"kind": "ServiceAccount", "name": "agent", "namespace": claim}
    grant(served, claim, subject, STATUS, driver_rule("associated-node:patch"))
    return claim


@pytest.mark.parametrize("reference", [{"kind": "Node", "name": "n1"}, {"kind": "Pod", "name": "agent"}])
def test_an_agent_writes_for_claims_on_its_node(served: Any, account: str, reference: JSON) -> None:
    token = token_of(served, account, "agent", {"apiVersion": "v1", **reference})
    status, body = apply_with_token(served, account, token, ENTRIES)
    assert status == 200, body


@pytest.mark.parametrize("reference", [{"kind": "Node", "name": "n2", "apiVersion": "v1"}, None])
def test_an_agent_of_another_node_needs_more(served: Any, account: str, reference: JSON | None) -> None:
    token = token_of(served, account, "agent", reference)
    status, body = apply_with_token(served, account, token, ENTRIES)
    who = f"system:serviceaccount:{account}:agent"
    assert (status, body["message"]) == (422, refusal(account, who, ("arbitrary-node:patch",)))


def test_both_verbs_are_named_on_the_node_of_the_claim(served: Any, claim: str) -> None:
    node(served, "n1")
    served.request("POST", f"/api/v1/namespaces/{claim}/serviceaccounts", {"metadata": {"name": "agent"}})
    grant(served, claim, {"kind": "ServiceAccount", "name": "agent", "namespace": claim}, STATUS)
    token = token_of(served, claim, "agent", {"kind": "Node", "name": "n1", "apiVersion": "v1"})
    status, body = apply_with_token(served, claim, token, ENTRIES)
    verbs = ("associated-node:patch", "arbitrary-node:patch")
    assert (status, body["message"]) == (422, refusal(claim, f"system:serviceaccount:{claim}:agent", verbs))


def test_an_allocation_for_several_nodes_is_of_none(served: Any, account: str) -> None:
    create_claim(served, account, "wide")
    values = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    selector = {"nodeSelectorTerms": [{"matchFields": [values]}, {"matchFields": [{**values, "values": ["n2"]}]}]}
    allocate(served, account, name="wide", allocation={**ALLOCATION, "nodeSelector": selector})
    token = token_of(served, account, "agent", {"kind": "Node", "name": "n1", "apiVersion": "v1"})
    headers = {"Authorization": f"Bearer {token}", "Content-Type": MERGE}
    context = ssl.create_default_context(cadata=served.ca_pem)
    with urllib3.PoolManager(ssl_context=context, retries=False, timeout=PATIENCE) as pool:
        url = f"{served.url}{claim_path(account, 'wide', status=True)}"
        answer = pool.request("PATCH", url, json={"status": {"devices": ENTRIES}}, headers=headers)
    assert 'verb="[arbitrary-node:patch]"' in answer.json()["message"]


@pytest.mark.parametrize("status", [{"allocation": ALLOCATION}, {"reservedFor": []}])
def test_allocating_and_reserving_is_for_those_who_bind(served: Any, namespace: str, status: JSON) -> None:
    create_claim(served, namespace)
    if "allocation" not in status:
        allocate(served, namespace, reservedFor=[{"resource": "pods", "name": "p", "uid": "u"}])
    binding = {"apiGroups": [GROUP], "resources": ["resourceclaims/binding"], "verbs": ["patch"]}
    grant(served, namespace, user(namespace, "writer"), STATUS, binding)
    answer = patch_status(served, namespace, status, **as_user(namespace, "writer"))
    assert answer.status == 422
    assert answer.body["message"] == (
        'ResourceClaim.resource.k8s.io "claim" is invalid: status.allocation: Forbidden: changing status.allocation or '
        'status.reservedFor requires resource="resourceclaims/binding", verb="patch" permission: '
        f'resourceclaims.resource.k8s.io is forbidden: User "writer-{namespace}" cannot patch resource '
        '"resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope'
    )


def test_a_user_with_the_cluster_wide_permission_binds(served: Any, namespace: str) -> None:
    create_claim(served, namespace)
    name = f"binder-{namespace}"
    rules = [{"apiGroups": [GROUP], "resources": ["resourceclaims/binding"], "verbs": ["patch"]}]
    served.request("POST", f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [user(namespace, "binder")]}
    served.request("POST", f"{RBAC}/clusterrolebindings", binding)
    grant(served, namespace, user(namespace, "binder"), STATUS)
    wait_until(
        lambda: (
            patch_status(served, namespace, {"allocation": ALLOCATION}, **as_user(namespace, "binder")).status == 200
        )
    )


@pytest.mark.parametrize(
    ("reference", "status", "message"),
    [
        ({"kind": "Node", "name": "n1", "uid": "x"}, 409, "the UID in the bound object reference (x) does not match"),
        ({"kind": "Node", "name": "none"}, 404, 'nodes "none" not found'),
        ({"kind": "Pod", "name": "none"}, 404, 'pods "none" not found'),
        ({"kind": "Pod", "name": "other"}, 400, 'cannot bind token for serviceaccount "agent" to pod running with'),
        ({"kind": "ConfigMap", "name": "none"}, 400, "cannot bind token to object of type /v1, Kind=ConfigMap"),
    ],
)
def test_a_token_is_bound_to_what_is_there(
    served: Any, namespace: str, reference: JSON, status: int, message: str
) -> None:
    node(served, "n1")
    for name in ("agent", "other"):
        served.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    pod = {"serviceAccountName": "other", "containers": [{"name": "c", "image": "i"}]}
    served.request("POST", f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": "other"}, "spec": pod})
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/agent/token"
    answer = served.request("POST", path, {"spec": {"boundObjectRef": {"apiVersion": "v1", **reference}}})
    assert answer.status == status
    assert message in answer.body["message"]


def test_a_bound_token_says_its_pod_and_node(served: Any, account: str) -> None:
    token = token_of(served, account, "agent", {"kind": "Pod", "apiVersion": "v1", "name": "agent"})
    answer = served.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})
    extra = answer.body["status"]["user"]["extra"]
    names = {key.rpartition("/")[2]: values for key, values in extra.items()}
    assert names.keys() == {"credential-id", "node-name", "node-uid", "pod-name", "pod-uid"}
    assert (names["node-name"], names["pod-name"]) == (["n1"], ["agent"])


@pytest.mark.parametrize(
    ("role", "verb", "resource", "allowed"),
    [
        ("edit", "create", "resourceclaims", True),
        ("edit", "patch", "resourceclaimtemplates", True),
        ("edit", "patch", "resourceclaims/status", False),
        ("edit", "patch", "endpointslices", False),
        ("admin", "update", "resourceclaims/status", False),
        ("view", "get", "resourceclaims/status", True),
        ("view", "list", "endpointslices", True),
        ("view", "create", "resourceclaims", False),
    ],
)
def test_users_of_a_namespace_ask_for_devices_and_do_not_report_them(
    sandboxed: Any, role: str, verb: str, resource: str, *, allowed: bool
) -> None:
    """The sandbox alone: the roles of a real API server are filled by a controller."""
    namespace = sandboxed.namespace()
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    body = {"metadata": {"name": "user"}, "roleRef": reference, "subjects": [user(namespace, "user")]}
    sandboxed.request("POST", f"{RBAC}/namespaces/{namespace}/rolebindings", body)
    name, _, subresource = resource.partition("/")
    asked = {
        "group": "discovery.k8s.io" if name == "endpointslices" else GROUP,
        "resource": name,
        "subresource": subresource,
        "verb": verb,
        "namespace": namespace,
    }
    question = {"spec": {"user": f"user-{namespace}", "resourceAttributes": asked}}
    answer = sandboxed.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", question)
    assert answer.body["status"]["allowed"] is allowed
