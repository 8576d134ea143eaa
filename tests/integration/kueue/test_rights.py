"""What users with the least rights get by AppWrappers in queues: what they may create themselves, and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.appwrappers.kueue.model import ADMITTED, FINISHED, WORKLOADS
from app.appwrappers.model import APP_WRAPPERS, CREATOR
from app.errors import ApiError
from app.kube.conditions import is_true
from app.kube.resources import PODS, ROLE_BINDINGS
from app.kube.transport import connect
from app.wiring import Permission
from tests.support.queued_cluster import Queue, QueuedCluster, job, pod
from tests.support.rbac import GROUP, acting_as, allow
from tests.support.waiting import PATIENCE, eventually

JSON = dict[str, Any]
STAND_IN = False
USERS_ROLE = {"codeflare": "appwrapper-user-role"}
"""The ClusterRole for who may create and delete AppWrappers and change nothing, by side; Berth's has another name."""
WRAPS = Permission("release", APP_WRAPPERS.group, (APP_WRAPPERS.plural,), ("create", "delete"))
JOBS = Permission("release", "batch", ("jobs",), ("create", "delete"))
MAKES_PODS = Permission("release", "", ("pods",), ("create",))


async def test_who_may_create_what_is_wrapped_has_it_run_to_its_end(queues: QueuedCluster) -> None:
    async with queues.queue(1) as queue, _user(queues, queue, "alice", JOBS, MAKES_PODS) as alice:
        made = await alice.submit("ends", job("ends", seconds=2))
        assert made["metadata"]["labels"]["workload.codeflare.dev/user"] == "alice"
        assert queue.side == "codeflare" or '"username":"alice"' in made["metadata"]["annotations"][CREATOR]
        # Kueue admits those of one second in any order.
        await alice.reaches("ends", "Resuming", "Running", "Succeeded")
        await alice.submit("stays", job("stays"))
        await alice.reaches("ends", "Succeeded")
        await queue.workload("ends", lambda workload: is_true(workload["status"], FINISHED))
        await alice.reaches("stays", "Running")
        name = (await queue.workload("stays"))["metadata"]["name"]
        await queue.change(WORKLOADS, name, {"spec": {"active": False}})
        await alice.reaches("stays", "Suspended")
        await queue.change(WORKLOADS, name, {"spec": {"active": True}})
        await alice.reaches("stays", "Running")
        await alice.delete("stays")
        await queue.unused()
        await eventually(lambda: _pods(queue), lambda pods: all(pod["status"]["phase"] == "Succeeded" for pod in pods))


async def test_who_may_not_create_what_is_wrapped_is_told_so_and_has_nothing(queues: QueuedCluster) -> None:
    async with queues.queue(1) as queue, _user(queues, queue, "bob", MAKES_PODS) as bob:
        with pytest.raises(ApiError) as refusal:
            await bob.submit("takes", job("takes"))
        assert refusal.value.status in (403, 422)
        assert f"User bob is not authorized to create jobs in {queue.namespace}" in str(refusal.value)
        assert await queue.get(APP_WRAPPERS, "takes") == {}
        assert await queue.workloads() == []


@pytest.mark.parametrize(
    ("rights", "lacks"),
    [((JOBS,), "create pods"), ((Permission("release", "batch", ("jobs",), ("create",)), MAKES_PODS), "delete jobs")],
    ids=["no Pods", "no deletion"],
)
async def test_strict_admission_asks_for_what_the_controller_does_besides(
    queues: QueuedCluster, rights: tuple[Permission, ...], lacks: str
) -> None:
    """The peer asks for the creation of what is wrapped alone."""
    async with queues.queue(1) as queue, _user(queues, queue, "carol", *rights) as carol:
        if queues.side == "codeflare":
            await carol.submit("runs", job("runs"))
            await carol.reaches("runs", "Running")
            return
        with pytest.raises(ApiError, match=f"User carol is not authorized to {lacks} in {queue.namespace}"):
            await carol.submit("runs", job("runs"))


async def test_who_may_change_it_does_not_pass_by_the_queue(queues: QueuedCluster) -> None:
    """Where admission is strict. The peer's lets the change through: Kueue suspends it again, in a moment."""
    changes = Permission("release", APP_WRAPPERS.group, (APP_WRAPPERS.plural,), ("patch",))
    async with queues.queue(1) as queue, _user(queues, queue, "dora", JOBS, MAKES_PODS, changes) as dora:
        await dora.submit("first", job("first"))
        await dora.reaches("first", "Running")
        await dora.submit("waits", job("waits"))
        await queue.workload("waits")
        if queues.side != "codeflare":
            for change in ({"spec": {"suspend": False}}, {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": None}}}):
                with pytest.raises(ApiError, match="want the verb admit on appwrappers"):
                    await dora.change(APP_WRAPPERS, "waits", change)
        await dora.delete("first")
        await dora.reaches("waits", "Running")


async def test_who_has_lost_the_rights_gets_nothing_more(queues: QueuedCluster) -> None:
    """It waits until the rights are there again: what is resumed is asked for anew. The peer asks at the creation alone."""
    async with queues.queue(1) as queue, _user(queues, queue, "erin", JOBS, MAKES_PODS) as erin:
        await queue.submit("first", pod("first"))
        await queue.reaches("first", "Running")
        await erin.submit("waits", job("waits"))
        await queue.workload("waits")
        await queue.client.delete(ROLE_BINDINGS, "erin", namespace=queue.namespace)
        await eventually(lambda: _may(erin, JOBS), lambda may: not may)
        await queue.delete("first")
        if queues.side != "codeflare":
            await queue.workload("waits", lambda workload: is_true(workload["status"], ADMITTED))
            assert await _pods(queue) == []
            assert (await erin.get(APP_WRAPPERS, "waits"))["spec"]["suspend"] is True
            if queues.side == "ours":
                await eventually(queue.refusals, lambda texts: any("erin is not authorized" in t for t in texts))
            await _bind(queue, "erin", "Role", "erin")
        await erin.reaches("waits", "Running")


@contextlib.asynccontextmanager
async def _user(queues: QueuedCluster, queue: Queue, name: str, *rights: Permission) -> AsyncIterator[Queue]:
    """The queue as a user sees it, who may use AppWrappers in its namespace and has these rights there."""
    await allow(queues.client, name, rights, role=name, release=queue.namespace)
    await _bind(queue, f"{name}-wraps", "ClusterRole", USERS_ROLE.get(queues.side, "berth-appwrapper-user"), user=name)
    async with await connect(kubeconfig=str(acting_as(queues.kubeconfig, name)), deadline=PATIENCE) as client:
        user = Queue(client, queue.side, queue.namespace, queue.cpus)
        for right in (*rights, WRAPS):
            await eventually(lambda right=right: _may(user, right))
        yield user


async def _may(user: Queue, right: Permission) -> bool:
    """Whether the API server goes by the right: it learns of roles a moment later."""
    for verb in right.verbs:
        asked = {"namespace": user.namespace, "group": right.group, "resource": right.resources[0], "verb": verb}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        review |= {"spec": {"resourceAttributes": asked}}
        answer = await user.client.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        if not answer["status"]["allowed"]:
            return False
    return True


async def _bind(queue: Queue, name: str, kind: str, role: str, *, user: str = "") -> None:
    subject = {"apiGroup": GROUP, "kind": "User", "name": user or name}
    reference = {"apiGroup": GROUP, "kind": kind, "name": role}
    body = ROLE_BINDINGS.body({"name": name}, roleRef=reference, subjects=[subject])
    await queue.client.create(ROLE_BINDINGS, body, namespace=queue.namespace)


async def _pods(queue: Queue) -> list[JSON]:
    return (await queue.client.list_page(PODS, namespace=queue.namespace)).items
