"""The role `claims-node`: the controller `claims` for the Pods of one node, with a token that is bound to this node."""

from __future__ import annotations

from app.claims import metrics
from app.claims.publishing.build import options_of
from app.claims.publishing.controller import ClaimsController
from app.claims.settings import NodeSettings
from app.kube.metrics import create_controller_series, create_watch_series
from app.settings.reconciling import RoleContext, Runnable
from app.settings.source import settings_as

NAME = "claims-node"
_WORKERS = 4
WATCHES = ("Pod", "ResourceClaim", "ResourceSlice", "NetworkAttachmentDefinition")


def build(context: RoleContext) -> Runnable:
    settings = settings_as(context.settings, NodeSettings)
    metrics.create_series()
    create_controller_series((NAME,), lease="")
    create_watch_series(WATCHES)
    options = options_of(settings, workers=_WORKERS, resync=settings.resync_seconds, node=settings.node_name)
    return context.elected(lambda client, events: ClaimsController(client, options=options, events=events, name=NAME))
