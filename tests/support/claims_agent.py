"""`berth claims-node` as a release runs it: with the arguments, the token and the rules of its Pod on the node."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from app.kube.client import KubeClient
from app.kube.resources import DAEMON_SETS, PODS
from app.kube.transport import connect
from tests.support.chart import Server
from tests.support.network_stage import OWN
from tests.support.node_stage import NodeStage
from tests.support.processes import Role
from tests.support.rbac import holding, token_kubeconfig
from tests.support.real_node import NODE
from tests.support.scraping import Exposed
from tests.support.waiting import PATIENCE, eventually

JSON = dict[str, Any]
NAME = "berth-claims-node"
_WRITES = "claims_writes_total"
_TOKENS = "/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~projected/*/token"


class ClaimsAgent(Role):
    """`client` is who the agent is to the API server."""

    def __init__(self, arguments: list[str], kubeconfig: Path, client: KubeClient) -> None:
        super().__init__(*arguments, f"--kubeconfig={kubeconfig}", f"--node-name={NODE}")
        self.client = client

    async def writes(self) -> dict[str, float]:
        """How many writes of network data this process has made, by how they ended."""
        values = Exposed.parse((await self.get("/metrics"))[1]).values
        counted = {dict(labels)["outcome"]: value for (name, labels), value in values.items() if name == _WRITES}
        return {outcome: value for outcome, value in counted.items() if value}


@contextlib.asynccontextmanager
async def claims_agent(stage: NodeStage, values: JSON) -> AsyncIterator[ClaimsAgent]:
    """That of a release with these values. Its image is nowhere: the program of its Pod runs on this machine."""
    await Server(stage.plane.kubeconfig, stage.client).install(values)
    daemons = await stage.client.get(DAEMON_SETS, NAME, namespace=OWN)
    (container,) = daemons["spec"]["template"]["spec"]["containers"]
    file = await _kubeconfig(stage, await _pod(stage, daemons["spec"]["template"]))
    async with await connect(kubeconfig=str(file), deadline=PATIENCE) as client:
        agent = ClaimsAgent(container["args"], file, client)
        await agent.start()
        try:
            yield agent
        finally:
            await agent.kill()


async def _pod(stage: NodeStage, template: JSON) -> JSON:
    """The Pod of the DaemonSet on the node; the stand-ins have no controller that makes it."""
    if stage.node is None:
        body = PODS.body({"name": NAME, **template["metadata"]}, spec={**template["spec"], "nodeName": NODE})
        return await stage.client.create(PODS, body, namespace=OWN)

    async def bound() -> list[JSON]:
        page = await stage.client.list_page(PODS, namespace=OWN, field_selector=f"spec.nodeName={NODE}")
        return [pod for pod in page.items if pod["metadata"]["ownerReferences"][0]["name"] == NAME]

    return (await eventually(bound))[0]


async def _kubeconfig(stage: NodeStage, pod: JSON) -> Path:
    """With the token that kubelet has put into a volume of the Pod; the stand-in has no volumes, and it is asked for."""
    node, (name, uid) = stage.node, (pod["metadata"][field] for field in ("name", "uid"))
    if node is None:
        return await token_kubeconfig(stage.client, stage.plane.kubeconfig, OWN, NAME, pod=name)
    command = f"cat {_TOKENS.format(uid=uid)} 2> /dev/null || true"
    return holding(stage.plane.kubeconfig, name, await eventually(lambda: node.run("sh", "-c", command)))
