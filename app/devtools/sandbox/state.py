"""What the request handlers of one API server share: storage, registry, authorization. A value without behavior."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.devtools.sandbox.access.auth import Authenticator
from app.devtools.sandbox.kinds.builtin import Registry
from app.devtools.sandbox.processes import Processes
from app.devtools.sandbox.storage import Storage

if TYPE_CHECKING:
    from app.devtools.sandbox.access.rbac import Authorizer
    from app.devtools.sandbox.webhooks.admission import WebhookDispatcher


@dataclass(slots=True)
class ClusterState:
    """Everything a request may touch; `bookmark_interval` is in seconds."""

    name: str
    webhooks: WebhookDispatcher
    authorizer: Authorizer
    storage: Storage = field(default_factory=Storage)
    registry: Registry = field(default_factory=Registry)
    authenticator: Authenticator = field(default_factory=Authenticator)
    processes: Processes = field(default_factory=dict)
    bookmark_interval: float = 60.0
