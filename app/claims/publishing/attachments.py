"""What is kept of a NetworkAttachmentDefinition for network data. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from app.claims.publishing.model import Attachment
from app.networks.model import RESOURCE_NAME
from app.wire import JSON


def stored_attachment(obj: JSON, keys: Sequence[str] = (RESOURCE_NAME,)) -> Attachment:
    """`keys` are the annotations that name its resource, the first present one counts. Never fails on odd texts."""
    raise NotImplementedError
