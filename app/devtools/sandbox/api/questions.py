"""The review resources, which answer a question and store nothing: access reviews, SelfSubjectReview, TokenReview."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.devtools.sandbox.access.auth import API_AUDIENCE, AUTHENTICATED, MASTERS, Access, User, decide
from app.devtools.sandbox.api.failures import bad_request, invalid
from app.kinds.fielderrors import FieldError

if TYPE_CHECKING:
    from app.devtools.sandbox.api.call import Call
    from app.devtools.sandbox.state import ClusterState
    from app.wire import JSON


def answer(state: ClusterState, call: Call, obj: JSON) -> JSON:
    """The posted object with its status filled in."""
    spec = obj.get("spec") or {}
    if not isinstance(spec, dict):
        raise bad_request(f"{call.resource.kind}: spec has to be an object")
    answered: JSON = {"kind": call.resource.kind, "apiVersion": call.resource.api_version, "metadata": {}}
    match call.resource.kind:
        case "SelfSubjectReview":
            return {**answered, "status": {"userInfo": _user_info(call.user)}}
        case "SelfSubjectAccessReview":
            return {**answered, "spec": spec, "status": _review(state, call, call.user, spec)}
        case "SelfSubjectRulesReview":
            return {**answered, "spec": spec, "status": _rules(state, call.user)}
        case "TokenReview":
            return {**answered, "spec": {}, "status": _token(state, spec)}
    user = _subject(call, spec)
    return {**answered, "spec": spec, "status": _review(state, call, user, spec)}


def _subject(call: Call, spec: JSON) -> User:
    name, groups = spec.get("user") or "", spec.get("groups") or []
    if not name and not groups:
        text = "at least one of user or group must be specified"
        raise invalid(call.resource.group, call.resource.kind, "", [FieldError("spec.user", "Invalid", text, "")])
    if not isinstance(name, str) or not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        raise bad_request(f"{call.resource.kind}: spec.user is a string and spec.groups a list of strings")
    return User(name, groups=tuple(groups))


def _review(state: ClusterState, call: Call, user: User, spec: JSON) -> JSON:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (path is None):
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise invalid(
            call.resource.group,
            call.resource.kind,
            "",
            [FieldError("spec.resourceAttributes", "Invalid", text, resource)],
        )
    asked = resource if resource is not None else path
    if not isinstance(asked, dict):
        raise bad_request(f"{call.resource.kind}: attributes have to be an object")
    if path is not None:
        access = Access(_text(asked, "verb"), path=_text(asked, "path") or "/")
    else:
        access = Access(
            _text(asked, "verb"),
            _text(asked, "group"),
            _text(asked, "resource"),
            _text(asked, "subresource"),
            _text(asked, "namespace"),
            _text(asked, "name"),
        )
    allowed, reason = decide(state.authorizer, user, access)
    return {"allowed": allowed, **({"reason": reason} if reason else {})}


def _rules(state: ClusterState, user: User) -> JSON:
    """The rules of the cluster roles that are bound to the user; namespaced roles are left to real reviews."""
    if MASTERS in user.groups:
        everything: list[JSON] = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
        return {
            "resourceRules": everything,
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": False,
        }
    group = "rbac.authorization.k8s.io"
    roles = {role["metadata"]["name"]: role for role in state.storage.list((group, "clusterroles"))}
    rules: list[JSON] = []
    for binding in state.storage.list((group, "clusterrolebindings")):
        for subject in binding.get("subjects") or []:
            bound = subject.get("name") == user.username or subject.get("name") in user.groups
            if bound and subject.get("kind") in ("User", "Group"):
                rules += (roles.get(binding["roleRef"].get("name")) or {}).get("rules") or []
    return {
        "resourceRules": [rule for rule in rules if rule.get("resources")],
        "nonResourceRules": [rule for rule in rules if rule.get("nonResourceURLs")],
        "incomplete": True,
    }


def _token(state: ClusterState, spec: JSON) -> JSON:
    asked = spec.get("audiences") or [API_AUDIENCE]
    user = state.authenticator.of_token(_text(spec, "token"), asked)
    if user is None:
        return {"authenticated": False, "user": {}, "error": "the token is not known"}
    known = User(user.username, user.uid, (*user.groups, AUTHENTICATED)) if AUTHENTICATED not in user.groups else user
    audiences = [one for one in asked if one in user.audiences]
    return {"authenticated": True, "user": _user_info(known), "audiences": audiences}


def _user_info(user: User) -> JSON:
    info: JSON = {"username": user.username, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info


def _text(asked: JSON, field: str) -> str:
    value: Any = asked.get(field)
    return value if isinstance(value, str) else ""
