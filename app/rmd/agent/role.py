"""Builds the role `rmd-node`."""

from __future__ import annotations

from pathlib import Path

from app.kube.metrics import create_controller_series, create_watch_series
from app.rmd.agent import metrics
from app.rmd.agent.agent import PODS, NodeAgent, Options
from app.rmd.agent.pods import PROBLEMS
from app.rmd.agent.settings import NodeSettings
from app.settings.reconciling import RoleContext, Runnable
from app.settings.source import settings_as


def build(context: RoleContext) -> Runnable:
    settings = settings_as(context.settings, NodeSettings)
    metrics.create_series(PROBLEMS)
    create_controller_series((PODS,), lease="")
    create_watch_series(("Pod", "RmdWorkload", "RmdDaemonPod"))
    options = Options(
        node=settings.node_name,
        kubelet=Path(settings.kubelet_folder),
        namespace=settings.rmd_namespace,
        certificate=Path(settings.daemon_certificate),
        announce=settings.announce_cache_ways,
        resync=settings.resync_seconds,
    )
    return context.elected(lambda client, events: NodeAgent(client, events, options=options))
