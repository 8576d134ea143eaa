"""Builds commands that grant a missing right to a role or revoke an excessive one; finds the binding that grants it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.certs.secrets import MANAGED_BY, MANAGER
from app.doctor.cluster import Cluster
from app.doctor.commands import helm_upgrade
from app.doctor.installed import PART_OF, Installed
from app.doctor.objects import kubectl, labels, plural
from app.doctor.required_access import Question
from app.errors import ApiError
from app.kube.resources import ROLE_BINDINGS, Resource
from app.tenancy.permissions import tenants_role
from app.wire import encode_json

CLUSTER_ROLE_BINDINGS = Resource(
    ROLE_BINDINGS.group, ROLE_BINDINGS.version, "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
_REASON = re.compile(r'(ClusterRoleBinding|RoleBinding) "([^"]+)" of (ClusterRole|Role) "([^"]+)"')
_UNNAMED = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Grant:
    """The binding that gives a right, as RBAC says it in its reason; all "" where something else authorizes."""

    kind: str = ""
    name: str = ""
    namespace: str = ""

    @property
    def place(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def grant_of(reason: str) -> Grant:
    """Reads `RBAC: allowed by RoleBinding "name/namespace" of Role "role" to …`."""
    found = _REASON.search(reason)
    if found is None:
        return Grant()
    kind, place = found[1], found[2]
    name, _, namespace = place.rpartition("/") if kind == "RoleBinding" else (place, "", "")
    return Grant(kind, name, namespace)


def grant(cluster: Cluster, running: Installed | None, namespace: str, account: str, lacking: Question) -> str:
    """Gives the verbs of `lacking` (a comma list); by the chart, where that keeps the roles."""
    if running is not None and running.by_chart:
        return helm_upgrade(cluster)
    kind = "role" if lacking.namespace else "clusterrole"
    verbs = lacking.verb.split(",")
    words = _UNNAMED.sub("-", "-".join([account, *verbs, lacking.resource, lacking.name]).lower()).strip("-")
    named = [f"--resource-name={lacking.name}"] if lacking.name else []
    first = kubectl(
        "create",
        kind,
        words,
        f"--verb={lacking.verb}",
        f"--resource={lacking.what}",
        *named,
        namespace=lacking.namespace,
    )
    second = kubectl(
        "create",
        f"{kind}binding",
        words,
        f"--{kind}={words}",
        f"--serviceaccount={namespace}:{account}",
        namespace=lacking.namespace,
    )
    return f"{first} &&\n{second}"


def in_tenants_namespace(role: str, namespace: str, account: str, tenants: str) -> str:
    """Writes the binding that the controller keeps there, with its mark, in place of whatever has its name."""
    name, kind = tenants_role(role), "rolebinding"
    return " &&\n".join(
        [
            kubectl("delete", kind, name, "--ignore-not-found", namespace=tenants),
            kubectl(
                "create",
                kind,
                name,
                f"--clusterrole={name}",
                f"--serviceaccount={namespace}:{account}",
                namespace=tenants,
            ),
            kubectl("label", kind, name, f"{MANAGED_BY}={MANAGER}", namespace=tenants),
        ]
    )


async def revoke(cluster: Cluster, given: Grant, namespace: str, account: str) -> str:
    """The command that removes the account from the binding, or deletes a binding without other subjects."""
    user = f"system:serviceaccount:{namespace}:{account}"
    resource = ROLE_BINDINGS if given.namespace else CLUSTER_ROLE_BINDINGS
    try:
        found = await cluster.get(resource, given.name, namespace=given.namespace or None) if given.kind else None
    except ApiError:
        found = None
    if found is None:
        return kubectl("auth", "can-i", "--list", f"--as={user}", namespace=namespace)
    if labels(found).get(PART_OF) == "berth":
        return helm_upgrade(cluster)
    kind = plural(resource)
    subjects = found.get("subjects") or []
    own = [
        index
        for index, one in enumerate(subjects)
        if (one.get("kind"), one.get("name"), one.get("namespace") or given.namespace)
        == ("ServiceAccount", account, namespace)
    ]
    if not own:  # it is bound as a member of a group, with others
        return kubectl("describe", kind, given.name, namespace=given.namespace)
    if len(subjects) == 1:
        return kubectl("delete", kind, given.name, namespace=given.namespace)
    patch = [
        {"op": "test", "path": f"/subjects/{own[0]}/name", "value": account},
        {"op": "remove", "path": f"/subjects/{own[0]}"},
    ]
    return kubectl(
        "patch", kind, given.name, "--type=json", "--patch", encode_json(patch).decode(), namespace=given.namespace
    )
