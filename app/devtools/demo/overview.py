"""Within a step of the demo: what runs in a cluster, on one screen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from app.devtools.demo.stage import Stage
from app.doctor.aiming import Aim
from app.doctor.cluster import Cluster
from app.kube.client import KubeClient
from app.status.gathering import diagnose, gather
from app.status.model import Status
from app.status.rendering import render


async def show_status(stage: Stage, client: KubeClient, *, context: str, companions: int | None = None) -> None:
    """Show it for one cluster.

    Raises DemoError if a role is not ready, or if this number of companions (None: any) does not come to run.
    """
    stage.command(f"berth status --context {context}")
    cluster = Cluster(client, namespace="", aim=Aim(context=context))
    status = await stage.until(
        "every role is ready" + (f", and {companions} companions run" if companions is not None else ""),
        lambda: gather(Cluster(client, namespace="")),
        true=lambda found: _is_well(found) and companions in (None, _running(found)),
    )
    try:
        status = replace(status, diagnosis=await diagnose(cluster))
    finally:
        await cluster.close()
    for line in render(status, "text"):
        stage.say(line.text)
    stage.holds(f"the roles of {context} are ready", kept=True)
    if companions is not None:
        stage.holds(f"{companions} companions are wanted, and run", kept=True)


def _totals(status: Status, name: str) -> Mapping[str, int | None]:
    return next((found.totals for section, found in status.sections if section.name == name), {})


def _is_well(status: Status) -> bool:
    roles = _totals(status, "roles")
    return bool(roles.get("roles")) and roles.get("roles") == roles.get("ready")


def _running(status: Status) -> int | None:
    """How many companions run, None if that is not all that are wanted."""
    totals = _totals(status, "companions")
    return totals.get("running") if totals.get("running") == totals.get("wanted") else None
