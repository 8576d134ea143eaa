"""An infra cluster whose storage is restored from an earlier copy: what the controller believed of its writes is void."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.errors import ApiError
from app.kube.credentials import load_credentials
from app.kube.kit import Kit
from app.kube.resources import PODS, Resource
from app.kube.transport import Session
from app.workloads.controller.caches import Listeners, WorkloadCaches
from app.workloads.controller.stored import stored_companion
from app.workloads.controller.writing import QuietTime, RuleStatuses, WorkloadStatuses
from app.workloads.model import COMPANION, RULE, RULE_NAME, SPEC_HASH, TENANT_RULES, WORKLOAD, WORKLOADS
from app.workloads.settings import DEFAULT_QUOTA
from tests.support.counting import Counted
from tests.support.kits import offline_kit
from tests.support.running import running
from tests.support.waiting import eventually
from tests.support.workloads import T1, CountingClient, Infra

JSON = dict[str, Any]


class Restoring(CountingClient):
    """The cluster becomes what it was before a rule's status said that all is well, before we have the answer."""

    infra: Infra
    restored = False
    pods_are_refused = False
    lists_of_pods = 0

    async def patch(self, resource: Resource, name: str, body: Any, **more: Any) -> JSON:
        snapshot = self.infra.cluster.storage.snapshot()
        answer = await super().patch(resource, name, body, **more)
        if resource is TENANT_RULES and body["status"]["created"] == 1 and not self.restored:
            self.restored = True
            await restore(self.infra, snapshot)
        return answer

    async def list_page(self, resource: Resource, **options: Any) -> Any:
        if resource is PODS:
            self.lists_of_pods += 1
            if self.pods_are_refused:
                raise ApiError("pods: no answer in time", status=504)
        return await super().list_page(resource, **options)


async def restore(infra: Infra, snapshot: Any) -> None:
    await infra.cluster.stop()
    infra.cluster.storage.restore(snapshot)
    infra.cluster.storage.reopen()
    await infra.cluster.start()


async def restoring(infra: Infra) -> Restoring:
    client = Restoring(Session(await load_credentials(kubeconfig=str(infra.kubeconfig))))
    client.infra = infra
    return client


async def test_a_status_that_was_lost_is_written_again(infra: Infra) -> None:
    """The answer says that it is there, the cache never shows it, and no event says that it is not."""
    await infra.rule("r")
    await infra.workload("u")
    client = await restoring(infra)
    async with infra.controller(client, status_interval=0.05):
        await eventually(lambda: client.restored)
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("created") == 1)
    await client.close()


async def test_no_status_is_written_while_a_cache_is_in_doubt(infra: Infra) -> None:
    """The rule is known anew, its companions are not: there is none, and `1 of 1 companions exist` would be a lie."""
    await infra.rule("r")
    await infra.workload("u")
    snapshot = infra.cluster.storage.snapshot()
    client = await restoring(infra)
    client.restored = True
    async with infra.controller(client, status_interval=0.05):
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("created") == 1)
        client.pods_are_refused = True
        asked = client.lists_of_pods
        await restore(infra, snapshot)
        await infra.rule("r", image="nginx:2")
        await eventually(lambda: client.lists_of_pods >= asked + 3)
        assert not infra.status(TENANT_RULES, "r")
        assert not infra.status(WORKLOADS, "workload-u")
        client.pods_are_refused = False
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("created") == 1)
        assert infra.pods()["r-u"]["spec"]["containers"][0]["image"] == "nginx:2"
    await client.close()


class Doubtful(QuietTime):
    """A cache comes into doubt while a status waits for its turn."""

    def __init__(self, caches: WorkloadCaches, *, turn: int = 1) -> None:
        super().__init__(lambda _: 0)
        self.caches, self.turn, self.turns = caches, turn, 0

    async def come(self, namespace: str) -> None:
        self.turns += 1
        if self.turns == self.turn:
            self.caches.companions.suspect()


async def test_a_doubt_that_comes_while_a_status_waits_for_its_turn_is_waited_for(infra: Infra) -> None:
    await infra.rule("r")
    await infra.workload("u")
    for kind in ("rule", "workload"):
        client = await infra.client()
        kit = Kit(client)
        caches = WorkloadCaches(kit, DEFAULT_QUOTA)
        quiet = Doubtful(caches)
        rules = RuleStatuses(kit, caches, quiet, interval=0.0)
        workloads = WorkloadStatuses(kit, caches, quiet, workers=1)
        caches.listeners = Listeners(lambda _: None, workloads.controller.enqueue, rules.changed)
        caches.tenant_rules.replace_all(infra.stored(TENANT_RULES))
        caches.workloads.replace_all(infra.stored(WORKLOADS))
        for store in caches.stores:
            store.mark_synced()
        written: list[bool] = []

        async def before(verb: str, _name: str, caches: WorkloadCaches = caches, written: list[bool] = written) -> None:
            written.append(caches.in_doubt)

        client.before = before
        status = rules if kind == "rule" else workloads
        if kind == "workload":
            workloads.controller.enqueue((T1, "workload-u"))
        async with running(status.controller.run()):
            await eventually(lambda quiet=quiet: quiet.turns == 1)
            caches.companions.mark_synced()
            await eventually(lambda written=written: bool(written))
        assert written[0] is False
        await client.close()


async def test_a_look_that_a_doubt_has_put_off_is_not_dropped_when_the_watch_shows_an_earlier_write(
    infra: Infra,
) -> None:
    await infra.rule("r")
    await infra.workload("u")
    key, client = (T1, "workload-u"), await infra.client()
    kit = Kit(client)
    caches = WorkloadCaches(kit, DEFAULT_QUOTA)
    quiet = Doubtful(caches, turn=2)
    workloads = WorkloadStatuses(kit, caches, quiet, workers=1)
    caches.listeners = Listeners(workload_status=workloads.controller.enqueue, workload_status_shown=workloads.shown)
    caches.tenant_rules.replace_all(infra.stored(TENANT_RULES))
    caches.workloads.replace_all(infra.stored(WORKLOADS))
    for store in caches.stores:
        store.mark_synced()
    looked = Counted("reconcile_total", "result", controller="workload-status")
    async with running(workloads.controller.run()):
        workloads.controller.enqueue(key)
        await eventually(lambda: looked().total() == 1)
        assert infra.status(WORKLOADS, "workload-u")
        workloads.controller.enqueue(key)
        await eventually(lambda: looked().total() == 2)
        caches.workloads.upsert(infra.stored(WORKLOADS)[0])
        caches.companions.mark_synced()
        await eventually(lambda: quiet.turns == 3)
    await client.close()


def pod(*, spec_hash: str, version: int) -> JSON:
    annotations = {RULE_NAME: "r", RULE: f"{T1}/r", WORKLOAD: f"{T1}/u", SPEC_HASH: spec_hash}
    metadata = {"namespace": T1, "name": "r-u", "uid": "1", "resourceVersion": str(version)}
    return {"metadata": {**metadata, "labels": {COMPANION: "tenant"}, "annotations": annotations}, "spec": {}}


def test_the_answer_to_a_write_is_not_taken_for_another_history() -> None:
    """The same version may be another state there; and what was written may be gone."""
    caches = WorkloadCaches(offline_kit(), DEFAULT_QUOTA)
    for store in caches.stores:
        store.mark_synced()
    ours = pod(spec_hash="a", version=7)
    expected = stored_companion(ours)
    assert expected is not None
    caches.written.wrote(expected.key, expected)
    caches.companions.suspect()
    caches.companions.replace_all([pod(spec_hash="b", version=7)])
    shown = caches.companions.get(T1, "r-u")
    assert shown is not None
    assert shown.spec_hash == "b"
    caches.written.wrote(expected.key, replace(expected, version=9))
    caches.companions.mark_synced()
    assert caches.written.written((T1, "r-u")) is None


async def test_what_was_sent_is_not_believed_in_another_history(infra: Infra) -> None:
    """A status that was restored may be the one that was seen before ours was written: it must be written again."""
    await infra.workload("u1", node="not a label")
    await infra.rule("r", policy="SameNode")
    client = await infra.client()
    kit = Kit(client)
    caches, quiet = WorkloadCaches(kit, DEFAULT_QUOTA), QuietTime(lambda _: 0)
    rules = RuleStatuses(kit, caches, quiet, interval=0.0)
    workloads = WorkloadStatuses(kit, caches, quiet, workers=1)
    for store in caches.stores:
        store.mark_synced()
    caches.tenant_rules.replace_all(infra.stored(TENANT_RULES))
    caches.workloads.replace_all(infra.stored(WORKLOADS))
    caches.listeners = Listeners(lambda _: None, workloads.controller.enqueue, rules.changed)

    async def look() -> tuple[int, int]:
        """How often each status has been written after another look; no watch shows it."""
        await workloads.controller.reconcile((T1, "workload-u1"))
        await rules.controller.reconcile((T1, "r"))
        return client.counts["patchstatus workloads"], client.counts["patchstatus tenantworkloadrules"]

    assert [await look(), await look()] == [(1, 1), (1, 1)]
    caches.tenant_rules.suspect()
    caches.tenant_rules.mark_synced()
    await eventually(look, lambda written: written == (2, 2))
    assert await look() == (2, 2)
    await client.close()
