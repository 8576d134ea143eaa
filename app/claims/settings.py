"""What claims add to the settings of roles."""

from __future__ import annotations

from typing import Annotated

from app.claims.model import DEFINITIONS_NAME
from app.settings.source import DnsSubdomain, Flag, RoleSettings


class TemplateSettings(RoleSettings):
    """Where the definitions of claims are."""

    claim_templates: Annotated[
        DnsSubdomain, Flag("ConfigMap with definitions of claims, in the role's namespace", "Claims")
    ] = DEFINITIONS_NAME


class AdmissionSettings(TemplateSettings):
    """Whether claims are reviewed and injected."""

    claims: Annotated[
        bool,
        Flag("Review claims and networks as claims; the API server must serve resource.k8s.io/v1", "Claims"),
    ] = False
