"""Match conditions of webhooks: what they see of a write, how one is compiled, and which hold.

A real API server evaluates all of CEL. What lies outside of our subset is refused when it is compiled, with the place,
and never ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from msgspec import to_builtins

from app.cel.calls import NoValue
from app.cel.checking import check_parts
from app.cel.syntax import BadExpression, Node, parse
from app.cel.types import BOOL, DYN, STRING, Type, list_of, map_of
from app.cel.values import evaluate
from app.wire import JSON

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Who makes the request, as `request.userInfo` says it."""

    username: str
    uid: str = ""
    groups: list[str] = field(default_factory=list)
    extra: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attributes:
    """One write as admission sees it. `group` and `version` are the resource's; `name` is "" while a name is generated.

    `old_object` is None on create; `options` are the CreateOptions, UpdateOptions … of the request with apiVersion
    and kind.
    """

    operation: Operation
    group: str
    version: str
    kind: str
    resource: str
    subresource: str
    namespace: str
    name: str
    dry_run: bool
    user: UserInfo
    old_object: JSON | None
    options: JSON | None


def _message(name: str, /, **fields: Type) -> Type:
    return Type(f"kubernetes.{name}", (), fields)


_KIND = _message("GroupVersionKind", group=STRING, version=STRING, kind=STRING)
_RESOURCE = _message("GroupVersionResource", group=STRING, version=STRING, resource=STRING)
_WORDS = list_of(STRING)
_USER = _message("UserInfo", username=STRING, uid=STRING, groups=_WORDS, extra=map_of(STRING, _WORDS))
_REQUEST = _message(
    "AdmissionRequest",
    **dict.fromkeys(("kind", "requestKind"), _KIND),
    **dict.fromkeys(("resource", "requestResource"), _RESOURCE),
    **dict.fromkeys(("subResource", "requestSubResource", "name", "namespace", "operation"), STRING),
    userInfo=_USER,
    dryRun=BOOL,
    options=DYN,
)
"""As the API server declares it (`BuildRequestType` of k8s.io/apiserver): the review without uid and objects."""
_VARIABLES = {"object": DYN, "oldObject": DYN, "request": _REQUEST}


class ConditionFailed(NoValue):
    """A condition has no value for this request (`no such key: labels`)."""


@lru_cache(maxsize=512)
def compile_condition(expression: str) -> tuple[Node, Type]:
    """The parsed expression and its type; raises `BadExpression` for what is not CEL, or CEL beyond the subset."""
    node = parse(expression)
    return node, check_parts(expression, node, _VARIABLES)[id(node)]


def holds(conditions: list[JSON], attributes: Attributes, obj: JSON | None) -> bool:
    """Whether all conditions are true; one that is false decides, else one that fails raises `ConditionFailed`."""
    if not conditions:
        return True
    variables = _variables(attributes, obj)
    failures: list[str] = []
    for condition in conditions:
        try:
            node, _ = compile_condition(condition.get("expression", ""))
            value = evaluate(node, variables)
        except (NoValue, BadExpression) as error:
            failures.append(f"expression '{condition.get('expression')}' resulted in error: {error}")
            continue
        if value is not True:
            if value is False:
                return False
            failures.append(f"cel expression '{condition.get('expression')}' does not evaluate to bool")
    if failures:
        raise ConditionFailed("[" + ", ".join(failures) + "]" if len(failures) > 1 else failures[0])
    return True


def _variables(attributes: Attributes, obj: JSON | None) -> dict[str, Any]:
    group, version = attributes.group, attributes.version
    kind = {"group": group, "version": version, "kind": attributes.kind}
    resource = {"group": group, "version": version, "resource": attributes.resource}
    return {
        "object": None if attributes.operation == "DELETE" else obj,
        "oldObject": attributes.old_object,
        "request": {
            "kind": kind,
            "resource": resource,
            "subResource": attributes.subresource,
            "requestKind": kind,
            "requestResource": resource,
            "requestSubResource": attributes.subresource,
            "name": attributes.name,
            "namespace": attributes.namespace,
            "operation": attributes.operation,
            "userInfo": to_builtins(attributes.user),
            "dryRun": attributes.dry_run,
            "options": attributes.options,
        },
    }
