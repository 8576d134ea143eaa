"""Who created an AppWrapper: what is kept, and as whom components are created."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from app.admission.review import UserInfo
from app.appwrappers.admission.rights import read, text_of
from app.appwrappers.controller.acting import impersonation

TOKEN = "authentication.kubernetes.io/"
ACCOUNT = "system:serviceaccount:ns:builder"
GROUPS = ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]


def user(name: str = "alice", groups: list[str] | None = None, uid: str = "", **extra: list[str]) -> UserInfo:
    said = msgspec.Raw(json.dumps({key.replace("__", "/"): value for key, value in extra.items()}).encode())
    return UserInfo(name, groups if groups is not None else ["devs"], uid, said)


def test_what_authorizers_decide_by_is_kept_and_no_credential() -> None:
    extra = {f"{TOKEN}credential-id": ["JTI=1"], f"{TOKEN}pod-name": ["p"], "scopes.example.com": ["a", "b"]}
    kept = text_of(UserInfo("alice", ["devs"], "7", msgspec.Raw(json.dumps(extra).encode())))
    assert json.loads(kept) == {
        "username": "alice",
        "uid": "7",
        "groups": ["devs"],
        "extra": {f"{TOKEN}pod-name": ["p"], "scopes.example.com": ["a", "b"]},
    }
    assert text_of(read(kept)) == kept


@pytest.mark.parametrize("extra", ["null", "[]", '"text"', "{}"])
def test_any_extra_can_be_kept(extra: str) -> None:
    assert '"username":"alice"' in text_of(UserInfo("alice", [], "", msgspec.Raw(extra.encode())))


def test_a_user_is_impersonated_with_all_that_is_known() -> None:
    found = impersonation(text_of(user(uid="7", scopes=["a"])))
    assert (found.user, found.groups, found.uid, found.extra) == ("alice", ("devs",), "7", {"scopes": ("a",)})


def test_a_service_account_is_impersonated_by_its_name() -> None:
    """The API server knows its groups, and lets a role be bound to this alone."""
    extra = {f"{TOKEN}pod-name": ["p"]}
    plain = UserInfo(ACCOUNT, GROUPS, "7", msgspec.Raw(json.dumps(extra).encode()))
    assert dict(impersonation(text_of(plain)).headers) == {"Impersonate-User": ACCOUNT}
    more = UserInfo(ACCOUNT, [*GROUPS, "devs"], "7")
    assert "devs" in impersonation(text_of(more)).groups
    scoped = UserInfo(ACCOUNT, GROUPS, "7", msgspec.Raw(b'{"scopes":["a"]}'))
    assert impersonation(text_of(scoped)).extra == {"scopes": ("a",)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "no JSON",
        '{"username":""}',
        '{"username":7}',
        '{"username":"alice","extra":[]}',
        '{"username":"alice","extra":{"a":"b"}}',
        # Headers lose spaces at both ends: this would be another user, or group.
        '{"username":" admin"}',
        '{"username":"alice","groups":["system:masters "]}',
        '{"username":"alice","groups":[""]}',
        '{"username":"alice","groups":["a\\nImpersonate-Group: b"]}',
        '{"username":"alice","uid":"\\t7"}',
        '{"username":"alice","extra":{"Scopes":["a"]}}',
        '{"username":"alice","extra":{" scopes":["a"]}}',
        '{"username":"alice","extra":{"scopes":[" a"]}}',
    ],
)
def test_whom_no_request_can_name_is_not_impersonated(text: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        impersonation(text)
