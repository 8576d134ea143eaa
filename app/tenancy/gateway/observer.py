"""What a gateway reports; the metrics module implements it."""

from __future__ import annotations

from typing import Protocol


class GatewayObserver(Protocol):
    """`tenant` is the tenant's name. Of callers that are no tenants it is `certificate <name>`, as in limits.

    `service` and `method` are names of services that the gateway has, so that labels stay few. Streams of a tenant
    may end after it is gone.
    """

    def tenant_came(self, tenant: str) -> None:
        """There is a Tenant of this name from now on."""

    def tenant_gone(self, tenant: str) -> None:
        """There is no such Tenant any more, or none that can be read."""

    def called(self, service: str, method: str, code: str, seconds: float) -> None:
        """A call has ended; `code` is the gRPC status in capitals (OK, NOT_FOUND …), a stream's included."""

    def refused(self, service: str, reason: str) -> None:
        """Not served for this reason (one of `app.tenancy.gateway.identity.Reason`)."""

    def throttled(self, tenant: str, what: str) -> None:
        """RESOURCE_EXHAUSTED: `what` is "rate" or "streams". Or "refused" so often that the call was held before."""

    def streams(self, tenant: str, count: int) -> None:
        """The tenant has so many streams open now."""

    def event(self, tenant: str, kind: str) -> None:
        """An event of a workload stream was read: "update", "delete" or "synced"."""

    def event_dropped(self, tenant: str, reason: str) -> None:
        """It was not taken: "id", "size", "content", "limit", "rejected" (by the API server)."""

    def written(self, tenant: str, verb: str, outcome: str) -> None:
        """A Workload: `verb` "create", "replace", "delete" or "unchanged"; `outcome` "done" or "failed"."""
