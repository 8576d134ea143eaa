"""The settings of the workloads wing in the controller role."""

from __future__ import annotations

from typing import Annotated

from pydantic import field_validator

from app.settings.source import RECONCILING, Flag, Items, RoleSettings
from app.workloads.quota import parse_quota


class QuotaSettings(RoleSettings):
    """`tenant_quota` has the bounds that differ from the defaults."""

    tenant_quota: Annotated[
        Items,
        Flag(
            "Comma list of RESOURCE=NUMBER, bounds of objects in each tenant's namespace, of companions of admin "
            "rules (companions/Any, companions/SameNode), of the bytes of all its companions (companions/bytes, "
            "companions/pending-bytes) and of those without a node (companions/pending, companions/pending-of-host, "
            "companions/queued), in place of the defaults; RESOURCE= removes one",
            RECONCILING,
        ),
    ] = ()

    @property
    def quota(self) -> dict[str, int]:
        """How many objects there may be in each tenant's namespace, and companions outside of it."""
        return parse_quota(self.tenant_quota)

    @field_validator("tenant_quota")
    @classmethod
    def _quota(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        parse_quota(value)
        return value
