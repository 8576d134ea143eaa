"""What all services of a gateway share: the API server, the caches, and the bounds of reading, writing and logging."""

from __future__ import annotations

from app.kube.client import KubeClient
from app.kube.turns import Turns
from app.tenancy.gateway.log_dedup import SparingLog
from app.tenancy.gateway.metrics import GatewayMetrics
from app.tenancy.gateway.options import GatewayOptions
from app.tenancy.gateway.reading import Readers
from app.tenancy.gateway.sources import Sources
from app.tenancy.gateway.storing import Storing


class Backend:
    """`turns` are those of requests to the API server."""

    def __init__(
        self,
        client: KubeClient,
        *,
        options: GatewayOptions,
        observer: GatewayMetrics,
    ) -> None:
        limits = options.limits
        self.client, self.options, self.limits, self.observer = client, options, limits, observer
        self.sources = Sources(client)
        self.readers = Readers(limits)
        self.storing = Storing(limits, self.sources.pods)
        self.turns = Turns(total=limits.writes, each=limits.writes_per_tenant)
        self.lines = SparingLog()

    def forget_idle(self) -> None:
        """Keeps small what grows with the callers; call it now and then."""
        self.lines.review()
        self.readers.forget_idle()
        self.storing.forget_idle()
        self.sources.ledger.expire()
