"""Makes the parts of the wing that the descriptor names."""

from __future__ import annotations

from app.appwrappers.kueue.controller import WorkloadsOfAppWrappers
from app.settings.reconciling import ControllerContext


def workloads(context: ControllerContext) -> WorkloadsOfAppWrappers:
    return WorkloadsOfAppWrappers(
        context.client,
        workers=context.settings.max_concurrent_reconciles,
        resync=context.settings.resync_seconds,
        events=context.events,
    )
