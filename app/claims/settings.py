"""What claims add to the settings of roles."""

from __future__ import annotations

from typing import Annotated

from pydantic import field_validator

from app.kube.names import check_dns_subdomain
from app.settings.source import Flag, Items, RoleSettings

PANEL = "Claims"


class AdmissionSettings(RoleSettings):
    """Whether the webhook looks at claims, and what becomes of network data that contradicts what it knows."""

    claims: Annotated[
        bool,
        Flag("Review claims and networks as claims; the API server must serve resource.k8s.io/v1", PANEL),
    ] = False
    claims_deny_drivers: Annotated[
        Items,
        Flag(
            "DRA driver whose network data is refused where it contradicts the networks of its Pod; that of all others "
            "gets a warning (repeatable, or a list with commas)",
            PANEL,
            repeatable=True,
        ),
    ] = ()

    @field_validator("claims_deny_drivers")
    @classmethod
    def _drivers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Names of drivers have no case."""
        return tuple(check_dns_subdomain(driver.lower()) for driver in value)
