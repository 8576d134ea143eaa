"""What `berth controller` is told."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, Field, field_validator, model_validator
from pydantic_settings import NoDecode

from app.kube.names import check_dns_label, check_label_key
from app.placement.model import HOST_LABEL, TENANT_LABEL, PlacementOptions
from app.settings.source import RoleSettings, comma_list, load_role
from app.workloads.model import SYSTEM_NAMESPACE

CONTROLLERS = ("workloads", "tenants")


class ControllerSettings(RoleSettings):
    """Everything `berth controller` is told. Times are in seconds.

    `namespace` is where its Lease is; `admin_resources_namespace` that of admin rules and their companions.
    """

    namespace: str = Field(default=SYSTEM_NAMESPACE, validation_alias=AliasChoices("BERTH_NAMESPACE", "NAMESPACE"))
    controllers: Annotated[tuple[str, ...], NoDecode] = CONTROLLERS
    admin_resources_namespace: str = SYSTEM_NAMESPACE
    max_concurrent_reconciles: int = Field(default=16, ge=1, le=256)
    resync_seconds: float = Field(default=60.0, ge=1, allow_inf_nan=False)
    leader_elect: bool = True
    host_label: str = HOST_LABEL
    tenant_node_label: str = TENANT_LABEL

    @property
    def placement(self) -> PlacementOptions:
        return PlacementOptions(host_label=self.host_label, tenant_node_label=self.tenant_node_label)

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

    @field_validator("namespace", "admin_resources_namespace")
    @classmethod
    def _namespace(cls, value: str) -> str:
        return check_dns_label(value)

    @field_validator("host_label")
    @classmethod
    def _label(cls, value: str) -> str:
        return check_label_key(value)

    @field_validator("tenant_node_label")
    @classmethod
    def _label_or_nothing(cls, value: str) -> str:
        return check_label_key(value) if value else value

    @model_validator(mode="after")
    def _together(self) -> ControllerSettings:
        if self.host_label == self.tenant_node_label:
            raise ValueError("--host-label and --tenant-node-label: one label cannot say both")
        return self


def load(given: dict[str, object], *, environment: bool = True) -> ControllerSettings:
    """The settings of a controller; see `load_role`."""
    return load_role(ControllerSettings, given, environment=environment)
