from __future__ import annotations

from typing import Any

import pytest

from app.cel.matchconditions import UserInfo
from app.devtools.sandbox.access.rbac import Authorizer

ROLE = {
    "metadata": {"name": "r", "namespace": "ns"},
    "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "*/scale"]}],
}
CLUSTER = {
    "metadata": {"name": "c"},
    "rules": [
        {"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"]},
        {"verbs": ["update"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"]},
        {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/metrics/*"]},
        {"verbs": ["patch"], "apiGroups": [""], "resources": ["pods/status"]},
    ],
}


def binding(kind: str, role: str, subject: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    return {
        "metadata": {"name": "b", "namespace": namespace},
        "roleRef": {"kind": kind, "name": role},
        "subjects": [subject],
    }


OBJECTS = {
    "Role": [ROLE],
    "ClusterRole": [CLUSTER],
    "RoleBinding": [
        binding("Role", "r", {"kind": "User", "name": "ann"}, "ns"),
        binding("ClusterRole", "c", {"kind": "ServiceAccount", "name": "sa"}, "ns"),
    ],
    "ClusterRoleBinding": [
        binding("ClusterRole", "c", {"kind": "Group", "name": "admins"}),
        binding("Role", "r", {"kind": "User", "name": "eve"}),
    ],
}
ANN = UserInfo("ann")
ADMIN = UserInfo("bob", groups=["admins"])
ROBOT = UserInfo("system:serviceaccount:ns:sa")
authorizer = Authorizer(lambda kind: OBJECTS[kind])


@pytest.mark.parametrize(
    ("user", "question", "expected"),
    [
        (ANN, {"verb": "get", "group": "", "resource": "pods", "namespace": "ns"}, True),
        (ANN, {"verb": "get", "group": "", "resource": "pods", "namespace": "other"}, False),
        (ANN, {"verb": "list", "group": "", "resource": "pods", "namespace": "ns"}, False),
        (ANN, {"verb": "get", "group": "", "resource": "pods", "subresource": "log", "namespace": "ns"}, False),
        (ANN, {"verb": "get", "group": "", "resource": "things", "subresource": "scale", "namespace": "ns"}, True),
        (ADMIN, {"verb": "delete", "group": "apps", "resource": "deployments", "namespace": "any"}, True),
        (ADMIN, {"verb": "delete", "group": "apps", "resource": "deployments", "subresource": "status"}, True),
        (ADMIN, {"verb": "delete", "group": "batch", "resource": "jobs"}, False),
        (ADMIN, {"verb": "update", "group": "", "resource": "configmaps", "name": "mine"}, True),
        (ADMIN, {"verb": "update", "group": "", "resource": "configmaps", "name": "yours"}, False),
        (ADMIN, {"verb": "patch", "group": "", "resource": "pods", "subresource": "status"}, True),
        (ADMIN, {"verb": "patch", "group": "", "resource": "pods"}, False),
        (ADMIN, {"verb": "get", "group": "", "resource": "", "path": "/metrics/x"}, True),
        (ADMIN, {"verb": "get", "group": "", "resource": "", "path": "/version"}, False),
        (ROBOT, {"verb": "get", "group": "apps", "resource": "deployments", "namespace": "ns"}, True),
        (ROBOT, {"verb": "get", "group": "apps", "resource": "deployments"}, False),
        (ROBOT, {"verb": "get", "group": "", "resource": "", "path": "/healthz"}, False),
        (UserInfo("eve"), {"verb": "get", "group": "", "resource": "pods", "namespace": "ns"}, False),
        (UserInfo("root", groups=["system:masters"]), {"verb": "any", "group": "any", "resource": "any"}, True),
    ],
)
def test_rules_bindings_and_scopes(user: UserInfo, question: dict[str, str], *, expected: bool) -> None:
    assert authorizer.allowed(user, **question)[0] is expected


def test_the_reason_names_the_binding() -> None:
    reason = authorizer.allowed(ANN, verb="get", group="", resource="pods", namespace="ns")[1]
    assert reason == 'RBAC: allowed by RoleBinding "b/ns" of Role "r" to User "ann"'
