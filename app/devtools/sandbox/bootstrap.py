"""A fresh cluster: how its parts know each other, and the namespaces and roles that every API server brings along."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING

from app.devtools.sandbox.access.aggregation import aggregated_rules, is_aggregated
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
    for role in default_roles():
        _create(storage, "ClusterRole", role)
    for name, groups in _BINDINGS.items():
        subjects = [{"kind": "Group", "apiGroup": _RBAC, "name": group} for group in groups]
        reference = {"kind": "ClusterRole", "apiGroup": _RBAC, "name": name}
        metadata = {"name": name, "labels": dict(_LABELS)}
        _create(storage, "ClusterRoleBinding", {"metadata": metadata, "roleRef": reference, "subjects": subjects})


def default_roles() -> list[JSON]:
    """ClusterRoles of an API server, as it has them when the controller of aggregation has run."""
    roles: list[JSON] = json.loads(files("app.devtools.sandbox.access").joinpath("roles.json").read_bytes())
    # What `admin` selects is aggregated itself: each round brings the rules of one role further.
    for _ in filter(is_aggregated, list(roles)):
        roles = [{**role, "rules": aggregated_rules(role, roles)} if is_aggregated(role) else role for role in roles]
    return roles


def _create(storage: Storage, kind: str, obj: JSON) -> None:
    resource = next(row for row in BUILTIN if row.kind == kind)
    decoded, _ = strategy.decode(resource, obj)
    decoded = strategy.default(resource, decoded)
    strategy.begin_create(resource, decoded)
    storage.create(resource.key, decoded)
