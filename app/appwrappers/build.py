"""Makes the parts of the wing that the descriptor names."""

from __future__ import annotations

from app.appwrappers import metrics
from app.appwrappers.controller.controller import AppWrappersController, Options
from app.appwrappers.kueue.controller import WorkloadsOfAppWrappers
from app.appwrappers.settings import WrappedKindsSettings
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as
from app.wiring import OFF


def controller(context: ControllerContext) -> AppWrappersController:
    settings = settings_as(context.settings, WrappedKindsSettings)
    metrics.create_series()
    options = Options(
        config=settings.appwrapper_config,
        namespace=context.settings.namespace,
        workers=context.settings.max_concurrent_reconciles,
        resync=context.settings.resync_seconds,
        impersonate=settings.appwrapper_impersonation != OFF,
    )
    return AppWrappersController(context.client, options=options, events=context.events)


def workloads(context: ControllerContext) -> WorkloadsOfAppWrappers:
    return WorkloadsOfAppWrappers(
        context.client,
        workers=context.settings.max_concurrent_reconciles,
        resync=context.settings.resync_seconds,
        events=context.events,
    )
