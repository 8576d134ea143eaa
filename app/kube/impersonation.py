"""Impersonation: turns a kubeconfig's `as` fields, or what a caller asks for, into HTTP headers.

Pure. The names are those of https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

_UNRESERVED = "!#$&'*+-.^_`|~"
"""What a header's name may hold beside letters and digits (RFC 9110, 5.6.2); the rest is percent-encoded."""


@dataclass(frozen=True, slots=True)
class Impersonation:
    """Whom to act as. The API server wants a user with anything else, and adds a service account's groups itself."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] | None = None

    @classmethod
    def of_service_account(cls, namespace: str, name: str) -> Impersonation:
        return cls(f"system:serviceaccount:{namespace}:{name}")

    @classmethod
    def of_kubeconfig(cls, user: Mapping[str, Any]) -> Impersonation | None:
        """What the fields of a kubeconfig's user ask for; raises ValueError for those that mean nothing."""
        name = user.get("as") or ""
        groups, extra, uid = user.get("as-groups") or [], user.get("as-user-extra") or {}, user.get("as-uid") or ""
        if not name:
            if groups or extra or uid:
                raise ValueError("as-uid, as-groups and as-user-extra want a user in `as`")
            return None
        if not (
            isinstance(groups, list) and isinstance(extra, dict) and all(isinstance(v, list) for v in extra.values())
        ):
            raise ValueError("want a list in as-groups, and lists by key in as-user-extra")
        values = {str(key): tuple(map(str, found)) for key, found in extra.items()}
        return cls(str(name), tuple(map(str, groups)), str(uid), values)

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Name and value of each header, repeated where there are several groups."""
        return (
            ("Impersonate-User", self.user),
            *(("Impersonate-Group", group) for group in self.groups),
            *((("Impersonate-Uid", self.uid),) if self.uid else ()),
            *(
                (f"Impersonate-Extra-{quote(key.lower(), safe=_UNRESERVED)}", value)
                for key, found in (self.extra or {}).items()
                for value in found
            ),
        )
