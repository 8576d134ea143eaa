"""The example of AppWrapper: two that do not fit into a queue together, and one that loses its Pod and recovers."""

from __future__ import annotations

from app.appwrappers.kueue.model import CLUSTER_QUEUES
from app.appwrappers.model import APP_WRAPPERS
from app.devtools.demo.kubectl import Kubectl
from app.devtools.demo.stage import Step, get_or_nothing, read_text
from app.kube.resources import PODS
from app.wire import JSON

FIRST, SECOND, THIRD = "sample-1", "sample-2", "sample-3"
_CPUS = '.spec.resourceGroups[0].flavors[0].resources[?(@.name=="cpu")].nominalQuota'


class Wrapping:
    """The steps of the example, in their order."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl, self._client, self._stage = kubectl, kubectl.client, kubectl.stage
        self.steps = (
            Step("A queue with 4 CPUs; a stand-in for Kueue gives its quota", self._show_quota),
            Step("Two AppWrappers with a Pod of 3 CPUs each", self._create_two),
            Step("The first is done, and makes room for the second", self._run_one_after_the_other),
            Step("One fails, is reset and succeeds: its Pod is deleted while it runs", self._lose_a_pod),
            Step("Cleaning up", self._clean_up),
        )

    async def _show_quota(self) -> None:
        self._stage.holds(
            "it has 4 CPUs", await self._kubectl.field(CLUSTER_QUEUES, "cluster-queue", _CPUS) in ("4", '"4"')
        )

    async def _create_two(self) -> None:
        created = await self._create(FIRST)
        self._stage.holds("it waits for its queue", created["spec"].get("suspend") is True)
        await self._reaches(FIRST, "Running")
        await self._create(SECOND)
        await self._reaches(SECOND, "Suspended")
        await self._kubectl.get(APP_WRAPPERS)
        phases = [_phase(await self._get(name)) for name in (FIRST, SECOND)]
        self._stage.holds("the first runs, the second waits", phases == ["Running", "Suspended"])

    async def _run_one_after_the_other(self) -> None:
        await self._shown_to_reach(FIRST, "Succeeded")
        await self._reaches(SECOND, "Running")
        await self._shown_to_reach(SECOND, "Succeeded")
        await self._kubectl.get(APP_WRAPPERS)
        self._stage.holds("both have succeeded, one after the other", kept=True)

    async def _lose_a_pod(self) -> None:
        await self._create(THIRD)
        await self._shown_to_reach(THIRD, "Running")
        await self._kubectl.delete(PODS, THIRD, wait=False)
        await self._reaches(THIRD, "Resetting")
        await self._kubectl.field(APP_WRAPPERS, THIRD, '.status.conditions[?(@.type=="Unhealthy")].message')
        await self._shown_to_reach(THIRD, "Succeeded")
        resets = await self._kubectl.field(APP_WRAPPERS, THIRD, ".status.resettingCount")
        self._stage.holds("it has succeeded after 1 reset", resets == "1")

    async def _clean_up(self) -> None:
        await self._kubectl.delete(APP_WRAPPERS, FIRST, SECOND, THIRD)
        left = [await get_or_nothing(self._client, PODS, name, namespace="default") for name in (FIRST, SECOND, THIRD)]
        self._stage.holds("nothing is left", not any(left))

    async def _create(self, name: str) -> JSON:
        (created,) = await self._kubectl.create(read_text("appwrapper.yaml").replace(FIRST, name), APP_WRAPPERS)
        return created

    async def _reaches(self, name: str, phase: str) -> None:
        await self._kubectl.until(
            f"AppWrapper {name} is {phase}", APP_WRAPPERS, name, lambda found: _phase(found) == phase
        )

    async def _shown_to_reach(self, name: str, phase: str) -> None:
        condition = f"jsonpath='{{.status.phase}}'={phase}"
        await self._kubectl.wait(condition, APP_WRAPPERS, name, lambda found: _phase(found) == phase)

    async def _get(self, name: str) -> JSON:
        return await get_or_nothing(self._client, APP_WRAPPERS, name, namespace="default")


def _phase(found: JSON) -> str:
    return str((found.get("status") or {}).get("phase") or "")
