"""Permissions that a role has and does not need: which binding gives them, and how it is taken back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from app.doctor import commands, objects
from app.doctor.access import EVERYTHING, Account, Question
from app.doctor.catalog import listed
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, or_default, warning
from app.kube.resources import ROLE_BINDINGS, Resource

CLUSTER_ROLE_BINDINGS, ROLES, CLUSTER_ROLES = (
    Resource(ROLE_BINDINGS.group, ROLE_BINDINGS.version, kind.lower() + "s", kind, namespaced=kind == "Role")
    for kind in ("ClusterRoleBinding", "Role", "ClusterRole")
)
_REASON = re.compile(r'(ClusterRoleBinding|RoleBinding) "([^"]+)" of (ClusterRole|Role) "([^"]+)"')


def where(namespace: str) -> str:
    return f"in namespace {namespace}" if namespace else "in the whole cluster"


@dataclass(frozen=True, slots=True)
class Grant:
    """The binding that gives a right, as RBAC says it in its reason; all "" where something else authorizes."""

    kind: str = ""
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def grant_of(reason: str) -> Grant:
    """Reads `RBAC: allowed by RoleBinding "name/namespace" of Role "role" to …`."""
    found = _REASON.search(reason)
    if found is None:
        return Grant()
    kind, place = found[1], found[2]
    name, _, namespace = place.rpartition("/") if kind == "RoleBinding" else (place, "", "")
    return Grant(kind, name, namespace)


async def too_much(cluster: Cluster, account: Account, given: Grant, questions: Sequence[Question]) -> Finding:
    parts: dict[tuple[str, str], list[str]] = {}
    for one in questions:
        verb = "do anything (`*`) with" if one.verb == "*" else one.verb
        parts.setdefault((one.what, one.namespace), []).append(verb)
    what = listed([f"{', '.join(verbs)} {kind} {where(place)}" for (kind, place), verbs in parts.items()], 6)
    case, what = ("everything", "everything") if questions[0] == EVERYTHING else ("", what)
    fix, by = await _revoke(cluster, given, account), f" by {given}" if given.kind else ""
    return warning("BERTH0804", account, case=case, by=by, what=what, command=fix)


async def _revoke(cluster: Cluster, given: Grant, account: Account) -> str:
    """The command that removes the account from the binding, or deletes a binding without other subjects."""
    resource, place = ROLE_BINDINGS if given.namespace else CLUSTER_ROLE_BINDINGS, given.namespace
    found = None
    if given.kind:
        found = await or_default(cluster.get(resource, given.name, namespace=place or None), None)
    if found is None:
        return commands.kubectl("auth", "can-i", "--list", f"--as={account.user}", namespace=account.namespace)
    if objects.labels(found).get(objects.PART_OF) == "berth":
        return commands.helm_upgrade(cluster)
    kind, subjects = objects.plural(resource), found.get("subjects") or []
    own = [index for index, one in enumerate(subjects) if account.is_among([one])]
    if not own:  # it is bound as a member of a group, with others
        return commands.kubectl("describe", kind, given.name, namespace=place)
    if len(subjects) == 1:
        return commands.kubectl("delete", kind, given.name, namespace=place)
    path = f"/subjects/{own[0]}"
    test = {"op": "test", "path": f"{path}/name", "value": account.name}
    return commands.json_patch(kind, given.name, [test, {"op": "remove", "path": path}], namespace=place)
