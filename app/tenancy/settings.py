"""The settings of the tenancy wing in roles that it does not own, and the options of its controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import field_validator

from app.placement.model import PlacementOptions
from app.settings.source import PLACEMENT, RECONCILING, Flag, Items, RoleSettings
from app.tenancy.model import ADMIN_NAME
from app.tenancy.namespace import NamespaceObject, parse_grant
from app.workloads.settings import DEFAULT_QUOTA, QuotaSettings


class AdminSettings(RoleSettings):
    """`admin_names` are the names of the cloud admin's certificates. All roles of a cluster need the same."""

    admin_names: Annotated[
        Items, Flag("Comma list of the names in the cloud admin's certificates, which no Tenant may claim", PLACEMENT)
    ] = (ADMIN_NAME,)

    @field_validator("admin_names")
    @classmethod
    def _names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("want at least one name of a certificate")
        return value


class TenantsSettings(AdminSettings, QuotaSettings):
    """`namespace_grant` is what roles of Berth get in each tenant's namespace."""

    namespace_grant: Annotated[
        Items,
        Flag(
            "A ClusterRole to bind in each tenant's namespace, ROLE=NAMESPACE/ACCOUNT; repeatable",
            RECONCILING,
            repeatable=True,
        ),
    ] = ()

    @property
    def grants(self) -> tuple[NamespaceObject, ...]:
        """The same, read."""
        return tuple(map(parse_grant, self.namespace_grant))

    @field_validator("namespace_grant")
    @classmethod
    def _grants(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        roles = [parse_grant(text).name for text in value]
        if len(set(roles)) < len(roles):
            raise ValueError("one ClusterRole is given to two ServiceAccounts: a RoleBinding is called like its role")
        return value


@dataclass(frozen=True, slots=True)
class TenantsOptions:
    """`grants` are what Berth's own roles need in tenants' namespaces, `quota` is how many objects each may have."""

    placement: PlacementOptions = field(default_factory=PlacementOptions)
    admin_names: tuple[str, ...] = (ADMIN_NAME,)
    grants: tuple[NamespaceObject, ...] = ()
    quota: Mapping[str, int] = field(default_factory=lambda: DEFAULT_QUOTA)
