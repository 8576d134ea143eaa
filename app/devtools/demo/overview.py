"""A step of the demo: what runs over the three clusters, on one screen."""

from __future__ import annotations

from dataclasses import replace

from app.devtools.demo.stage import Stage
from app.doctor.cluster import Cluster
from app.kube.client import KubeClient
from app.status.gathering import diagnose, gather
from app.status.model import Status
from app.status.rendering import render


async def show_status(stage: Stage, infra: KubeClient, *, companions: int) -> None:
    """Raises DemoError where this number of companions does not come to run, or is not counted."""
    await stage.title("All of it on one screen")
    stage.command("berth status", where="icp")

    cluster = Cluster(infra, namespace="")
    status = await stage.until(
        f"{companions} companions are wanted, and run",
        lambda: gather(Cluster(infra, namespace="")),
        true=lambda one: _counts(one) == (companions, companions),
    )
    try:
        status = replace(status, diagnosis=await diagnose(cluster))
    finally:
        await cluster.close()
    for line in render(status, "text"):
        stage.say(line.text)
    stage.holds(f"{companions} companions are wanted, and run", True)


def _counts(status: Status) -> tuple[int | None, int | None]:
    totals = next((found.totals for section, found in status.sections if section.name == "companions"), {})
    return totals.get("wanted"), totals.get("running")
