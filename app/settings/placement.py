"""The settings that all roles of the infra cluster share: node labels of hosts and tenants, and the admin's names."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import field_validator, model_validator
from pydantic_settings import NoDecode

from app.kube.names import check_label_key
from app.placement.model import HOST_LABEL, TENANT_LABEL, PlacementOptions
from app.placement.policy import ALLOWANCES, parse_policy
from app.settings.flags import PLACEMENT, Flag
from app.settings.source import RoleSettings, comma_list
from app.tenancy.model import ADMIN_NAME


class PlacementSettings(RoleSettings):
    """An empty `tenant_node_label` turns confinement off. All roles of a cluster need the same values.

    `admin_names` are the names of the cloud admin's certificates. `tenant_allow` has entries `KIND=NAME` of what
    tenants' Pods may ask for beyond what every tenant may; see `app.placement.policy`.
    """

    host_label: Annotated[str, Flag("Label of DPU nodes that names their host", PLACEMENT)] = HOST_LABEL
    tenant_node_label: Annotated[
        str, Flag('Label of DPU nodes that names their tenant; "" turns confinement off', PLACEMENT)
    ] = TENANT_LABEL
    tenant_allow: Annotated[
        tuple[str, ...],
        NoDecode,
        Flag(
            "Comma list of KIND=NAME that tenants' Pods may ask for, such as priorityClass=gold; "
            f"KIND is {', '.join(ALLOWANCES)}",
            PLACEMENT,
        ),
    ] = ()
    admin_names: Annotated[
        tuple[str, ...],
        NoDecode,
        Flag("Comma list of the names in the cloud admin's certificates, which no Tenant may claim", PLACEMENT),
    ] = (ADMIN_NAME,)

    @property
    def placement(self) -> PlacementOptions:
        """Which node labels placement goes by, and what tenants' Pods may ask for."""
        policy = parse_policy(self.tenant_allow)
        return PlacementOptions(self.host_label, self.tenant_node_label, policy)

    @field_validator("tenant_allow", mode="before")
    @classmethod
    def _list_of_allowances(cls, value: object) -> object:
        return comma_list(value)

    @field_validator("tenant_allow")
    @classmethod
    def _allowances(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        parse_policy(value)
        return value

    @field_validator("host_label")
    @classmethod
    def _label(cls, value: str) -> str:
        return check_label_key(value)

    @field_validator("tenant_node_label")
    @classmethod
    def _label_or_nothing(cls, value: str) -> str:
        return check_label_key(value) if value else value

    @field_validator("admin_names", mode="before")
    @classmethod
    def _names(cls, value: object) -> object:
        value = comma_list(value)
        if not value:
            raise ValueError("want at least one name of a certificate")
        return value

    @model_validator(mode="after")
    def _two_labels(self) -> Self:
        if self.host_label == self.tenant_node_label:
            raise ValueError("--host-label and --tenant-node-label: one label cannot say both")
        return self
