"""Which controllers act: the command that chooses them, and the findings where one does not act or two do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence

from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, depends_on, error
from app.kube.resources import DEPLOYMENTS
from app.text import several


async def choose(cluster: Cluster, *names: str, without: Collection[str] = (), values: Sequence[str] = ()) -> str:
    """The command with which the chart runs these controllers beside those that run, but for some; and sets values."""
    chosen = ",".join(sorted({*await cluster.controllers(), *names} - {*without}))
    return await commands.helm(cluster, *values, "controller.enabled=true", f"controller.args.controllers={{{chosen}}}")


async def late(cluster: Cluster, role: str, code: str, subjects: Sequence[str]) -> Finding:
    """Objects with a change that the role has not processed in time.

    How long ago they changed is not said: an API server does not note the time of every change.
    """
    text = f"has a change that the {role} has not processed"
    text += "" if await cluster.running(role) else f": no {role} was found in namespace {cluster.namespace}"
    command = await commands.restart_role(cluster, role)
    return error(code, together(subjects), text, command=command, because=depends_on(role))


def together(subjects: Sequence[str]) -> str:
    """The subject of a finding about all of these."""
    return subjects[0] + (f", and {several(len(subjects) - 1, 'other')}" if len(subjects) > 1 else "")


async def without_replica(cluster: Cluster, name: str, code: str) -> AsyncIterator[Finding]:
    """The Deployments that choose a controller, and have no ready replica."""
    for deployment in await cluster.running("controller"):
        if name in deployment.setting("controllers") and not objects.status(deployment.object).get("readyReplicas"):
            fix = commands.look_at(cluster, deployment)
            yield error(code, deployment, command=fix, because=depends_on(deployment.role))


async def beside(cluster: Cluster, name: str, code: str, peer: tuple[str, str]) -> AsyncIterator[Finding]:
    """The Deployment of a peer, namespace and name, that runs beside a controller of the same objects."""
    if name in await cluster.controllers() and await cluster.peer(*peer) is not None:
        yield error(code, objects.named(DEPLOYMENTS, peer[1], peer[0]))
