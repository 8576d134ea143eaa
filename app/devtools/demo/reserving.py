"""The example of RMD: cache ways and P-states for a Pod, reservations by hand, and what a daemon and Berth refuse."""

from __future__ import annotations

from collections.abc import Callable

from app.devtools.demo.stage import Stage, get_or_nothing
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.conditions import condition, is_true
from app.kube.resources import NODES, PODS, Resource
from app.rmd.model import L3_CACHE_WAYS, READY, RMD_CONFIGS, RMD_NODE_STATES, RMD_WORKLOADS
from app.wire import JSON

POD, HOST = "guaranteed-cache-pod", "host-a"
OF_POD = f"{POD}-rmd-workload-nginx1"
BY_HAND, REFUSED = "rmd-workload-guaranteed-cache", "too-much-cache"
_NAMESPACE = "default"


class Reserving:
    """The steps of the example, in their order."""

    def __init__(self, client: KubeClient, stage: Stage) -> None:
        self._client, self._stage = client, stage

    async def play(self) -> None:
        """Play every step. Raises DemoError at the first that does not hold."""
        await self._start_daemons()
        await self._run_a_pod()
        await self._reserve_by_hand()
        await self._ask_for_too_much()
        await self._ask_for_what_cannot_be()
        await self._clean_up()

    async def _start_daemons(self) -> None:
        await self._stage.title("An RmdConfig: daemons on the hosts, here stand-ins for RMD")
        await self._create(RMD_CONFIGS, self._stage.manifest("rmdconfig.yaml"))
        self._stage.command("kubectl get rmdnodestates")
        states = [f"rmd-node-state-{host}" for host in (HOST, "host-b")]
        for name in states:
            await self._until(RMD_NODE_STATES, name, "the daemon answers", lambda one: _is_true(one, "Connected"))
            self._stage.say(name)
        self._stage.command(f"kubectl get node {HOST} -o yaml | grep {L3_CACHE_WAYS}")
        node = await self._stage.until(
            f"{HOST} has cache ways", lambda: self._client.get(NODES, HOST), true=lambda one: _ways(one) > 0
        )
        self._stage.say(f"{L3_CACHE_WAYS}: {_ways(node)}")
        self._stage.holds("each host has 12 ways to give, 6 of each cache", _ways(node) == 12)

    async def _run_a_pod(self) -> None:
        await self._stage.title("A Pod with cores of its own asks for two cache ways and a P-state")
        await self._create(PODS, self._stage.manifest("rmd-pod.yaml"))
        found = await self._reserved(OF_POD)
        self._stage.command(f"kubectl get rmdworkload {OF_POD} -o yaml")
        spec, (state,) = found["spec"], found["status"]["workloadStates"].values()
        self._stage.say(f"coreIds: {spec['coreIds']}\nrdt: {spec['rdt']}\nplugins: {spec['plugins']}")
        self._stage.say(f"response: {state['response']}\ncosName: {state['cosName']}")
        self._stage.holds("the daemon has reserved them for the cores of the container", state["id"] != "")

    async def _reserve_by_hand(self) -> None:
        await self._stage.title("An admin reserves cache for two cores by hand")
        await self._create(RMD_WORKLOADS, self._stage.manifest("rmdworkload.yaml"))
        found = await self._reserved(BY_HAND)
        self._show_states(BY_HAND, found)
        state = found["status"]["workloadStates"][HOST]
        self._stage.holds("the daemon has reserved it", state["response"].startswith("Success"))

    async def _ask_for_too_much(self) -> None:
        await self._stage.title("The daemon refuses what it has not, and says so")
        text = self._stage.text("rmdworkload.yaml").replace(BY_HAND, REFUSED).replace('"6-7"', '"5"')
        await self._create(RMD_WORKLOADS, self._stage.typed(text))
        found = await self._until(
            RMD_WORKLOADS, REFUSED, "it is refused", lambda one: _ready(one).get("reason") == "NotReserved"
        )
        self._show_states(REFUSED, found)
        response = found["status"]["workloadStates"][HOST]["response"]
        self._stage.holds("it has the words of the daemon", "Not enough cache left" in response)

    async def _ask_for_what_cannot_be(self) -> None:
        await self._stage.title("What no daemon could give is refused when it is written")
        text = self._stage.text("rmd-pod.yaml").replace(POD, "shared-cores").replace("cpu: 2", "cpu: 500m")
        try:
            await self._client.create(PODS, self._stage.typed(text), namespace=_NAMESPACE)
        except ApiError as error:
            self._stage.say(f"Error from server: {str(error).split(': ', 2)[-1]}")
            self._stage.holds("it says what would be right", "want whole CPUs" in str(error))
        else:
            self._stage.holds("a Pod without cores of its own is refused", kept=False)

    async def _clean_up(self) -> None:
        await self._stage.title("Cleaning up")
        self._stage.command(f"kubectl delete pod {POD}")
        await self._delete(PODS, POD)
        await self._gone(RMD_WORKLOADS, OF_POD)
        self._stage.command(f"kubectl delete rmdworkloads {BY_HAND} {REFUSED}")
        for name in (BY_HAND, REFUSED):
            await self._delete(RMD_WORKLOADS, name)
            await self._gone(RMD_WORKLOADS, name)
        await self._until(
            RMD_NODE_STATES, f"rmd-node-state-{HOST}", "nothing is reserved", lambda one: not one["status"]["workloads"]
        )
        self._stage.holds("the daemons hold nothing any more", kept=True)
        self._stage.command("kubectl delete rmdconfig rmdconfig")
        await self._delete(RMD_CONFIGS, "rmdconfig")
        await self._gone(RMD_NODE_STATES, f"rmd-node-state-{HOST}")
        await self._gone(PODS, f"rmd-{HOST}")
        self._stage.holds("and they are gone", kept=True)

    def _show_states(self, name: str, found: JSON) -> None:
        self._stage.command(f"kubectl describe rmdworkload {name}")
        for node, state in found["status"]["workloadStates"].items():
            self._stage.say(f"{node}: {state['response']}")

    async def _create(self, resource: Resource, body: JSON) -> None:
        await self._client.create(resource, body, namespace=_NAMESPACE)
        self._stage.say(f"{resource.plural.removesuffix('s')}/{body['metadata']['name']} created")

    async def _delete(self, resource: Resource, name: str) -> None:
        await self._client.delete(resource, name, namespace=_NAMESPACE)

    async def _reserved(self, name: str) -> JSON:
        return await self._until(RMD_WORKLOADS, name, "it is reserved", lambda one: _is_true(one, READY))

    async def _until(self, resource: Resource, name: str, wish: str, true: Callable[[JSON], bool]) -> JSON:
        return await self._stage.until(
            f"{name}: {wish}", lambda: self._get(resource, name), true=lambda one: bool(one) and true(one)
        )

    async def _gone(self, resource: Resource, name: str) -> None:
        await self._stage.until(f"{name} is gone", lambda: self._get(resource, name), true=lambda one: not one)

    async def _get(self, resource: Resource, name: str) -> JSON:
        return await get_or_nothing(self._client, resource, name, namespace=_NAMESPACE)


def _ready(found: JSON) -> JSON:
    return condition(found.get("status") or {}, READY)


def _is_true(found: JSON, kind: str) -> bool:
    return is_true(found.get("status") or {}, kind)


def _ways(node: JSON) -> int:
    return int(((node.get("status") or {}).get("allocatable") or {}).get(L3_CACHE_WAYS, 0))
