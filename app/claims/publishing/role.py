"""The role `claims-node`: the controller `claims` for the Pods of one node, with a token that is bound to this node."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, Field

from app.claims import metrics
from app.claims.publishing.build import options_of
from app.claims.publishing.controller import ClaimsController
from app.claims.settings import PANEL, PublishingSettings
from app.kube.metrics import create_controller_series, create_watch_series
from app.settings.reconciling import RoleContext, Runnable
from app.settings.source import RECONCILING, DnsSubdomain, Flag, settings_as

NAME = "claims-node"
_WORKERS = 4
WATCHES = ("Pod", "ResourceClaim", "ResourceSlice", "NetworkAttachmentDefinition")


class NodeSettings(PublishingSettings):
    """The settings of `berth claims-node`. Times are in seconds."""

    node_name: Annotated[
        DnsSubdomain, Flag("Name of the node that it runs on (required)", PANEL, default="$NODE_NAME")
    ] = Field("", validate_default=True, validation_alias=AliasChoices("BERTH_NODE_NAME", "NODE_NAME"))
    resync_seconds: Annotated[float, Flag("How often every Pod is looked at again", RECONCILING)] = Field(
        60.0, ge=1, allow_inf_nan=False
    )


def build(context: RoleContext) -> Runnable:
    settings = settings_as(context.settings, NodeSettings)
    metrics.create_series()
    create_controller_series((NAME,), lease="")
    create_watch_series(WATCHES)
    options = options_of(settings, workers=_WORKERS, resync=settings.resync_seconds, node=settings.node_name)
    return context.elected(lambda client, events: ClaimsController(client, options=options, events=events, name=NAME))
