"""Role-based access control over the stored Roles, ClusterRoles and their bindings.

Reads the objects again for every question, so that a written rule holds at once. Grants alone exist: what no rule
allows is not allowed. The check against privilege escalation is not here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.wire import JSON

MASTERS = "system:masters"
_SERVICE_ACCOUNT = "system:serviceaccount:"


class Identity(Protocol):
    """What RBAC looks at in a user."""

    @property
    def username(self) -> str: ...

    @property
    def groups(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class _Question:
    verb: str
    group: str
    resource: str
    subresource: str
    name: str
    path: str

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Authorizer:
    """Answers "may this user do that"; `objects(kind)` lists the stored objects of a kind of RBAC's."""

    def __init__(self, objects: Callable[[str], list[JSON]]) -> None:
        self._objects = objects

    def allowed(  # the order is the one in which authorization is asked everywhere
        self,
        user: Identity,
        verb: str,
        group: str,
        resource: str,
        subresource: str = "",
        namespace: str = "",
        name: str = "",
        path: str = "",
    ) -> tuple[bool, str]:
        """Whether a rule grants it, and which binding did; `path` asks for a non-resource URL instead of a resource."""
        if MASTERS in user.groups:
            return True, ""
        question = _Question(verb, group, resource, subresource, name, path)
        for binding in self._objects("ClusterRoleBinding"):
            if _binds(binding, user, "") and self._grants(binding, "", question):
                return (
                    True,
                    f'RBAC: allowed by ClusterRoleBinding "{_name(binding)}" of {_role(binding)} to {_who(user)}',
                )
        if namespace and not path:
            for binding in self._objects("RoleBinding"):
                if _namespace(binding) != namespace or not _binds(binding, user, namespace):
                    continue
                if self._grants(binding, namespace, question):
                    where = f"{_name(binding)}/{namespace}"
                    return True, f'RBAC: allowed by RoleBinding "{where}" of {_role(binding)} to {_who(user)}'
        return False, ""

    def _grants(self, binding: JSON, namespace: str, question: _Question) -> bool:
        return any(_rule_grants(rule, question) for rule in self._rules(binding.get("roleRef") or {}, namespace))

    def _rules(self, reference: JSON, namespace: str) -> Iterator[JSON]:
        kind = reference.get("kind")
        if kind not in ("Role", "ClusterRole") or (kind == "Role" and not namespace):
            return
        for role in self._objects(kind):
            if _name(role) == reference.get("name") and (kind == "ClusterRole" or _namespace(role) == namespace):
                yield from role.get("rules") or []


def _name(obj: JSON) -> str:
    return str(obj.get("metadata", {}).get("name", ""))


def _namespace(obj: JSON) -> str:
    return str(obj.get("metadata", {}).get("namespace", ""))


def _role(binding: JSON) -> str:
    reference = binding.get("roleRef") or {}
    return f'{reference.get("kind")} "{reference.get("name")}"'


def _who(user: Identity) -> str:
    return f'User "{user.username}"'


def _binds(binding: JSON, user: Identity, namespace: str) -> bool:
    return any(_is_subject(subject, user, namespace) for subject in binding.get("subjects") or [])


def _is_subject(subject: JSON, user: Identity, namespace: str) -> bool:
    kind, name = subject.get("kind"), subject.get("name")
    if kind == "User":
        return name == user.username
    if kind == "Group":
        return name in user.groups
    if kind == "ServiceAccount":
        return user.username == f"{_SERVICE_ACCOUNT}{subject.get('namespace') or namespace}:{name}"
    return False


def _rule_grants(rule: JSON, question: _Question) -> bool:
    if not _listed(rule.get("verbs"), question.verb):
        return False
    if question.path:
        return any(_path_matches(pattern, question.path) for pattern in rule.get("nonResourceURLs") or [])
    names = rule.get("resourceNames") or []
    return (
        _listed(rule.get("apiGroups"), question.group)
        and _resource_listed(rule.get("resources") or [], question)
        and (not names or question.name in names)
    )


def _listed(values: list[str] | None, wanted: str) -> bool:
    return bool(values) and ("*" in (values or ()) or wanted in (values or ()))


def _resource_listed(resources: list[str], question: _Question) -> bool:
    """`*` stands for every resource and subresource, `*/scale` for one subresource of any; `pods/*` means nothing."""
    wanted = {"*", question.full_resource}
    if question.subresource:
        wanted.add(f"*/{question.subresource}")
    return any(resource in wanted for resource in resources)


def _path_matches(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))
