"""Why Kueue has suspended an AppWrapper: what its Workload says of the eviction."""

from __future__ import annotations

import structlog

from app.appwrappers.controller.observing import Eviction
from app.appwrappers.controller.stored import AppWrapper
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.conditions import condition
from app.kube.discovery import Discovery

log = structlog.get_logger(__name__)
_VERSIONS = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")
_JOB_UID = "kueue.x-k8s.io/job-uid"


class Evictions:
    def __init__(self, client: KubeClient, discovery: Discovery) -> None:
        self._client, self._discovery = client, discovery

    async def of(self, wrapper: AppWrapper) -> Eviction | None:
        """None where there is no eviction, or where nothing is known: a user may suspend as well."""
        try:
            for version in _VERSIONS:
                resource = await self._discovery.resource_of(version, "Workload")
                if resource is not None:
                    page = await self._client.list_page(
                        resource, namespace=wrapper.key[0], label_selector=f"{_JOB_UID}={wrapper.uid}"
                    )
                    found = [condition(one.get("status") or {}, "Evicted") for one in page.items]
                    for one in found:
                        if one.get("status") == "True":
                            return Eviction(one.get("reason") or "Evicted", one.get("message") or "")
                    return None
        except ApiError as error:
            # Why it is suspended is worth knowing, but the suspension must not wait for it.
            log.info("eviction not known", app_wrapper=wrapper.key, error=str(error))
        return None
