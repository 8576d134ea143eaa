"""Who created an AppWrapper: as an annotation keeps it, as an API server is asked about it, and to act as. Pure."""

from __future__ import annotations

import msgspec

from app.admission.review import UserInfo
from app.kube.credentials import Impersonation
from app.kube.names import service_account_groups, service_account_user
from app.wire import decode_json, encode_sorted

_decode = msgspec.json.Decoder(UserInfo).decode
_decode_extra = msgspec.json.Decoder(dict[str, tuple[str, ...]]).decode
_OF_TOKENS = "authentication.kubernetes.io/"
"""Begins the keys that say to which Pod and node the token of a service account is bound."""
_CREDENTIAL = f"{_OF_TOKENS}credential-id"
"""Names the credential of one request: no authorizer can have a rule for it, and readers need not see it."""


def text_of(user: UserInfo) -> str:
    """The value of the annotation; the same for the same user.

    All who may read the object see it. So it has what authorizers and policies decide by, and nothing more.
    """
    extra = decode_json(user.extra)
    if isinstance(extra, dict):
        extra.pop(_CREDENTIAL, None)
    fields = {"username": user.username, "uid": user.uid, "groups": user.groups, "extra": extra}
    return encode_sorted({field: value for field, value in fields.items() if value}).decode()


def read(text: str) -> UserInfo:
    """The user that `text_of` was given. Raises ValueError for another text."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ValueError(str(error)) from error


def impersonation(text: str) -> Impersonation:
    """The user that `text_of` was given, to act as: in the groups that the text says and in no others.

    Of a service account the API server knows the rest by its name, and lets a role be bound to that alone. Raises
    ValueError for another text, and for a user whom no request can name.
    """
    user = read(text)
    try:
        extra = _decode_extra(user.extra)
    except msgspec.DecodeError as error:
        raise ValueError(f"extra: {error}") from error
    for key in extra:
        if key != key.lower():
            raise ValueError(f"extra[{key}] cannot be impersonated: want a key in lower case")
    if _is_service_account(user) and all(key.startswith(_OF_TOKENS) for key in extra):
        return Impersonation(user.username)
    return Impersonation(user.username, tuple(user.groups), user.uid, extra)


def _is_service_account(user: UserInfo) -> bool:
    """Whether it is one, in the groups of its namespace and in no others."""
    kind, _, place = user.username.partition("system:serviceaccount:")
    return (
        not kind and place.count(":") == 1 and set(user.groups) == set(service_account(place.replace(":", "/")).groups)
    )


def service_account(place: str) -> UserInfo:
    """The service account NAMESPACE/NAME as a user."""
    namespace, _, name = place.partition("/")
    groups = [*service_account_groups(namespace), "system:authenticated"]
    return UserInfo(service_account_user(namespace, name), groups)
