"""Composes the agent role: the agent, led by a Lease of the tenant cluster."""

from __future__ import annotations

from app.kube.client import KubeClient
from app.kube.resources import CONFIG_MAPS, PODS
from app.kube.transport import connect
from app.metrics import agent as agent_metrics
from app.metrics import controllers, watches
from app.metrics.agent import AgentMetrics
from app.metrics.controllers import ControllerMetrics
from app.metrics.watches import WatchMetrics
from app.runtime.background import identity, run_background
from app.runtime.standing import Connected, Led, Part
from app.settings.agent import AgentSettings
from app.tenancy.agent.agent import Agent
from app.workloads.model import UVS_RESOURCES, WORKLOAD_RULES

LEASE = "berth-agent"
_CONTROLLERS = ("agent-rules", "agent-mirrors", *(f"agent-{resource.plural}" for resource in UVS_RESOURCES))
_WATCHED = (PODS, CONFIG_MAPS, WORKLOAD_RULES, *UVS_RESOURCES)


def run_agent(settings: AgentSettings) -> int:
    """Run until a signal and return the exit status."""
    return run_background(agent_part(settings), settings, role="agent")


def agent_part(settings: AgentSettings) -> Part:
    """The agent of these settings, to be run in a loop."""
    agent_metrics.create_series()
    controllers.create_series(_CONTROLLERS, lease=LEASE)
    watches.create_series(tuple(resource.kind for resource in _WATCHED))
    options = settings.options

    def build(client: KubeClient) -> Part:
        def agent() -> Part:
            return Agent(
                client,
                options=options,
                observer=AgentMetrics(),
                watch_observer=WatchMetrics(),
                controller_observer=ControllerMetrics(),
            )

        if not settings.leader_elect:
            return agent()
        return Led(agent, client=client, namespace=settings.namespace, lease=LEASE, identity=identity())

    return Connected(lambda: connect(kubeconfig=settings.kubeconfig, context=settings.context), build)
