"""The settings of `berth controller`."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, Field, field_validator
from pydantic_settings import NoDecode

from app.kube.names import check_dns_label
from app.settings.flags import CLUSTER, Flag
from app.settings.placement import PlacementSettings
from app.settings.source import comma_list
from app.tenancy.controller.bounds import parse_quota
from app.tenancy.controller.grants import NamespaceGrant, parse_grant
from app.workloads.model import SYSTEM_NAMESPACE

CONTROLLERS = ("workloads", "tenants")
_WORK = "Reconciling"


class ControllerSettings(PlacementSettings):
    """Everything `berth controller` is told. Times are in seconds.

    `namespace` is where its Lease is, `namespace_grant` what roles of Berth get in each tenant's namespace,
    `tenant_quota` which of the default bounds there are others.
    """

    controllers: Annotated[
        tuple[str, ...], NoDecode, Flag(f"Comma list of {', '.join(CONTROLLERS)}", _WORK, default="both")
    ] = CONTROLLERS
    max_concurrent_reconciles: Annotated[int, Flag("Keys reconciled at a time", _WORK)] = Field(16, ge=1, le=256)
    resync_seconds: Annotated[float, Flag("How often everything is reconciled again", _WORK)] = Field(
        60.0, ge=1, allow_inf_nan=False
    )
    leader_elect: Annotated[bool, Flag("Work only while holding the Lease", _WORK)] = True
    namespace_grant: Annotated[
        tuple[str, ...],
        NoDecode,
        Flag(
            "A ClusterRole to bind in each tenant's namespace, ROLE=NAMESPACE/ACCOUNT; repeatable",
            _WORK,
            repeatable=True,
        ),
    ] = ()
    tenant_quota: Annotated[
        tuple[str, ...],
        NoDecode,
        Flag(
            "Comma list of RESOURCE=NUMBER, bounds of objects in each tenant's namespace, of companions of admin "
            "rules (companions/Any, companions/SameNode), of the bytes of all its companions (companions/bytes, "
            "companions/pending-bytes) and of those without a node (companions/pending, companions/pending-of-host, "
            "companions/queued), in place of the defaults; RESOURCE= removes one",
            _WORK,
        ),
    ] = ()
    namespace: Annotated[str, Flag("Namespace of the Lease", CLUSTER, default=f"$NAMESPACE or {SYSTEM_NAMESPACE}")] = (
        Field(SYSTEM_NAMESPACE, validation_alias=AliasChoices("BERTH_NAMESPACE", "NAMESPACE"))
    )

    @property
    def grants(self) -> tuple[NamespaceGrant, ...]:
        """The same, read."""
        return tuple(map(parse_grant, self.namespace_grant))

    @property
    def quota(self) -> dict[str, int]:
        """How many objects there may be in each tenant's namespace, and companions outside of it."""
        return parse_quota(self.tenant_quota)

    @field_validator("namespace_grant", "tenant_quota", mode="before")
    @classmethod
    def _list(cls, value: object) -> object:
        return comma_list(value)

    @field_validator("namespace_grant")
    @classmethod
    def _grants(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        roles = [parse_grant(text).cluster_role for text in value]
        if len(set(roles)) < len(roles):
            raise ValueError("one ClusterRole is given to two ServiceAccounts: a RoleBinding is called like its role")
        return value

    @field_validator("tenant_quota")
    @classmethod
    def _quota(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        parse_quota(value)
        return value

    @field_validator("controllers", mode="before")
    @classmethod
    def _known(cls, value: object) -> object:
        value = comma_list(value)
        if not isinstance(value, tuple) or not value:
            raise ValueError(f"want a list of {', '.join(CONTROLLERS)}")
        for name in value:
            if name not in CONTROLLERS:
                raise ValueError(f"there is no controller {name!r}: want {', '.join(CONTROLLERS)}")
        return tuple(dict.fromkeys(value))

    @field_validator("namespace")
    @classmethod
    def _namespace(cls, value: str) -> str:
        return check_dns_label(value)
