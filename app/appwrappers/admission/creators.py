"""Who created an AppWrapper, as an annotation keeps it and as an API server is asked about. Pure."""

from __future__ import annotations

import msgspec

from app.admission.review import UserInfo
from app.kube.names import service_account_groups, service_account_user
from app.wire import decode_json, encode_sorted

_decode = msgspec.json.Decoder(UserInfo).decode


def text_of(user: UserInfo) -> str:
    """The value of the annotation; the same for the same user."""
    said = {"username": user.username, "uid": user.uid, "groups": user.groups, "extra": decode_json(user.extra)}
    return encode_sorted({field: value for field, value in said.items() if value}).decode()


def read(text: str) -> UserInfo:
    """The user that `text_of` was given. Raises ValueError for another text."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ValueError(str(error)) from error


def service_account(place: str) -> UserInfo:
    """The service account NAMESPACE/NAME as a user."""
    namespace, _, name = place.partition("/")
    groups = [*service_account_groups(namespace), "system:authenticated"]
    return UserInfo(service_account_user(namespace, name), groups)
