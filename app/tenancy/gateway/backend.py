"""What all services of a gateway share: the API server, the caches, and the bounds of reading, writing and logging."""

from __future__ import annotations

from app.kube.turns import AdaptiveTurns
from app.logs import LogDedup
from app.tenancy.gateway.caches import Sources
from app.tenancy.gateway.links import Contacts
from app.tenancy.gateway.metrics import GatewayMetrics
from app.tenancy.gateway.quotas import RuleQuota, Storing
from app.tenancy.gateway.reading import Readers
from app.tenancy.gateway.settings import GatewaySettings, Limits


class Backend:
    """`turns` are those of requests to the API server, by tenant's namespace. `limits` are by default the settings'."""

    def __init__(
        self,
        sources: Sources,
        *,
        settings: GatewaySettings,
        limits: Limits | None = None,
        observer: GatewayMetrics | None = None,
    ) -> None:
        self.sources, self.client = sources, sources.client
        self.limits = limits = limits or settings.limits
        self.observer = observer or GatewayMetrics()
        self.placement, self.admin_names = settings.placement, settings.admin_names
        self.readers = Readers(limits)
        self.storing = Storing(limits, self.sources.pods)
        self.rule_quota = RuleQuota(self.sources.rules, workloads=self.sources.count_workloads, pairs=limits.pairs)
        self.turns = AdaptiveTurns(total=limits.writes, each=limits.writes_per_tenant)
        self.lines = LogDedup()
        self.contacts = Contacts(sources, self.lines, every=limits.contact)

    def forget_idle(self) -> None:
        """Keeps small what grows with the callers; call it now and then."""
        self.lines.review()
        self.readers.forget_idle()
        self.storing.forget_idle()
        self.turns.forget_idle()
        self.sources.ledger.expire()
        self.contacts.forget_idle()
