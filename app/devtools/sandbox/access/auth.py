"""Authenticates and authorizes requests: client certificates, bearer tokens, impersonation, messages of refusals.

RBAC has the rules themselves (`app.devtools.sandbox.access.rbac`); this module has the order of the checks.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import unquote

from cryptography import x509
from cryptography.x509.oid import NameOID

from app.devtools.sandbox.api.failures import bad_request, failure, forbidden, unauthorized
from app.kube.names import service_account_groups

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.devtools.sandbox.access.rbac import Authorizer

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
_EXTRA_HEADER = "impersonate-extra-"


API_AUDIENCE = "https://kubernetes.default.svc"
"""The audience of tokens for the API server."""


@dataclass(frozen=True, slots=True)
class User:
    """An identity as RBAC, webhooks and SelfSubjectReview see it."""

    username: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    expires: datetime | None = None
    """When the token of the user ends."""
    audiences: tuple[str, ...] = (API_AUDIENCE,)
    """The recipients of the token; others refuse it."""


NODE_NAME = "authentication.kubernetes.io/node-name"
"""The node to which the token of a service account is bound, among a user's extra values."""
ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))


@dataclass(frozen=True, slots=True)
class Access:
    """What a request does, in the terms that authorization is asked in; `path` is set for non-resource requests."""

    verb: str
    group: str = ""
    plural: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


class Authenticator:
    """Turns a connection's certificate or a request's token into a user; knows the tokens of its cluster."""

    def __init__(self) -> None:
        self.tokens: dict[str, User] = {}
        self._certificates: dict[bytes, User] = {}

    def user(self, *, certificate: bytes | None, authorization: str) -> User:
        """Raises StatusError 401 for an unknown token; without credentials the user is anonymous."""
        if certificate is not None:
            return self._of_certificate(certificate)
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            known = self.of_token(token.strip())
            if known is None:
                raise unauthorized()
            return known
        return ANONYMOUS

    def of_token(self, token: str, audiences: Sequence[str] = (API_AUDIENCE,)) -> User | None:
        """The user of a token that is known, is for one of these audiences and has not expired."""
        known = self.tokens.get(token)
        if known is None or not set(known.audiences) & set(audiences):
            return None
        return known if known.expires is None or datetime.now(UTC) < known.expires else None

    def _of_certificate(self, der: bytes) -> User:
        known = self._certificates.get(der)
        if known is None:
            subject = x509.load_der_x509_certificate(der).subject
            names = [str(entry.value) for entry in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
            groups = [str(entry.value) for entry in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
            credential = f"X509SHA256={hashlib.sha256(der).hexdigest()}"
            known = User(
                names[0] if names else "",
                groups=(*groups, AUTHENTICATED),
                extra={"authentication.kubernetes.io/credential-id": (credential,)},
            )
            self._certificates[der] = known
        return known


def is_service_account(username: str) -> bool:
    return username.startswith("system:serviceaccount:") and username.count(":") == 3


def authorize(authorizer: Authorizer, user: User, access: Access) -> None:
    """Raises StatusError 403, worded as the API server words it, where the user may not."""
    allowed, reason = decide(authorizer, user, access)
    if allowed:
        return
    if access.path:
        raise failure(403, "Forbidden", f'forbidden: User "{user.username}" cannot {access.verb} path "{access.path}"')
    resource = f"{access.plural}/{access.subresource}" if access.subresource else access.plural
    where = f'in the namespace "{access.namespace}"' if access.namespace else "at the cluster scope"
    message = f'User "{user.username}" cannot {access.verb} resource "{resource}" in API group "{access.group}" {where}'
    raise forbidden(access.group, access.plural, access.name, f"{message}: {reason}" if reason else message)


def decide(authorizer: Authorizer, user: User, access: Access) -> tuple[bool, str]:
    """Whether the user may, and why; `system:masters` may everything without asking."""
    if MASTERS in user.groups:
        return True, ""
    return authorizer.allowed(
        user,
        access.verb,
        access.group,
        access.plural,
        access.subresource,
        access.namespace,
        access.name,
        access.path,
    )


def impersonated(authorizer: Authorizer, user: User, headers: Sequence[tuple[str, str]]) -> User:
    """The user that the request acts as; raises StatusError 403 where `user` may not impersonate that one."""
    asked = [(name, value) for name, value in headers if name.startswith("impersonate-")]
    if not asked:
        return user
    names = [value for name, value in asked if name == "impersonate-user" and value]
    if not names:
        raise bad_request("impersonation headers were sent without Impersonate-User")
    groups = [value for name, value in asked if name == "impersonate-group"]
    uids = [value for name, value in asked if name == "impersonate-uid" and value]
    extra: dict[str, tuple[str, ...]] = {}
    for name, value in asked:
        if name.startswith(_EXTRA_HEADER):
            key = unquote(name.removeprefix(_EXTRA_HEADER))  # a header cannot hold what a key may
            extra[key] = (*extra.get(key, ()), value)
    target = User(names[0], uid=uids[0] if uids else "", groups=tuple(groups), extra=extra)
    for access in _impersonation_checks(target):
        authorize(authorizer, user, access)
    return _with_implied_groups(target)


def _impersonation_checks(target: User) -> list[Access]:
    parts = target.username.split(":")
    if is_service_account(target.username):
        checks = [Access("impersonate", "", "serviceaccounts", namespace=parts[2], name=parts[3])]
    else:
        checks = [Access("impersonate", "", "users", name=target.username)]
    checks += [Access("impersonate", "", "groups", name=group) for group in target.groups]
    authentication = "authentication.k8s.io"
    if target.uid:
        checks.append(Access("impersonate", authentication, "uids", name=target.uid))
    for key, values in target.extra.items():
        checks += [Access("impersonate", authentication, "userextras", key, name=value) for value in values]
    return checks


def _with_implied_groups(target: User) -> User:
    groups = target.groups
    parts = target.username.split(":")
    if is_service_account(target.username) and not groups:
        groups = service_account_groups(parts[2])
    if target.username == ANONYMOUS.username:
        return replace(target, groups=groups or ANONYMOUS.groups)
    return replace(target, groups=groups if AUTHENTICATED in groups else (*groups, AUTHENTICATED))
