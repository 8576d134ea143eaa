"""The API servers of the sandbox: our own stand-ins, or real ones where kubeconfigs are given."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.devtools.clusters.kubeconfigs import standing_alone, write_private
from app.devtools.clusters.plans import CLUSTERS, ClusterPlan
from app.devtools.sandbox.processes import Processes
from app.devtools.sandbox.server import Cluster
from app.errors import UsageError
from app.kube.client import KubeClient
from app.kube.transport import connect


@dataclass(frozen=True, slots=True)
class Opened:
    """A cluster that answers; `services` is where it looks for Services, by namespace, name and port.

    A real API server does not look there: it finds them by their cluster IPs. `processes` is where it finds what Pods
    print; a real one asks kubelets.
    """

    client: KubeClient
    kubeconfig: Path
    services: dict[tuple[str, str, int], tuple[str, int]]
    processes: Processes


class ApiServers:
    """`given` maps cluster names to kubeconfigs of API servers that already run; the rest are stand-ins.

    Raises UsageError for the name of a cluster that the sandbox does not have.
    """

    def __init__(self, directory: Path, given: Mapping[str, Path]) -> None:
        self._directory = directory
        self._given = given
        unknown = sorted(set(given) - {plan.name for plan in CLUSTERS})
        if unknown:
            raise UsageError(f"no cluster {unknown[0]!r} in the sandbox: want {', '.join(p.name for p in CLUSTERS)}")

    async def open(self, plan: ClusterPlan, stack: contextlib.AsyncExitStack) -> Opened:
        """The cluster, until the stack ends; its kubeconfig is `<cluster>.kubeconfig` in the directory."""
        target = self._directory / f"{plan.name}.kubeconfig"
        services: dict[tuple[str, str, int], tuple[str, int]] = {}
        processes: Processes = {}
        if plan.name in self._given:
            write_private(target, standing_alone(self._given[plan.name]))
        else:
            cluster = await stack.enter_async_context(Cluster(plan.name))
            write_private(target, cluster.kubeconfig())
            services, processes = cluster.services, cluster.state.processes
        client = await stack.enter_async_context(await connect(kubeconfig=str(target)))
        return Opened(client, target, services, processes)
