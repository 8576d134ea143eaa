"""The bounds of one tenant (`--tenant-quota`): objects in its namespace, and companions, which may be outside of it.

The controller of tenants keeps the first as ResourceQuotas. The controller of workloads enforces the second.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import field_validator

from app.kube.quantity import parse_integer
from app.settings.source import RECONCILING, Flag, Items, RoleSettings
from app.workloads.controller.places import COMPANIONS, DEFAULT_PLACES
from app.workloads.controller.storing import DEFAULT_BOUNDS
from app.workloads.model import TENANT_RULES, WORKLOADS

DEFAULT_QUOTA: Mapping[str, int] = {
    # Pods that have ended too: each is an object until it is deleted.
    "count/pods": 20_000,
    # A stream may store twice as many workloads as a tenant has, while it replaces what the one before it left.
    f"count/{WORKLOADS.plural}.{WORKLOADS.group}": 40_000,
    f"count/{TENANT_RULES.plural}.{TENANT_RULES.group}": 256,
    # Each may have 1 MiB.
    "secrets": 256,
    "configmaps": 256,
    "count/daemonsets.apps": 64,
    # One for each template that a DaemonSet has had, as many as it says.
    "count/controllerrevisions.apps": 640,
    **DEFAULT_PLACES,
    **DEFAULT_BOUNDS,
}
_OF_COMPANIONS = [name for name in DEFAULT_QUOTA if name.startswith(COMPANIONS)]
_FORM = "want RESOURCE=NUMBER, and nothing behind the = to remove a bound"
_RESOURCE = re.compile(
    r"count/[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?|configmaps|persistentvolumeclaims|pods|secrets|services"
    rf"|{'|'.join(_OF_COMPANIONS)}"
)


def parse_quota(items: Iterable[str]) -> dict[str, int]:
    """The bounds after the defaults are changed by `RESOURCE=NUMBER` items; ValueError for any other text."""
    bounds = dict(DEFAULT_QUOTA)
    for item in items:
        name, equals, number = item.partition("=")
        if not equals or not _RESOURCE.fullmatch(name):
            raise ValueError(
                f"{_FORM}, got {item!r}; a resource is count/PLURAL.GROUP, count/PLURAL, pods, secrets, configmaps, "
                + " or ".join(_OF_COMPANIONS)
            )
        if not number:
            bounds.pop(name, None)
            continue
        try:
            bounds[name] = parse_integer(number)
        except ValueError as error:
            raise ValueError(f"{_FORM}: {name}: {error}") from error
    return bounds


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
