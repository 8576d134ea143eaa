"""What `berth controller` is told."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, Field, field_validator
from pydantic_settings import NoDecode

from app.kube.names import check_dns_label
from app.settings.placement import PlacementSettings
from app.settings.source import comma_list, load_role
from app.tenancy.control.bounds import parse_quota
from app.tenancy.control.grants import NamespaceGrant, parse_grant
from app.workloads.model import SYSTEM_NAMESPACE

CONTROLLERS = ("workloads", "tenants")


class ControllerSettings(PlacementSettings):
    """Everything `berth controller` is told. Times are in seconds.

    `namespace` is where its Lease is, `namespace_grant` what roles of Berth get in each tenant's namespace,
    `tenant_quota` which of the default bounds there are others.
    """

    namespace: str = Field(default=SYSTEM_NAMESPACE, validation_alias=AliasChoices("BERTH_NAMESPACE", "NAMESPACE"))
    controllers: Annotated[tuple[str, ...], NoDecode] = CONTROLLERS
    max_concurrent_reconciles: int = Field(default=16, ge=1, le=256)
    resync_seconds: float = Field(default=60.0, ge=1, allow_inf_nan=False)
    leader_elect: bool = True
    namespace_grant: Annotated[tuple[str, ...], NoDecode] = ()
    tenant_quota: Annotated[tuple[str, ...], NoDecode] = ()

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


def load(given: dict[str, object], *, environment: bool = True) -> ControllerSettings:
    """The settings of a controller; see `load_role`."""
    return load_role(ControllerSettings, given, environment=environment)
