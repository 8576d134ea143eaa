"""The settings of a role that reconciles objects of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import AliasChoices, Field

from app.kube.client import KubeClient
from app.kube.events import Events
from app.settings.flags import CLUSTER, RECONCILING, Flag
from app.settings.source import DnsLabel, RoleSettings
from app.wiring import SYSTEM_NAMESPACE


class ReconcilingSettings(RoleSettings):
    """Times are in seconds. `namespace` is where the Lease is."""

    max_concurrent_reconciles: Annotated[int, Flag("Keys reconciled at a time", RECONCILING)] = Field(16, ge=1, le=256)
    resync_seconds: Annotated[float, Flag("How often everything is reconciled again", RECONCILING)] = Field(
        60.0, ge=1, allow_inf_nan=False
    )
    leader_elect: Annotated[bool, Flag("Work only while holding the Lease", RECONCILING)] = True
    namespace: Annotated[
        DnsLabel, Flag("Namespace of the Lease", CLUSTER, default=f"$NAMESPACE or {SYSTEM_NAMESPACE}")
    ] = Field(SYSTEM_NAMESPACE, validation_alias=AliasChoices("BERTH_NAMESPACE", "NAMESPACE"))


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """What a controller is made with."""

    client: KubeClient
    settings: ReconcilingSettings
    events: Events
