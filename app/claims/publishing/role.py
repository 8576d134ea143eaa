"""The role `claims-node`: the controller `claims` for the Pods of one node, with a token that is bound to this node."""

from __future__ import annotations

from app.claims import metrics
from app.claims.publishing.controller import Publisher, options_of
from app.claims.settings import NodeSettings
from app.kube.client import KubeClient
from app.kube.events import EventRecorder
from app.kube.kit import Kit
from app.settings.reconciling import RoleContext, Runnable
from app.settings.source import settings_as

NAME = "claims-node"
_WORKERS = 4


def build(context: RoleContext) -> Runnable:
    settings = settings_as(context.settings, NodeSettings)
    metrics.create_series()

    def made(client: KubeClient, events: EventRecorder) -> Kit:
        kit = Kit(client, events=events, workers=_WORKERS, resync=settings.resync_seconds)
        Publisher(kit, options_of(settings, node=settings.node_name), name=NAME)
        return kit

    return context.elected(made)
