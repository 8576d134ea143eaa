"""Keeps the condition Connected of Tenants: whether the gateway accepts the tenant's agent, and if not, why.

The gateways note when they accepted a call last, and what they refused; the condition follows from that, the other
Tenants and the time. One writer, so that replicas of the gateway that see different callers do not undo each other.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.conditions import set_condition
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.events import EventRecorder, EventType, Regarding
from app.kube.retry import if_there
from app.tenancy.controller import metrics
from app.tenancy.controller.connecting import Verdict, judge
from app.tenancy.controller.state import Claims, TenantState
from app.tenancy.link import CONTACT_SECONDS
from app.tenancy.model import AGENT_SILENT, CONNECTED, SUSPENDED
from app.workloads.model import TENANTS

FIELD_MANAGER = "berth-links"
"""Who owns the condition Connected; the other conditions have another owner."""
_SETTLING = timedelta(seconds=CONTACT_SECONDS / 2)
"""After a start, and after the API server could not be written to, gateways get so long to note contacts."""


class LinkReconciler:
    def __init__(
        self, client: KubeClient, claims: Claims, events: EventRecorder | None, *, now: Callable[[], datetime]
    ) -> None:
        self._client, self._claims, self._events, self._now = client, claims, events, now
        self._recorded: dict[str, tuple[str, str]] = {}
        self._unsettled = now()

    async def reconcile(self, name: str) -> Result:
        """One Tenant by its name, as the cache has it."""
        state = self._claims.tenants.get("", name)
        if state is None or state.ending:
            self._recorded.pop(name, None)
            metrics.forget(name)
            return Done()
        verdict = judge(state, holder_of=self._claims.holder_of, now=self._now())
        before = state.connected
        settling = self._unsettled + _SETTLING - self._now()
        if verdict.reason == AGENT_SILENT and before.get("status") == "True" and settling > timedelta():
            return RequeueAfter(settling.total_seconds())
        if (before.get("status"), before.get("reason"), before.get("message")) != verdict.shown:
            await self._write(state, verdict)
        self._record(state, verdict)
        if verdict.reason == SUSPENDED:  # as the cloud admin wants it: no alert
            metrics.forget(name)
        else:
            metrics.connected(name, verdict.reason, up=verdict.truth == "True")
        return Done() if verdict.until is None else RequeueAfter(verdict.until)

    async def _write(self, state: TenantState, verdict: Verdict) -> None:
        status = {"conditions": [dict(state.connected)] if state.connected else []}
        set_condition(status, CONNECTED, verdict.truth, verdict.reason, verdict.message, now=self._now())
        body = TENANTS.body({"name": state.name, "uid": state.uid}, status=status)
        request = self._client.apply(TENANTS, state.name, body, field_manager=FIELD_MANAGER, subresource="status")
        try:
            await if_there(request)
        except ApiError:
            self._unsettled = self._now()
            raise

    def _record(self, state: TenantState, verdict: Verdict) -> None:
        """An Event for each change; none where no agent has called yet, or the cache lags behind the last one."""
        now = (verdict.truth, verdict.reason)
        before = self._recorded.get(state.name) or (state.connected.get("status"), state.connected.get("reason"))
        self._recorded[state.name] = now
        resumed = before[1] == SUSPENDED and verdict.reason == AGENT_SILENT  # the agent is about to call again
        if self._events is None or now == before or verdict.truth == "Unknown" or resumed:
            return
        event: EventType = "Normal" if verdict.truth == "True" or verdict.reason == SUSPENDED else "Warning"
        regarding = Regarding.of(TENANTS, ("", state.name), state.uid)
        self._events.record(regarding, event, reason=verdict.reason, message=verdict.message)
