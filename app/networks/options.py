"""How networks are injected, as the settings have it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.networks.model import Mode


@dataclass(frozen=True, slots=True)
class NetworksOptions:
    """The settings of the wing; the control switches may override `existing_resources`."""

    existing_resources: Mode = "top-up"
    node_selector_conflict: Literal["override", "deny"] = "override"
    default_network_namespace: str = "kube-system"
