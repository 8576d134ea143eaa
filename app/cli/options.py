"""How commands declare their options: those of the roles have no defaults, which the settings have, and are in panels.

What several roles are told in the same words is here once.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from app.placement.policy import ALLOWANCES

ABSENT = None
"""The default of every option: what was not given is not told to the settings."""
CLUSTER, LOGS, PLACEMENT, SERVING = "Cluster", "Logs", "Placement and tenants", "Serving"
"""Panels that several roles have."""


class RoleCommand(TyperCommand):
    """Leaves the `--no-…` twin of each switch out of the help, where it would squeeze everything else."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        twins = [(param, param.secondary_opts) for param in self.params]
        for param, _ in twins:
            param.secondary_opts = []
        try:
            super().format_help(ctx, formatter)
        finally:
            for param, names in twins:
                param.secondary_opts = names


def option(*names: str, panel: str, text: str, hidden: bool = False) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        *names, help=text, rich_help_panel=panel, hidden=hidden, show_default=False
    )
    return option


def given(values: dict[str, Any]) -> dict[str, object]:
    """The options that the user gave, by their fields."""
    return {name: value for name, value in values.items() if value is not None and not name.startswith("_")}


def paragraphs(text: str) -> str:
    """The text with each paragraph on one line: the terminal breaks it, as wide as it is. Indented ones stay so."""
    found = []
    for paragraph in text.strip().split("\n\n"):
        indent = paragraph[: len(paragraph) - len(paragraph.lstrip())]
        found.append(indent + " ".join(paragraph.split()))
    return "\n\n".join(found)


InfraKubeconfig = Annotated[
    str | None, option("--kubeconfig", panel=CLUSTER, text="The infra cluster (default: in-cluster)")
]
Context = Annotated[str | None, option("--context", panel=CLUSTER, text="Context of the kubeconfig")]
HealthAddress = Annotated[
    str | None, option("--bind-address", panel=SERVING, text="Address of the health server (default: 0.0.0.0)")
]
ServersAddress = Annotated[
    str | None, option("--bind-address", panel=SERVING, text="Address of both servers (default: 0.0.0.0)")
]
HealthPort = Annotated[
    int | None,
    option("--health-check-port", panel=SERVING, text="Plain port of /healthz, /readyz, /metrics (default: 8444)"),
]
HostLabel = Annotated[
    str | None,
    option(
        "--host-label",
        panel=PLACEMENT,
        text="Label of DPU nodes that names their host (default: provisioning.dpu.nvidia.com/host)",
    ),
]
TenantNodeLabel = Annotated[
    str | None,
    option(
        "--tenant-node-label",
        panel=PLACEMENT,
        text='Label of DPU nodes that names their tenant; "" confines nobody (default: berth.dev/tenant)',
    ),
]
TenantAllow = Annotated[
    str | None,
    option(
        "--tenant-allow",
        panel=PLACEMENT,
        text="Comma list of KIND=NAME that tenants' Pods may ask for, such as priorityClass=gold; "
        f"KIND is {', '.join(ALLOWANCES)}",
    ),
]
RefusedNames = Annotated[
    str | None,
    option(
        "--admin-names",
        panel=PLACEMENT,
        text="Comma list of names that no Tenant may claim (default: cloud-admin.local)",
    ),
]
LogLevel = Annotated[
    str | None, option("--log-level", panel=LOGS, text="debug, info, warning or error (default: info)")
]
