"""What the infra cluster has of a tenant, for `berth tenant show` and for the questions before a removal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.conditions import is_true
from app.kube.resources import NODES, PODS, Resource
from app.kube.retry import every_item
from app.placement.model import PlacementOptions
from app.tenancy.controller.state import project_node
from app.text import several
from app.wire import JSON
from app.workloads.model import COMPANION, SYSTEM_NAMESPACE, TENANT_RULES, WORKLOAD, WORKLOADS, tenant_namespace


@dataclass(frozen=True, slots=True)
class Dpu:
    """A node that has the label of a tenant, or of one of its hosts."""

    node: str
    host: str
    tenant: str
    ready: bool


async def contents_of(client: KubeClient, tenant: str) -> Mapping[str, int]:
    """How many objects of each sort the infra cluster has of the tenant at this moment, by their name in English.

    Companions are those of admin rules in the system namespace too; other Pods are those that are no companions.
    """
    namespace = tenant_namespace(tenant)
    pods = sum([1 async for _ in _items(client, PODS, namespace)])
    of_admin = sum([_is_of(pod, namespace) async for pod in _items(client, PODS, SYSTEM_NAMESPACE, COMPANION)])
    companions = sum([1 async for _ in _items(client, PODS, namespace, COMPANION)])
    return {
        "workload": sum([1 async for _ in _items(client, WORKLOADS, namespace)]),
        "companion": companions + of_admin,
        "other Pod": pods - companions,
        "rule": sum([1 async for _ in _items(client, TENANT_RULES, namespace)]),
    }


def counted(counts: Mapping[str, int]) -> str:
    """The counts as text: "1 workload, 2 companions"."""
    return ", ".join(several(number, noun) for noun, number in counts.items())


async def companions_on(client: KubeClient, tenant: str, nodes: Collection[str]) -> int:
    """How many companions of the tenant run on these nodes."""
    namespace, number = tenant_namespace(tenant), 0
    for where in (namespace, SYSTEM_NAMESPACE):
        async for pod in _items(client, PODS, where, COMPANION):
            number += (where == namespace or _is_of(pod, namespace)) and pod["spec"].get("nodeName") in nodes
    return number


async def dpus_of(client: KubeClient, tenant: str, hosts: Sequence[str], *, placement: PlacementOptions) -> list[Dpu]:
    """The nodes with the label of the tenant or of one of the hosts, by name."""
    dpus = []
    async for node in _items(client, NODES):
        state = project_node(node, placement)
        if state is not None and (state.tenant == tenant or state.host in hosts):
            dpus.append(Dpu(state.name, state.host, state.tenant, is_true(node.get("status") or {}, "Ready")))
    return sorted(dpus, key=lambda dpu: dpu.node)


async def _items(
    client: KubeClient, resource: Resource, namespace: str | None = None, selector: str = ""
) -> AsyncIterator[JSON]:
    try:
        async for item in every_item(
            lambda token: client.list_page(resource, namespace=namespace, label_selector=selector, continue_token=token)
        ):
            yield item
    except ApiError as error:
        if not error.not_found:  # else the cluster does not know the kind
            raise


def _is_of(pod: JSON, namespace: str) -> bool:
    return str((pod["metadata"].get("annotations") or {}).get(WORKLOAD)).startswith(f"{namespace}/")
