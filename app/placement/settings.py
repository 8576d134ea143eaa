"""The settings of the placement wing: node labels of hosts and tenants, and what tenants' Pods may ask for."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, field_validator, model_validator

from app.kube.names import check_label_key
from app.placement.model import ALLOWANCES, HOST_LABEL, TENANT_LABEL, PlacementOptions, parse_policy
from app.settings.source import PLACEMENT, Flag, Items, RoleSettings
from app.settings.webhook import WebhookSettings

_Label = Annotated[str, AfterValidator(lambda label: label and check_label_key(label))]


def _check_entries(entries: tuple[str, ...]) -> tuple[str, ...]:
    parse_policy(entries)
    return entries


class PlacementSettings(RoleSettings):
    """An empty `tenant_node_label` turns confinement off. All roles of a cluster need the same values.

    `tenant_allow` has entries `KIND=NAME` of what tenants' Pods may ask for: see `app.placement.model`.
    """

    host_label: Annotated[
        str, AfterValidator(check_label_key), Flag("Label of DPU nodes that names their host", PLACEMENT)
    ] = HOST_LABEL
    tenant_node_label: Annotated[
        _Label, Flag('Label of DPU nodes that names their tenant; "" turns confinement off', PLACEMENT)
    ] = TENANT_LABEL
    tenant_allow: Annotated[
        Items,
        AfterValidator(_check_entries),
        Flag(
            "Comma list of KIND=NAME that tenants' Pods may ask for, such as priorityClass=gold; "
            f"KIND is {', '.join(ALLOWANCES)}",
            PLACEMENT,
        ),
    ] = ()

    @property
    def placement(self) -> PlacementOptions:
        return PlacementOptions(self.host_label, self.tenant_node_label, parse_policy(self.tenant_allow))

    @model_validator(mode="after")
    def _two_labels(self) -> Self:
        if self.host_label == self.tenant_node_label:
            raise ValueError("--host-label and --tenant-node-label: one label cannot say both")
        return self


class ConfinementSettings(PlacementSettings, WebhookSettings):
    """The webhook confines the Pods of tenants only where it is asked to: it has to read namespaces for it."""

    confine_tenants: Annotated[
        bool, Flag("Keep Pods in tenants' namespaces on the tenants' DPUs; reads namespaces", PLACEMENT, default="off")
    ] = False
    tenant_node_label: Annotated[_Label, Flag("Label of DPU nodes that names their tenant", PLACEMENT)] = TENANT_LABEL

    @field_validator("tenant_node_label")
    @classmethod
    def _some_label(cls, value: str) -> str:
        if not value:
            raise ValueError("want a label; to turn confinement off, leave out --confine-tenants")
        return value

    @model_validator(mode="after")
    def _in_a_cluster(self) -> Self:
        if self.manifests is not None and self.confine_tenants:
            raise ValueError("--confine-tenants needs a cluster: manifests do not say whose a namespace is")
        return self
