"""The example of RMD: cache ways and P-states for a Pod, reservations by hand, and what a daemon and Berth refuse."""

from __future__ import annotations

from app.devtools.demo.kubectl import Kubectl
from app.devtools.demo.stage import Step, read_text
from app.errors import ApiError
from app.kube.conditions import condition, is_true
from app.kube.resources import NODES, PODS
from app.rmd.model import L3_CACHE_WAYS, READY, RMD_CONFIGS, RMD_NODE_STATES, RMD_WORKLOADS
from app.wire import JSON

POD, HOST = "guaranteed-cache-pod", "host-a"
OF_POD = f"{POD}-rmd-workload-nginx1"
BY_HAND, REFUSED = "rmd-workload-guaranteed-cache", "too-much-cache"
_STATES = ".status.workloadStates"
_WAYS = ".status.allocatable." + L3_CACHE_WAYS.replace(".", "\\.")


class Reserving:
    """The steps of the example, in their order."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl, self._stage = kubectl, kubectl.stage
        self.steps = (
            Step("An RmdConfig: daemons on the hosts, here stand-ins for RMD", self._start_daemons),
            Step("A Pod with cores of its own asks for two cache ways and a P-state", self._run_a_pod),
            Step("An admin reserves cache for two cores by hand", self._reserve_by_hand),
            Step("The daemon refuses what it has not, and says so", self._ask_for_too_much),
            Step("What no daemon could give is refused when it is written", self._ask_for_what_cannot_be),
            Step("Cleaning up", self._clean_up),
        )

    async def _start_daemons(self) -> None:
        await self._kubectl.create(read_text("rmdconfig.yaml"), RMD_CONFIGS)
        for host in (HOST, "host-b"):
            name = f"rmd-node-state-{host}"
            await self._kubectl.until(
                f"the daemon of {host} answers",
                RMD_NODE_STATES,
                name,
                lambda state: is_true(state.get("status") or {}, "Connected"),
            )
        await self._kubectl.get(RMD_NODE_STATES)
        await self._kubectl.wait(f"jsonpath='{{{_WAYS}}}'=12", NODES, HOST, lambda node: _ways(node) == "12")
        ways = await self._kubectl.field(NODES, HOST, _WAYS)
        self._stage.holds("each host has 12 ways to give, 6 of each cache", ways == "12")

    async def _run_a_pod(self) -> None:
        await self._kubectl.create(read_text("rmd-pod.yaml"), PODS)
        found = await self._reserved(OF_POD)
        await self._kubectl.field(RMD_WORKLOADS, OF_POD, ".spec")
        await self._kubectl.field(RMD_WORKLOADS, OF_POD, _STATES)
        (state,) = found["status"]["workloadStates"].values()
        self._stage.holds("the daemon has reserved them for the cores of the container", state["id"] != "")

    async def _reserve_by_hand(self) -> None:
        await self._kubectl.create(read_text("rmdworkload.yaml"), RMD_WORKLOADS)
        await self._reserved(BY_HAND)
        response = await self._kubectl.field(RMD_WORKLOADS, BY_HAND, f"{_STATES}.{HOST}.response")
        self._stage.holds("the daemon has reserved it", response.startswith("Success"))

    async def _ask_for_too_much(self) -> None:
        text = read_text("rmdworkload.yaml").replace(BY_HAND, REFUSED).replace('"6-7"', '"5"')
        await self._kubectl.create(text, RMD_WORKLOADS)
        await self._kubectl.wait(
            f"condition={READY}=false", RMD_WORKLOADS, REFUSED, lambda found: _ready(found) == "NotReserved"
        )
        response = await self._kubectl.field(RMD_WORKLOADS, REFUSED, f"{_STATES}.{HOST}.response")
        self._stage.holds("it has the words of the daemon", "Not enough cache left" in response)

    async def _ask_for_what_cannot_be(self) -> None:
        text = read_text("rmd-pod.yaml").replace(POD, "shared-cores").replace("cpu: 2", "cpu: 500m")
        try:
            await self._kubectl.create(text, PODS)
        except ApiError as error:
            self._stage.holds("it says what would be right", "want whole CPUs" in str(error))
        else:
            self._stage.holds("a Pod without cores of its own is refused", kept=False)

    async def _clean_up(self) -> None:
        await self._kubectl.delete(PODS, POD)
        for name in (OF_POD, BY_HAND, REFUSED):
            await self._kubectl.delete(RMD_WORKLOADS, name)
        await self._kubectl.until(
            "nothing is reserved",
            RMD_NODE_STATES,
            f"rmd-node-state-{HOST}",
            lambda state: not state or not state["status"].get("workloads"),
        )
        self._stage.holds("the daemons hold nothing any more", kept=True)
        await self._kubectl.delete(RMD_CONFIGS, "rmdconfig")
        for resource, name in ((RMD_NODE_STATES, f"rmd-node-state-{HOST}"), (PODS, f"rmd-{HOST}")):
            await self._kubectl.until(f"{name} is gone", resource, name, lambda found: not found)
        self._stage.holds("and they are gone", kept=True)

    async def _reserved(self, name: str) -> JSON:
        return await self._kubectl.wait(
            f"condition={READY}", RMD_WORKLOADS, name, lambda found: is_true(found.get("status") or {}, READY)
        )


def _ready(found: JSON) -> str:
    return str(condition(found.get("status") or {}, READY).get("reason") or "")


def _ways(node: JSON) -> str:
    return str(((node.get("status") or {}).get("allocatable") or {}).get(L3_CACHE_WAYS) or "")
