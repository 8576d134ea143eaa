"""Who may what: certificates, tokens, impersonation, access reviews."""

from __future__ import annotations

import ssl
from typing import Any

import urllib3

from app.devtools.sandbox.pki import Authority

ACCESS = "/apis/authorization.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def bare(served: Any, path: str, **headers: str) -> Any:
    """A request without a client certificate."""
    context = ssl.create_default_context(cadata=served.ca_pem)
    with urllib3.PoolManager(ssl_context=context, retries=False) as pool:
        return pool.request("GET", served.url + path, headers=headers)


def test_certificate_names_the_user_and_its_groups(served: Any) -> None:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer = served.request("POST", path, {}, user="carol", groups=("dev", "ops"))
    info = answer.body["status"]["userInfo"]
    assert (info["username"], info["groups"]) == ("carol", ["dev", "ops", "system:authenticated"])
    assert info["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")


def test_stranger_is_refused_in_the_real_words(served: Any, namespace: str) -> None:
    answer = served.request("GET", f"/api/v1/namespaces/{namespace}/pods", user="bob", groups=())
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    assert answer.body["message"] == (
        f'pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "{namespace}"'
    )
    nodes = served.request("GET", "/api/v1/nodes/n", user="bob", groups=())
    assert nodes.body["message"] == (
        'nodes "n" is forbidden: User "bob" cannot get resource "nodes" in API group "" at the cluster scope'
    )


def test_role_binding_grants(served: Any, namespace: str) -> None:
    rules = [{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]
    served.request("POST", f"{RBAC}/namespaces/{namespace}/roles", {"metadata": {"name": "r"}, "rules": rules})
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "dave"}],
    }
    served.request("POST", f"{RBAC}/namespaces/{namespace}/rolebindings", binding)
    path = f"/api/v1/namespaces/{namespace}/pods"
    assert served.request("GET", path, user="dave", groups=()).status == 200
    assert served.request("POST", path, {}, user="dave", groups=()).status == 403
    attributes = {"namespace": namespace, "verb": "list", "resource": "pods"}
    review = {"spec": {"user": "dave", "resourceAttributes": attributes}}
    status = served.request("POST", f"{ACCESS}/subjectaccessreviews", review).body["status"]
    assert status["allowed"] is True
    assert 'RBAC: allowed by RoleBinding "b/' in status["reason"]
    review["spec"]["resourceAttributes"] = {**attributes, "verb": "create"}
    assert served.request("POST", f"{ACCESS}/subjectaccessreviews", review).body["status"]["allowed"] is False


def test_self_review_is_open_to_everybody(served: Any) -> None:
    review = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}
    answer = served.request("POST", f"{ACCESS}/selfsubjectaccessreviews", review, user="bob", groups=())
    assert (answer.status, answer.body["status"]) == (201, {"allowed": False})
    mine = served.request("POST", f"{ACCESS}/selfsubjectaccessreviews", review)
    assert mine.body["status"]["allowed"] is True


def test_impersonation_acts_as_the_other(served: Any) -> None:
    headers = {"Impersonate-User": "bob", "Impersonate-Group": "dev", "Impersonate-Extra-Team": "x"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    info = served.request("POST", path, {}, headers=headers).body["status"]["userInfo"]
    assert info == {"username": "bob", "groups": ["dev", "system:authenticated"], "extra": {"team": ["x"]}}
    assert served.request("GET", "/api/v1/nodes", headers=headers).status == 403


def test_impersonation_reads_the_bytes_of_a_name_as_utf_8(served: Any) -> None:
    headers = {"Impersonate-User": "älice".encode().decode("latin-1")}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    assert served.request("POST", path, {}, headers=headers).body["status"]["userInfo"]["username"] == "älice"


def test_impersonation_has_to_be_granted(served: Any) -> None:
    answer = served.request("GET", "/api/v1/nodes", user="bob", groups=(), headers={"Impersonate-User": "admin"})
    assert answer.status == 403
    assert 'User "bob" cannot impersonate' in answer.body["message"]


def test_token_is_a_user(sandboxed: Any) -> None:
    sandboxed.inside(lambda: sandboxed.cluster.add_token("secret-token", "robot", ("system:masters",)))
    assert bare(sandboxed, "/api/v1/nodes", Authorization="Bearer secret-token").status == 200
    wrong = bare(sandboxed, "/api/v1/nodes", Authorization="Bearer other")
    assert (wrong.status, wrong.json()["reason"]) == (401, "Unauthorized")


def test_nobody_sees_health_and_version_only(served: Any) -> None:
    assert bare(served, "/healthz").data == b"ok"
    assert bare(served, "/version").json()["major"] == "1"
    refused = bare(served, "/api/v1/nodes")
    assert refused.status == 403
    assert 'User "system:anonymous" cannot list' in refused.json()["message"]


def test_certificate_of_another_authority_is_not_believed(served: Any, tmp_path: Any) -> None:
    pair = Authority("stranger").client("admin", ("system:masters",))
    (tmp_path / "c").write_bytes(pair.certificate)
    (tmp_path / "k").write_bytes(pair.key)
    context = ssl.create_default_context(cadata=served.ca_pem)
    context.load_cert_chain(tmp_path / "c", tmp_path / "k")
    with urllib3.PoolManager(ssl_context=context, retries=False) as pool:
        try:
            status = pool.request("GET", served.url + "/api/v1/nodes").status
        except urllib3.exceptions.HTTPError:
            status = 0
    assert status in (0, 401)  # the sandbox ends the connection


def test_a_rule_for_one_name_grants_its_list_and_its_watch(served: Any, namespace: str) -> None:
    """With a field selector that leaves that name alone: as the real API server reads it."""
    rules = [{"verbs": ["list", "watch"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"]}]
    served.request("POST", f"{RBAC}/namespaces/{namespace}/roles", {"metadata": {"name": "named"}, "rules": rules})
    binding = {
        "metadata": {"name": "named"},
        "roleRef": {"kind": "Role", "name": "named"},
        "subjects": [{"kind": "User", "name": "erin"}],
    }
    served.request("POST", f"{RBAC}/namespaces/{namespace}/rolebindings", binding)
    path = f"/api/v1/namespaces/{namespace}/configmaps"

    def status(query: str) -> int:
        return served.request("GET", path + query, user="erin", groups=()).status

    assert status("?fieldSelector=metadata.name%3Dmine") == 200
    assert status("?fieldSelector=metadata.name%3D%3Dmine&watch=true&timeoutSeconds=1") == 200
    assert status("?fieldSelector=metadata.name%3Dother") == 403
    assert status("?fieldSelector=metadata.name%21%3Dmine") == 403
    assert status("") == 403
