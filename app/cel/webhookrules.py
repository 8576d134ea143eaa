"""Whether a webhook is asked about a request: rules, scope, namespace and object selectors, match conditions.

Pure but for the look-up of the Namespace, which is an argument. The order is the API server's: rules first, for they
are cheap; conditions last, for they may fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.cel.matchconditions import ConditionFailed, holds
from app.errors import BerthError
from app.kube.selectors import label_selector_from_json
from app.wire import JSON

if TYPE_CHECKING:
    from app.cel.matchconditions import Attributes

_EXEMPT = frozenset(
    {
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    }
)


class MatchFailed(BerthError):
    """It cannot be told whether the webhook matches; `ignorable` where failurePolicy has a say in it."""

    def __init__(self, message: str, *, code: int, reason: str, ignorable: bool) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.ignorable = ignorable


@dataclass(frozen=True, slots=True)
class Target:
    """The version in which a webhook sees the object: its rule's, where matchPolicy Equivalent found another one."""

    group: str
    version: str

    def convert(self, obj: JSON | None) -> JSON | None:
        """`obj` in this version: the sandbox converts as CRDs with strategy None do, by name alone."""
        if obj is None or "apiVersion" not in obj:
            return obj
        return {**obj, "apiVersion": f"{self.group}/{self.version}" if self.group else self.version}


def is_exempt(group: str, resource: str) -> bool:
    """Whether webhooks are skipped: for objects that configure admission, so that a broken one can be repaired."""
    return group == "admissionregistration.k8s.io" and resource in _EXEMPT


def match(
    hook: JSON,
    attributes: Attributes,
    obj: JSON | None,
    *,
    namespaces: Callable[[str], JSON | None],
    versions: Sequence[str],
) -> Target | None:
    """Where and how the webhook sees the request, None where it does not; raises `MatchFailed`."""
    target = _match_rules(hook, attributes, versions)
    if target is None or not _match_namespace(hook, attributes, obj, namespaces):
        return None
    if not _match_object(hook, attributes, obj):
        return None
    try:
        return target if holds(hook.get("matchConditions") or [], attributes, obj) else None
    except ConditionFailed as error:
        kind = f"{attributes.resource}.{attributes.group}" if attributes.group else attributes.resource
        text = f'{kind} "{attributes.name}" is forbidden: {error}'
        raise MatchFailed(text, code=403, reason="Forbidden", ignorable=True) from error


def _match_rules(hook: JSON, attributes: Attributes, versions: Sequence[str]) -> Target | None:
    rules = hook.get("rules") or []
    if any(_match_rule(rule, attributes, attributes.version) for rule in rules):
        return Target(attributes.group, attributes.version)
    if hook.get("matchPolicy", "Equivalent") == "Exact":
        return None
    others = [version for version in versions if version != attributes.version]
    found = [version for version in others if any(_match_rule(rule, attributes, version) for rule in rules)]
    return Target(attributes.group, found[0]) if found else None


def _match_rule(rule: JSON, attributes: Attributes, version: str) -> bool:
    def names(field: str, value: str) -> bool:
        listed = rule.get(field) or []
        return "*" in listed or value in listed

    # As in the API server, a Namespace itself is a cluster-scoped object although its requests carry a namespace.
    namespaced = bool(attributes.namespace) and not _is_namespace(attributes)
    scope = {"*": True, "Namespaced": namespaced, "Cluster": not namespaced}.get(rule.get("scope") or "*", False)
    return (
        scope
        and names("operations", attributes.operation)
        and names("apiGroups", attributes.group)
        and names("apiVersions", version)
        and names_resource(rule, attributes.resource, attributes.subresource)
    )


def names_resource(rule: JSON, plural: str, subresource: str = "") -> bool:
    """Whether a rule has a pattern for it: `pods`, `pods/*`, `pods/status`, `*` (no subresources), `*/*`, `*/scale`."""
    return any(
        resource in ("*", plural) and (pattern == subresource or (pattern == "*" and bool(slash)))
        for resource, slash, pattern in (name.partition("/") for name in rule.get("resources") or [])
    )


def _is_namespace(attributes: Attributes) -> bool:
    return attributes.group == "" and attributes.resource == "namespaces"


def _match_namespace(
    hook: JSON, attributes: Attributes, obj: JSON | None, namespaces: Callable[[str], JSON | None]
) -> bool:
    selector = hook.get("namespaceSelector") or {}
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        return True
    if not attributes.namespace and not _is_namespace(attributes):
        return True
    if _is_namespace(attributes) and obj is not None and not attributes.subresource:
        return label_selector_from_json(selector).matches(_labels(obj))
    name = attributes.namespace or attributes.name
    namespace = namespaces(name)
    if namespace is None:
        raise MatchFailed(f'namespaces "{name}" not found', code=404, reason="NotFound", ignorable=False)
    return label_selector_from_json(selector).matches(_labels(namespace))


def _match_object(hook: JSON, attributes: Attributes, obj: JSON | None) -> bool:
    selector = hook.get("objectSelector") or {}
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        return True
    candidates = [state for state in (obj, attributes.old_object) if state is not None]
    return any(label_selector_from_json(selector).matches(_labels(candidate)) for candidate in candidates)


def _labels(obj: JSON) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}
