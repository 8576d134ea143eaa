"""The example of AppWrapper: two that do not fit into a queue together, and one that loses its Pod and recovers."""

from __future__ import annotations

from importlib import resources

from app.appwrappers.kueue.model import CLUSTER_QUEUES
from app.appwrappers.model import APP_WRAPPERS
from app.devtools.demo.stage import Stage, get_or_nothing
from app.kube.client import KubeClient
from app.kube.resources import PODS
from app.wire import JSON

FIRST, SECOND, THIRD = "sample-1", "sample-2", "sample-3"
MANIFEST = resources.files("app.devtools.demo") / "manifests" / "appwrapper.yaml"
_CPUS = 4


class Wrapping:
    """The steps of the example, in their order."""

    def __init__(self, client: KubeClient, stage: Stage) -> None:
        self._client, self._stage = client, stage

    async def play(self) -> None:
        """Play every step. Raises DemoError at the first that does not hold."""
        await self._show_quota()
        await self._create_two()
        await self._run_one_after_the_other()
        await self._lose_a_pod()
        await self._clean_up()

    async def _show_quota(self) -> None:
        await self._stage.title("A queue with 4 CPUs; a stand-in for Kueue gives its quota")
        self._stage.command("kubectl get clusterqueue cluster-queue -o yaml | grep -A3 cpu")
        queue = await self._client.get(CLUSTER_QUEUES, "cluster-queue")
        (found,) = [
            one["nominalQuota"]
            for one in queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
            if one["name"] == "cpu"
        ]
        self._stage.say(f"name: cpu\nnominalQuota: {found}")
        self._stage.holds("it has 4 CPUs", found == _CPUS)

    async def _create_two(self) -> None:
        await self._stage.title("Two AppWrappers with a Pod of 3 CPUs each")
        created = await self._create(MANIFEST.read_text())
        self._stage.holds("it waits for its queue", created["spec"].get("suspend") is True)
        await self._reaches(FIRST, "Running")
        await self._create(MANIFEST.read_text().replace(FIRST, SECOND))
        await self._reaches(SECOND, "Suspended")
        self._stage.command("kubectl get appwrappers")
        rows = [(name, self._phase(await self._get(name))) for name in (FIRST, SECOND)]
        self._stage.table(("NAME", "STATUS"), *rows)
        self._stage.holds("the first runs, the second waits", [phase for _, phase in rows] == ["Running", "Suspended"])

    async def _run_one_after_the_other(self) -> None:
        await self._stage.title("The first is done, and makes room for the second")
        self._stage.command("kubectl get appwrappers --watch")
        for name, phase in ((FIRST, "Succeeded"), (SECOND, "Running"), (SECOND, "Succeeded")):
            await self._reaches(name, phase)
            self._stage.say(f"{name}   {phase}")
        self._stage.holds("both have succeeded, one after the other", True)

    async def _lose_a_pod(self) -> None:
        await self._stage.title("One fails, is reset and succeeds: its Pod is deleted while it runs")
        await self._create(MANIFEST.read_text().replace(FIRST, THIRD))
        await self._reaches(THIRD, "Running")
        self._stage.command(f"kubectl delete pod {THIRD}")
        await self._client.delete(PODS, THIRD, namespace="default")
        self._stage.command(f"kubectl get appwrapper {THIRD} --watch")
        await self._reaches(THIRD, "Resetting")
        found = await self._get(THIRD)
        unhealthy = next(one for one in found["status"]["conditions"] if one["type"] == "Unhealthy")
        self._stage.say(f"{THIRD}   Resetting   {unhealthy['reason']}: {unhealthy['message']}")
        for phase in ("Running", "Succeeded"):
            await self._reaches(THIRD, phase)
            self._stage.say(f"{THIRD}   {phase}")
        resets = (await self._get(THIRD))["status"].get("resettingCount")
        self._stage.holds("it has succeeded after 1 reset", resets == 1)

    async def _clean_up(self) -> None:
        await self._stage.title("Cleaning up")
        self._stage.command(f"kubectl delete appwrappers {FIRST} {SECOND} {THIRD}")
        for name in (FIRST, SECOND, THIRD):
            await self._client.delete(APP_WRAPPERS, name, namespace="default")
            await self._gone(name)
        left = [await get_or_nothing(self._client, PODS, name, namespace="default") for name in (FIRST, SECOND, THIRD)]
        self._stage.holds("nothing is left", not any(left))

    async def _gone(self, name: str) -> None:
        await self._stage.until(f"{name} is gone", lambda: self._get(name), true=lambda found: not found)

    async def _create(self, text: str) -> JSON:
        body = self._stage.typed(text)
        created = await self._client.create(APP_WRAPPERS, body, namespace="default")
        self._stage.say(f"appwrapper.workload.codeflare.dev/{created['metadata']['name']} created")
        return created

    async def _reaches(self, name: str, phase: str) -> None:
        await self._stage.until(
            f"AppWrapper {name} is {phase}", lambda: self._get(name), true=lambda found: self._phase(found) == phase
        )

    async def _get(self, name: str) -> JSON:
        return await get_or_nothing(self._client, APP_WRAPPERS, name, namespace="default")

    @staticmethod
    def _phase(found: JSON) -> str:
        return str((found.get("status") or {}).get("phase") or "")
