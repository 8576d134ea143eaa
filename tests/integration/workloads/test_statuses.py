"""Statuses: their words, when they are written, and how rarely."""

from __future__ import annotations

import asyncio
import time

import pytest

from app.kube.kit import Kit
from app.kube.own_writes import OwnWrites
from app.text import MESSAGE
from app.workloads.companions.marks import Companion
from app.workloads.controller.caches import WorkloadCaches
from app.workloads.controller.statuses import Finding, Findings, rule_status, timed, workload_rules
from app.workloads.controller.writing import QuietTime, RuleStatuses, WorkloadStatuses
from app.workloads.model import ADMIN_RULES, TENANT_RULES, WORKLOADS, Problem, Waiting
from app.workloads.settings import DEFAULT_QUOTA
from tests.support.counting import Counted
from tests.support.waiting import PATIENCE, eventually
from tests.support.workloads import SYSTEM, T1, T2, Infra

T, A, W = (T1, "r"), (SYSTEM, "a"), (T1, "workload-u1")


def companion(rule: tuple[str, str], *, ending: bool = False) -> Companion:
    return Companion(rule[0], f"{rule[1]}-u1", "uid", rule, W, "", b"", (), ending=ending)


def test_workload_status_has_the_shape_of_the_api() -> None:
    rules = workload_rules([("tenant", T)], [companion(T)], {})
    ref = {"apiVersion": "v1", "kind": "Pod", "name": "r-u1", "namespace": T1}
    assert rules["tenant"] == [{"id": f"{T1}/r", "status": {"objRef": ref, "result": "success", "message": ""}}]
    assert next(iter(rules["tenant"][0]["status"])) == "objRef"
    assert rules["admin"] is None


def test_only_a_pod_that_stays_is_referred_to() -> None:
    findings = {A: Waiting("Replacing", "still ending")}
    rules = workload_rules([("admin", A), ("tenant", T)], [companion(A, ending=True)], findings)
    assert rules["admin"][0]["status"] == {"result": "", "message": "still ending", "reason": "Replacing"}
    assert rules["tenant"][0]["status"] == {"result": "", "message": ""}


@pytest.mark.parametrize(
    ("matched", "created", "removing", "ready"),
    [(0, 0, 0, "True"), (2, 2, 0, "True"), (2, 1, 0, "False"), (1, 1, 1, "False"), (0, 0, 1, "False")],
)
def test_rule_is_ready_when_exactly_its_companions_exist(matched: int, created: int, removing: int, ready: str) -> None:
    status = rule_status(
        "tenant", generation=3, matched=matched, standings={"": created}, removing=removing, broken=(), findings=()
    )
    assert (status["result"], status["message"]) == ("success", "")
    assert (status["matched"], status["created"], status["observedGeneration"]) == (matched, created, 3)
    assert status["conditions"][0]["status"] == ready


def test_rule_status_tells_the_first_problem_and_how_many_there_are() -> None:
    findings = [Waiting("NoNode", "w"), Problem("QuotaExceeded", "x" * 5000), Problem("Denied", "y")]
    status = rule_status("tenant", generation=1, matched=3, standings={"": 0}, broken=(), findings=findings)
    assert status["result"] == "error"
    assert status["message"].startswith("QuotaExceeded: xxx")
    assert status["message"].endswith("(1 of 2 workloads with problems)")
    assert len(status["message"]) == MESSAGE
    assert status["conditions"][0]["reason"] == "QuotaExceeded"


ITS_OWN = Problem("InvalidHost", "no label", of_workload=True)


def test_workloads_do_not_decide_the_result_of_an_admin_rule() -> None:
    """What is wrong with some workloads is counted; what is wrong with the rule is its error."""
    findings: list[Finding] = [Waiting("NoNode", "w"), ITS_OWN, ITS_OWN]
    status = rule_status("admin", generation=1, matched=40, standings={"": 37}, broken=(), findings=findings)
    text = "2 of 40 workloads cannot have a companion: InvalidHost: no label"
    assert (status["result"], status["message"]) == ("success", text)
    assert status["conditions"][0]["reason"] == "Waiting"
    status = rule_status("admin", generation=1, matched=40, standings={"": 38}, broken=(), findings=findings)
    ready = status["conditions"][0]
    assert (ready["status"], ready["reason"]) == ("True", "AsDesired")
    assert ready["message"] == f"38 of 40 companions exist; {text}"
    status = rule_status(
        "admin", generation=1, matched=3, standings={"": 0}, broken=(), findings=[ITS_OWN, Problem("Denied", "y")]
    )
    assert (status["result"], status["conditions"][0]["reason"]) == ("error", "Denied")
    assert status["message"] == "Denied: y (1 of 2 workloads with problems)"
    long = Problem("AnnotationTooLarge", "x" * 5000, of_workload=True)
    status = rule_status("admin", generation=1, matched=1, standings={"": 0}, broken=(), findings=[long])
    assert len(status["message"]) == MESSAGE
    assert (
        rule_status("tenant", generation=1, matched=1, standings={"": 0}, broken=(), findings=[ITS_OWN])["result"]
        == "error"
    )


async def test_a_node_name_that_a_tenant_made_up_is_its_workloads_alone(infra: Infra) -> None:
    await infra.workload("u1", node="not a label")
    await infra.workload("u2", node="host-b", namespace=T2)
    await infra.admin_rule("a", policy="SameNode")
    async with infra.controller():
        await eventually(lambda: "InvalidHost" in infra.status(ADMIN_RULES, "a").get("message", ""))
        await eventually(lambda: infra.status(ADMIN_RULES, "a").get("created") == 1)
        status = infra.status(ADMIN_RULES, "a")
        assert status["result"] == "success"
        assert status["message"].startswith("1 of 2 workloads cannot have a companion: InvalidHost: no DPU can have")
        await eventually(lambda: infra.status(ADMIN_RULES, "a")["conditions"][0]["status"] == "True")
        await eventually(lambda: infra.status(WORKLOADS, "workload-u1").get("rules"))
        entry = infra.status(WORKLOADS, "workload-u1")["rules"]["admin"][0]["status"]
        assert (entry["result"], entry["reason"]) == ("error", "InvalidHost")
        await infra.remove(WORKLOADS, "workload-u1")
        await eventually(lambda: infra.status(ADMIN_RULES, "a")["message"] == "")


def test_transition_time_changes_with_the_status_only() -> None:
    good = rule_status("tenant", generation=1, matched=1, standings={"": 1}, broken=(), findings=())
    first = timed(good, {}, now="t1")
    assert first is not None
    assert timed(good, first, now="t2") is None
    newer = timed({**good, "matched": 2}, first, now="t2")
    assert newer is not None
    assert newer["conditions"][0]["lastTransitionTime"] == "t1"
    bad = timed(
        rule_status("tenant", generation=1, matched=1, standings={"": 0}, broken=["spec: x"], findings=()),
        first,
        now="t3",
    )
    assert bad is not None
    assert bad["conditions"][0]["lastTransitionTime"] == "t3"
    assert bad["conditions"][0]["reason"] == "InvalidRule"


def test_findings_are_replaced_per_workload_and_leave_nothing_behind() -> None:
    findings, problem = Findings(), Problem("X", "")
    findings.put(W, {T: problem, A: problem})
    findings.put(W, {A: problem})
    assert not findings.of_rule(T)
    assert findings.of_rule(A) == {W: problem}
    findings.put(W, {})
    assert not findings.of_workload(W)
    assert not findings._by_rule
    assert not findings._by_workload


async def test_statuses_of_a_working_rule(infra: Infra) -> None:
    await infra.workload("u1", node="host-a")
    await infra.workload("u2")
    await infra.rule("r", policy="SameNode")
    await infra.admin_rule("a")
    async with infra.controller():
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("created") == 1)
        await eventually(lambda: infra.status(ADMIN_RULES, "a").get("created") == 2)
        status = infra.status(TENANT_RULES, "r")
        assert (status["result"], status["message"], status["matched"]) == ("success", "", 2)
        assert status["conditions"][0]["reason"] == "Waiting"
        assert infra.status(ADMIN_RULES, "a")["conditions"][0]["status"] == "True"
        await eventually(lambda: "objRef" in str(infra.status(WORKLOADS, "workload-u1").get("rules")))
        rules = infra.status(WORKLOADS, "workload-u1")["rules"]
        assert rules["admin"][0]["id"] == f"{SYSTEM}/a"
        assert rules["admin"][0]["status"]["objRef"]["name"] == "a-tenant-tenant1-u1"
        await infra.remove(TENANT_RULES, "r")
        await eventually(lambda: not infra.status(WORKLOADS, "workload-u1")["rules"].get("tenant"))


async def test_companions_that_are_removed_are_not_counted_as_existing(infra: Infra) -> None:
    """`3 of 1 companions exist` would be no truth, and the rule has not what it asks for."""
    for number in range(4):
        await infra.workload(f"u{number}")
    client, go_on = await infra.client(), asyncio.Event()

    async def slow(verb: str, name: str) -> None:
        if verb == "delete":
            await go_on.wait()

    def said() -> tuple[int, int, str, str]:
        status = infra.status(TENANT_RULES, "r")
        ready = status["conditions"][0]
        return status["matched"], status["created"], ready["status"], ready["message"]

    client.before = slow
    everything: tuple[str, list[str]] = ("metadata.resourceNamespace", ["default"])
    await infra.rule("r", match=everything)
    async with infra.controller(client, status_interval=0.05) as client:
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("created") == 4)
        await infra.rule("r", match=("metadata.id", ["u0"]))
        await eventually(lambda: said() == (1, 1, "False", "1 of 1 companions exist; removing 3"))
        # One more that matches, and one that has to go because its workload ended.
        await infra.remove(WORKLOADS, "workload-u3")
        await infra.rule("r", match=("metadata.id", ["u0", "u4"]))
        await infra.workload("u4")
        await eventually(lambda: said() == (2, 2, "False", "2 of 2 companions exist; removing 3"))
        go_on.set()
        await eventually(lambda: said() == (2, 2, "True", "2 of 2 companions exist"))
        assert set(infra.pods(T1)) == {"r-u0", "r-u4"}
    await client.close()


async def test_companions_of_a_broken_rule_are_not_being_removed(infra: Infra) -> None:
    await infra.workload("u1")
    await infra.rule("r")
    async with infra.controller(status_interval=0.05):
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("created") == 1)
        await infra.rule("r", match=("metadata.[", ["default"]))
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("result") == "error")
        assert infra.status(TENANT_RULES, "r")["created"] == 1
        await infra.rule("r")
        await eventually(lambda: infra.status(TENANT_RULES, "r")["conditions"][0]["reason"] == "AsDesired")
        assert infra.status(TENANT_RULES, "r")["conditions"][0]["message"] == "1 of 1 companions exist"


async def test_observed_generation_is_that_of_the_stored_rule(infra: Infra) -> None:
    await infra.workload("u1")
    await infra.rule("r")
    async with infra.controller():
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("observedGeneration") == 1)
        await infra.rule("r", image="nginx:2")
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("observedGeneration") == 2)


async def test_many_workloads_cost_a_rule_few_status_writes(infra: Infra) -> None:
    """At most one a second: those that a quick machine needs, and one for each second that a slow one takes."""
    await infra.rule("r")
    began = time.monotonic()
    async with infra.controller() as client:
        for n in range(60):
            await infra.workload(f"u{n}")
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("created") == 60)
        assert client.counts["patchstatus tenantworkloadrules"] <= max(5, 2 + time.monotonic() - began)
        await eventually(lambda: client.counts["patchstatus workloads"] == 60)


async def test_each_status_is_written_once_where_it_is_settled(infra: Infra) -> None:
    """One write for each workload and each rule, however many companions these have."""
    for n in range(30):
        await infra.workload(f"u{n}")
    for name in ("r", "s"):
        await infra.rule(name)
    looked = Counted("reconcile_total", "result", controller="workload-status")
    async with infra.controller() as client:
        for name in ("r", "s"):
            await eventually(lambda name=name: infra.status(TENANT_RULES, name).get("created") == 30)
        await eventually(lambda: client.counts["patchstatus workloads"] == 30)
        assert client.counts["create pods"] == 60
        assert client.counts["patchstatus tenantworkloadrules"] == 2
        await eventually(lambda: looked().total() >= 30)
    # The watch that shows what was written causes no other look.
    assert client.counts["patchstatus workloads"] == 30
    assert looked().total() < 2 * 30


async def test_workload_without_rules_gets_no_status(infra: Infra) -> None:
    await infra.workload("u1")
    async with infra.controller(resync=0.1) as client:
        await asyncio.sleep(0.5)
        assert client.counts["patchstatus workloads"] == 0


async def test_status_that_somebody_changed_is_written_again(infra: Infra) -> None:
    await infra.workload("u1")
    await infra.rule("r")
    async with infra.controller():
        await eventually(lambda: infra.status(WORKLOADS, "workload-u1").get("rules"))
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("created") == 1)
        for resource, name in ((WORKLOADS, "workload-u1"), (TENANT_RULES, "r")):
            body = {"status": {"rules": None, "result": "error"} if resource is TENANT_RULES else {"rules": None}}
            await infra.admin.patch(resource, name, body, patch_type="merge", namespace=T1, subresource="status")
        await eventually(lambda: infra.status(WORKLOADS, "workload-u1").get("rules"))
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("result") == "success")


async def test_slow_replacement_is_told_in_the_status(infra: Infra, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.workloads.controller.writing._REPLACEMENT_PAUSE", 0.3)
    await infra.workload("u1")
    await infra.rule("r")
    async with infra.controller():
        await eventually(lambda: infra.status(WORKLOADS, "workload-u1").get("rules"))
        await infra.bind("r-u1")
        await infra.rule("r", image="nginx:2")
        await eventually(
            lambda: infra.status(WORKLOADS, "workload-u1")["rules"]["tenant"][0]["status"].get("reason") == "Replacing"
        )
        await infra.confirm("r-u1")
        await eventually(
            lambda: infra.status(WORKLOADS, "workload-u1")["rules"]["tenant"][0]["status"]["result"] == "success"
        )


async def test_a_watch_that_lags_causes_no_second_write(infra: Infra) -> None:
    await infra.workload("u1", node="not a label")
    await infra.rule("r", policy="SameNode")
    client = await infra.client()
    kit = Kit(client)
    caches, quiet = WorkloadCaches(kit, DEFAULT_QUOTA), QuietTime(lambda _: 0)
    workloads = WorkloadStatuses(kit, caches, quiet, workers=1)
    rules = RuleStatuses(kit, caches, quiet, interval=0.0)

    async def show() -> None:
        """What a watch would do; this one shows nothing else."""
        caches.tenant_rules.upsert(await client.get(TENANT_RULES, "r", namespace=T1))
        caches.workloads.upsert(await client.get(WORKLOADS, "workload-u1", namespace=T1))

    async def look(times: int) -> tuple[int, int]:
        for _ in range(times):
            await workloads.controller.reconcile((T1, "workload-u1"))
            await rules.controller.reconcile((T1, "r"))
        return client.counts["patchstatus workloads"], client.counts["patchstatus tenantworkloadrules"]

    await show()
    assert await look(3) == (1, 1)
    caches.findings.put((T1, "workload-u1"), {(T1, "r"): Problem("Denied", "no")})
    assert await look(3) == (2, 2)
    caches.findings.put((T1, "workload-u1"), {})
    assert await look(3) == (3, 3)
    await show()
    assert await look(3) == (3, 3)
    await client.close()


def test_what_was_written_is_believed_for_a_while() -> None:
    cache, now = {W: "a"}, 0.0
    sent: OwnWrites[str] = OwnWrites(cache.get, lifetime=10.0, clock=lambda: now)
    assert sent.get(W) == "a"
    sent.wrote(W, "b")
    assert sent.get(W) == "b"
    cache[W] = "c"  # another client wrote later
    assert sent.get(W) == "c"
    cache[W] = "a"
    assert sent.get(W) == "a"
    sent.wrote(W, "b")
    now = 10.0
    assert sent.get(W) == "a"


async def test_a_status_that_another_client_changes_meanwhile_is_not_believed(infra: Infra) -> None:
    """The watch shows our status and the other one before the answer to our write is there."""
    await infra.workload("u1")
    await infra.rule("r")
    client = await infra.client()
    kit = Kit(client)
    caches = WorkloadCaches(kit, DEFAULT_QUOTA)
    rules = RuleStatuses(kit, caches, QuietTime(lambda _: 0), interval=0.0)
    caches.tenant_rules.replace_all(infra.stored(TENANT_RULES))

    async def meddle(verb: str, name: str) -> None:
        (stored,) = infra.stored(TENANT_RULES)
        caches.tenant_rules.upsert({**stored, "status": {"result": "error"}})

    client.before = meddle
    await rules.controller.reconcile((T1, "r"))
    client.before = None
    await rules.controller.reconcile((T1, "r"))
    assert client.counts["patchstatus tenantworkloadrules"] == 2
    await client.close()


def test_the_messages_of_very_many_rules_are_short() -> None:
    """The status of each Workload is stored with it."""
    keys = [(T1, f"r{number:03}") for number in range(250)]
    findings = {key: Problem("InvalidHost", "x" * 1000) for key in keys}
    status = workload_rules([("tenant", key) for key in keys], [], findings)
    assert sum(len(entry["status"]["message"]) for entry in status["tenant"]) <= 250 * 64
    (alone,) = workload_rules([("tenant", keys[0])], [], findings)["tenant"]
    assert len(alone["status"]["message"]) == 1000


async def test_statuses_do_not_wait_for_the_companions_of_another_tenant(
    infra: Infra, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.workloads.controller.writing._FIRST_PAUSE", 100 * PATIENCE)
    client, answer = await infra.client(), asyncio.Event()

    async def slow(verb: str, name: str) -> None:
        if verb == "create":
            await answer.wait()

    client.before = slow
    await infra.rule("loud", namespace=T2)
    for number in range(10):
        await infra.workload(f"u{number}", namespace=T2)
    await infra.rule("r", policy="SameNode")
    await infra.workload("u")
    async with infra.controller(client, workers=2):
        await eventually(lambda: infra.status(WORKLOADS, "workload-u").get("rules"))
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("matched") == 1)
        assert not infra.status(TENANT_RULES, "loud")
        answer.set()
        await eventually(lambda: infra.status(TENANT_RULES, "loud").get("created") == 10)
    await client.close()
