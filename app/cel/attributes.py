"""What admission knows of one write, as match conditions of webhooks see it. Values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from app.wire import JSON

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Who makes the request, as `request.userInfo` says it."""

    username: str
    uid: str = ""
    groups: Sequence[str] = ()
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
