"""Finds attachments: in the cache, else with one GET. Nothing else of this wing calls the API server."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.kube.client import KubeClient
from app.kube.lookup import GET_TIMEOUT, Cache, Lookup
from app.kube.resources import NETWORK_ATTACHMENTS
from app.networks.model import Attachment, project


class Attachments(Lookup[Attachment]):
    """Attachments by namespace and name. Without a client (manifests) what is not cached does not exist."""

    def __init__(
        self,
        store: Cache[Attachment],
        *,
        client: Callable[[], KubeClient | None],
        resource_name_keys: Sequence[str],
        get_timeout: float = GET_TIMEOUT,
    ) -> None:
        keys = tuple(resource_name_keys)
        super().__init__(
            NETWORK_ATTACHMENTS,
            store,
            lambda obj: project(obj, keys),
            client=client,
            called="network attachment definition",
            timeout=get_timeout,
        )
