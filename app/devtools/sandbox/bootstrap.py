"""A fresh cluster: how its parts know each other, and the namespaces and roles that every API server brings along."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from app.devtools.sandbox.access.rbac import Authorizer
from app.devtools.sandbox.api.rest import complete
from app.devtools.sandbox.kinds import strategy
from app.devtools.sandbox.kinds.builtin import BUILTIN
from app.devtools.sandbox.state import ClusterState
from app.devtools.sandbox.storage import Storage
from app.devtools.sandbox.webhooks.admission import WebhookDispatcher

if TYPE_CHECKING:
    from app.wire import JSON

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_RBAC = "rbac.authorization.k8s.io"
_RBAC_PLURALS = {
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
}
_WEBHOOKS = "admissionregistration.k8s.io"
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_WORKLOADS: list[JSON] = [
    {
        "apiGroups": [""],
        "resources": [
            "pods",
            "configmaps",
            "services",
            "endpoints",
            "events",
            "serviceaccounts",
            "persistentvolumeclaims",
        ],
    },
    {"apiGroups": ["apps"], "resources": ["daemonsets", "deployments", "replicasets", "statefulsets"]},
    {"apiGroups": ["batch"], "resources": ["cronjobs", "jobs"]},
    {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"]},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"]},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims", "resourceclaimtemplates"]},
]
_SEEN: list[JSON] = [
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/status"], "verbs": _READ},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": _READ},
]
"""What users of a namespace may read alone."""
_SECRETS: JSON = {"apiGroups": [""], "resources": ["secrets", "pods/proxy"]}
"""What users who may only read do not see."""
_DISCOVERY = [
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
]
_ROLES: dict[str, list[JSON]] = {
    "cluster-admin": [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
        {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ],
    "admin": [
        *({**rule, "verbs": _READ + _WRITE} for rule in (*_WORKLOADS, _SECRETS)),
        *_SEEN,
        {"verbs": ["*"], "apiGroups": [_RBAC], "resources": ["roles", "rolebindings"]},
    ],
    "edit": [*({**rule, "verbs": _READ + _WRITE} for rule in (*_WORKLOADS, _SECRETS)), *_SEEN],
    "view": [*({**rule, "verbs": _READ} for rule in _WORKLOADS), *_SEEN],
    "system:basic-user": [
        {
            "verbs": ["create"],
            "apiGroups": ["authorization.k8s.io"],
            "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        },
        {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
    ],
    "system:discovery": [{"verbs": ["get"], "nonResourceURLs": _DISCOVERY}],
    "system:public-info-viewer": [
        {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]}
    ],
}
_BINDINGS = {
    "cluster-admin": ["system:masters"],
    "system:basic-user": ["system:authenticated"],
    "system:discovery": ["system:authenticated"],
    "system:public-info-viewer": ["system:authenticated", "system:unauthenticated"],
}


def new_state(
    name: str, services: Mapping[tuple[str, str, int], tuple[str, int]], *, window: int, bookmark_interval: float
) -> ClusterState:
    """The state of a cluster that nothing has been written to; webhooks behind Services are called where these are."""
    storage = Storage(window=window)
    webhooks = WebhookDispatcher(
        lambda phase: storage.list((_WEBHOOKS, f"{phase}webhookconfigurations")),
        lambda namespace: storage.get(("", "namespaces"), "", namespace),
        lambda namespace, service, number: services.get((namespace, service, number)),
        defaults=lambda obj: complete(state, obj),
        versions=lambda group, plural: [
            row.version for row in state.registry if (row.group, row.plural) == (group, plural)
        ],
    )
    authorizer = Authorizer(lambda kind: storage.list((_RBAC, _RBAC_PLURALS[kind])))
    state = ClusterState(name, webhooks, authorizer, storage=storage, bookmark_interval=bookmark_interval)
    _fill(storage)
    return state


def _fill(storage: Storage) -> None:
    for name in _NAMESPACES:
        _create(storage, "Namespace", {"metadata": {"name": name}})
    for name, rules in _ROLES.items():
        _create(storage, "ClusterRole", {"metadata": {"name": name, "labels": dict(_LABELS)}, "rules": rules})
    for name, groups in _BINDINGS.items():
        subjects = [{"kind": "Group", "apiGroup": _RBAC, "name": group} for group in groups]
        reference = {"kind": "ClusterRole", "apiGroup": _RBAC, "name": name}
        metadata = {"name": name, "labels": dict(_LABELS)}
        _create(storage, "ClusterRoleBinding", {"metadata": metadata, "roleRef": reference, "subjects": subjects})


def _create(storage: Storage, kind: str, obj: JSON) -> None:
    resource = next(row for row in BUILTIN if row.kind == kind)
    decoded, _ = strategy.decode(resource, obj)
    decoded = strategy.default(resource, decoded)
    strategy.begin_create(resource, decoded)
    storage.create(resource.key, decoded)
