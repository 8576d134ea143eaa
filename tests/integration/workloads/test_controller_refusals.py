"""What stands in the controller's way: foreign Pods, refusals, broken rules, lost nodes. Nothing is forced."""

from __future__ import annotations

import asyncio

import pytest

from app.errors import ApiError
from app.kube.resources import NAMESPACES, PODS, RESOURCE_QUOTAS, Resource
from app.placement.model import PlacementOptions, parse_policy
from app.workloads.controller.statuses import GONE_PAUSE
from app.workloads.model import COMPANION, RULE, TENANT_RULES, WORKLOAD, WORKLOADS
from tests.support.waiting import eventually
from tests.support.workloads import SYSTEM, T1, T2, Infra, rule

PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
SPEC = rule("r")["spec"]["template"]["spec"]


def entry(infra: Infra, name: str = "workload-u1", at: int = 0) -> dict:
    rules = infra.status(WORKLOADS, name).get("rules") or {}
    return rules["tenant"][at]["status"] if len(rules.get("tenant") or ()) > at else {}


async def pod(infra: Infra, name: str, namespace: str = T1, **metadata: object) -> str:
    body = {"metadata": {"name": name, "namespace": namespace, **metadata}, "spec": SPEC}
    return str((await infra.admin.create(PODS, body, namespace=namespace))["metadata"]["uid"])


async def test_pod_of_somebody_else_with_the_name_is_reported_and_left_alone(infra: Infra) -> None:
    uid = await pod(infra, "r-u1")
    await infra.workload("u1")
    await infra.rule("r")
    async with infra.controller() as client:
        await eventually(lambda: entry(infra).get("reason") == "NameTaken")
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("result") == "error")
        assert "objRef" not in entry(infra)
        await infra.remove(TENANT_RULES, "r")
        await eventually(lambda: not (infra.status(WORKLOADS, "workload-u1").get("rules") or {}).get("tenant"))
        assert infra.uid("r-u1") == uid
        assert client.counts["delete pods"] == client.counts["patch pods"] == 0


async def test_name_is_taken_over_once_the_other_pod_is_gone(infra: Infra) -> None:
    uid = await pod(infra, "r-u1")
    await infra.workload("u1")
    await infra.rule("r")
    async with infra.controller():
        await eventually(lambda: entry(infra).get("reason") == "NameTaken")
        await infra.admin.delete(PODS, "r-u1", namespace=T1)
        await eventually(lambda: infra.pods() and infra.uid("r-u1") != uid)
        await eventually(lambda: entry(infra).get("result") == "success")


async def test_pod_that_goes_before_we_can_look_at_it_is_no_fault_of_the_namespace(infra: Infra) -> None:
    """Its name was taken when we created, and free when we asked by whom."""
    uid = await pod(infra, "r-u1")
    client = await infra.client()
    get = client.get

    async def too_late(resource, name, **more):
        await infra.admin.delete(resource, name, namespace=T1)
        client.get = get
        return await get(resource, name, **more)

    client.get = too_late  # type: ignore[method-assign]  # the real one, after a deletion
    await infra.rule("r")
    async with infra.controller(client):
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("result") == "success")
        await infra.workload("u1")
        # Long before the pause after a missing namespace has passed.
        await eventually(lambda: infra.pods() and infra.uid("r-u1") != uid, seconds=GONE_PAUSE - 1)
    await client.close()


async def test_two_companions_that_would_have_one_name_leave_each_other_alone(infra: Infra) -> None:
    await infra.workload("c")
    await infra.workload("b-c")
    await infra.rule("a-b", match=("metadata.id", ["c"]))
    await infra.rule("a", match=("metadata.id", ["b-c"]))

    def reasons() -> list[str]:
        return sorted(entry(infra, f"workload-{id_}").get("reason", "") for id_ in ("c", "b-c"))

    async with infra.controller(resync=0.1) as client:
        await eventually(lambda: reasons() == ["", "NameTaken"])
        await eventually(infra.pods)
        uid = infra.uid("a-b-c")
        await asyncio.sleep(0.3)
        assert infra.uid("a-b-c") == uid
        assert client.counts["delete pods"] == client.counts["patch pods"] == 0


async def test_pods_whose_marks_cannot_be_read_are_left_alone(infra: Infra) -> None:
    label = {COMPANION: "tenant"}
    marks = {RULE: f"{T1}/r", WORKLOAD: f"{T1}/gone"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "x", "controller": True}
    await pod(infra, "bare", labels=label)
    await pod(infra, "half", labels=label, annotations={RULE: f"{T1}/r"})
    await pod(infra, "elsewhere", SYSTEM, labels=label, annotations=marks)
    other = {RULE: "tenant-tenant2/r", WORKLOAD: f"{T1}/gone"}
    await pod(infra, "contrary", labels=label, annotations=other)
    await pod(infra, "owned", labels=label, annotations=marks, ownerReferences=[owner])
    await pod(infra, "unlabeled", annotations=marks)
    await pod(infra, "orphan", labels=label, annotations=marks)
    async with infra.controller(resync=0.1):
        await eventually(lambda: "orphan" not in infra.pods())
        await asyncio.sleep(0.3)
    assert set(infra.pods()) == {"bare", "half", "elsewhere", "contrary", "owned", "unlabeled"}


async def test_denial_is_reported_and_tried_again_with_growing_pauses(infra: Infra) -> None:
    await infra.workload("u1")
    await infra.rule("r", spec={"priorityClassName": "later"})
    await infra.rule("fine")
    placement = PlacementOptions(policy=parse_policy(["priorityClass=later"]))
    async with infra.controller(placement=placement) as client:
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("result") == "error")
        await eventually(lambda: entry(infra, at=1).get("reason") == "Denied")
        assert "PriorityClass" in infra.status(TENANT_RULES, "r")["message"]
        ready = infra.status(TENANT_RULES, "r")["conditions"][0]
        assert (ready["status"], ready["reason"]) == ("False", "Denied")
        assert set(infra.pods()) == {"fine-u1"}
        assert client.counts["create pods"] <= 4
        await infra.admin.create(
            PRIORITY_CLASSES,
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "later"}, "value": 1},
        )
        await eventually(lambda: "r-u1" in infra.pods())
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("result") == "success")
        made = {"apiVersion": "v1", "kind": "Pod", "name": "r-u1", "namespace": T1}
        await eventually(lambda: entry(infra, at=1) == {"objRef": made, "result": "success", "message": ""})


async def test_workloads_of_one_tenant_do_not_hold_up_those_of_another(infra: Infra) -> None:
    """Both are there before the controller starts, with one worker: the second to be made is the other tenant's."""
    await infra.rule("r")
    await infra.rule("r", namespace=T2)
    for number in range(30):
        await infra.workload(f"u{number}")
    await infra.workload("other", namespace=T2)
    made: list[str] = []
    client = await infra.client()

    async def before(verb: str, name: str) -> None:
        if verb == "create":
            made.append(name)

    client.before = before
    async with infra.controller(client, workers=1):
        await eventually(lambda: len(made) == 31)
    assert made.index("r-other") <= 2
    await client.close()


async def test_quota_is_named_as_the_reason(infra: Infra) -> None:
    await infra.workload("u1")
    await infra.rule("r")
    client = await infra.client()

    async def over_quota(verb: str, _: str) -> None:
        if verb == "create":
            text = "POST /api: HTTP 403: pods is forbidden: exceeded quota: q, requested: pods=1, used: pods=1"
            raise ApiError(text, status=403, reason="Forbidden")

    client.before = over_quota
    async with infra.controller(client):
        await eventually(lambda: entry(infra).get("reason") == "QuotaExceeded")
        client.before = None
        await eventually(lambda: entry(infra).get("result") == "success")
    await client.close()


async def test_a_companion_beyond_a_quota_says_so_and_comes_when_there_is_room(infra: Infra) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/pods": "1"}}}
    await infra.admin.create(RESOURCE_QUOTAS, quota, namespace=T1)
    await pod(infra, "other", T1)
    await infra.workload("u1")
    await infra.rule("r")
    async with infra.controller() as client:
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("result") == "error")
        await eventually(lambda: entry(infra).get("reason") == "QuotaExceeded")
        text = "exceeded quota: q, requested: count/pods=1, used: count/pods=1, limited: count/pods=1"
        assert text in infra.status(TENANT_RULES, "r")["message"]
        assert client.counts["create pods"] <= 4
        await infra.admin.delete(PODS, "other", namespace=T1)
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("result") == "success")


@pytest.mark.simulated
async def test_pauses_after_refusals_by_a_quota_grow(infra: Infra) -> None:
    """By the clock of the loop. Pauses that grow from a few milliseconds are below 12 seconds together."""
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/pods": "0"}}}
    await infra.admin.create(RESOURCE_QUOTAS, quota, namespace=T1)
    await infra.workload("u1")
    await infra.rule("r")
    clock, tries, enough = asyncio.get_running_loop().time, list[float](), asyncio.Event()
    client = await infra.client()

    async def before(verb: str, _: str) -> None:
        if verb == "create":
            tries.append(clock())
        if len(tries) > 10:
            enough.set()

    client.before = before
    async with infra.controller(client, resync=None):
        await enough.wait()
    assert tries[10] - tries[0] > 12.0
    await client.close()


async def test_namespace_on_its_way_out_is_no_hot_loop(infra: Infra) -> None:
    await infra.workload("u1")
    await infra.rule("r")
    await infra.admin.delete(NAMESPACES, T1)
    async with infra.controller() as client:
        await eventually(lambda: entry(infra).get("reason") == "NamespaceTerminating")
        await asyncio.sleep(1.0)
        assert client.counts["create pods"] <= 2
        await infra.remove(WORKLOADS, "workload-u1")
        await asyncio.sleep(0.2)


async def test_broken_rule_leaves_its_companions_until_their_workload_ends(infra: Infra) -> None:
    await infra.workload("u1")
    await infra.workload("u2")
    await infra.rule("r")
    async with infra.controller():
        await eventually(lambda: len(infra.pods()) == 2)
        uid = infra.uid("r-u1")
    await infra.rule("r", match=("not a key (", ["x"]))
    async with infra.controller():
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("result") == "error")
        await eventually(lambda: entry(infra).get("reason") == "InvalidRule")
        assert "key" in infra.status(TENANT_RULES, "r")["message"]
        assert entry(infra)["objRef"]["name"] == "r-u1"
        await infra.remove(WORKLOADS, "workload-u2")
        await eventually(lambda: set(infra.pods()) == {"r-u1"})
        assert infra.uid("r-u1") == uid
        await infra.rule("r")
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("result") == "success")
        await eventually(lambda: entry(infra).get("result") == "success")
        assert infra.uid("r-u1") == uid
        await infra.rule("r", match=("not a key (", ["x"]))
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("result") == "error")
        await infra.remove(TENANT_RULES, "r")
        await eventually(lambda: not infra.pods())


async def test_unusable_template_is_an_error_and_the_running_pod_stays(infra: Infra) -> None:
    await infra.workload("u1")
    await infra.rule("r")
    async with infra.controller():
        await eventually(infra.pods)
        uid = infra.uid("r-u1")
        await infra.rule("r", spec={"hostNetwork": True})
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("result") == "error")
        await eventually(lambda: entry(infra).get("reason") == "InvalidTemplate")
        assert infra.uid("r-u1") == uid


async def spoil(infra: Infra) -> None:
    """Make the Workload of u1 what the controller cannot use."""
    deep: dict = {}
    for _ in range(40):
        deep = {"d": deep}
    change = [{"op": "add", "path": "/spec/state/extra/deep", "value": deep}]
    await infra.admin.patch(WORKLOADS, "workload-u1", change, patch_type="json", namespace=T1)


async def test_unusable_workload_keeps_its_companions(infra: Infra) -> None:
    await infra.workload("u1")
    await infra.rule("r")
    async with infra.controller():
        await eventually(infra.pods)
    await spoil(infra)
    async with infra.controller(resync=0.1):
        await eventually(lambda: entry(infra).get("reason") == "InvalidWorkload")
        assert "nested too deeply" in entry(infra)["message"]
        assert entry(infra)["objRef"]["name"] == "r-u1"
        await eventually(lambda: "InvalidWorkload" in infra.status(TENANT_RULES, "r").get("message", ""))
        assert set(infra.pods()) == {"r-u1"}
        await infra.workload("u1")
        await eventually(lambda: entry(infra).get("result") == "success")
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("result") == "success")


async def test_unusable_workload_loses_what_was_found_of_it_before(infra: Infra) -> None:
    await infra.workload("u1", node="not a label")
    await infra.rule("r", policy="SameNode")
    async with infra.controller():
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("result") == "error")
        await spoil(infra)
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("result") == "success")


async def test_companion_of_an_unusable_workload_ends_with_its_rule(infra: Infra) -> None:
    await infra.workload("u1")
    await infra.rule("r")
    async with infra.controller():
        await eventually(infra.pods)
        await spoil(infra)
        await eventually(lambda: entry(infra).get("reason") == "InvalidWorkload")
        await infra.remove(TENANT_RULES, "r")
        await eventually(lambda: not infra.pods())


async def test_lost_companion_is_made_anew_at_once_and_then_after_a_pause(infra: Infra) -> None:
    await infra.workload("u1")
    await infra.rule("r")
    async with infra.controller(restart_pause=2.0) as client:
        await eventually(infra.pods)
        for creations in (2, 3):
            uid = infra.uid("r-u1")
            await infra.set_status("r-u1", {"phase": "Failed", "reason": "Evicted"})
            if creations == 3:
                await asyncio.sleep(0.3)
                assert infra.uid("r-u1") == uid
                # Out of patience or not: a resync must not shorten the pause, and nothing else is created.
                assert client.counts["create pods"] == 2
            await eventually(lambda uid=uid: infra.pods() and infra.uid("r-u1") != uid)
            assert client.counts["create pods"] == creations


async def test_companion_that_finished_by_itself_is_left(infra: Infra) -> None:
    await infra.workload("u1")
    await infra.rule("r", spec={"restartPolicy": "Never"})
    async with infra.controller(resync=0.1):
        await eventually(infra.pods)
        uid = infra.uid("r-u1")
        for phase in ("Failed", "Succeeded"):
            await infra.set_status("r-u1", {"phase": phase})
            await asyncio.sleep(0.3)
            assert infra.uid("r-u1") == uid
        await infra.set_status("r-u1", {"phase": "Failed", "reason": "Evicted"})
        await eventually(lambda: infra.pods() and infra.uid("r-u1") != uid)


async def test_annotations_over_the_limit_are_an_error_until_they_fit(infra: Infra) -> None:
    await infra.workload("u1", big="x" * 200_000)
    await infra.rule("r", inject={"all": "@", "again": "@"})
    async with infra.controller():
        await eventually(lambda: entry(infra).get("reason") == "AnnotationTooLarge")
        assert not infra.pods()
        await infra.workload("u1", big="x" * 1000)
        await eventually(lambda: entry(infra).get("result") == "success")
        uid = infra.uid("r-u1")
        await infra.workload("u1", big="x" * 200_000)
        await eventually(lambda: entry(infra).get("reason") == "AnnotationTooLarge")
        assert entry(infra)["objRef"]["name"] == "r-u1"
        assert infra.uid("r-u1") == uid
