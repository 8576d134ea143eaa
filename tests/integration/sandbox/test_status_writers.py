"""Writes of a status that hold to the object that was read: another one of its name stays as it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import PODS
from app.kube.retry import get_or_none
from app.kube.store import Key
from app.kube.transport import connect
from app.kube.writing import apply_status, finalized, merge, patch_same, write_status
from tests.support.waiting import PATIENCE


@dataclass(frozen=True)
class Read:
    key: Key
    uid: str
    version: str


@pytest_asyncio.fixture
async def client(served: Any) -> AsyncIterator[KubeClient]:
    async with await connect(kubeconfig=str(served.kubeconfig("admin")), deadline=PATIENCE) as connected:
        yield connected


async def made(client: KubeClient, namespace: str) -> Read:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    metadata = (await client.create(PODS, PODS.body({"name": "p"}, spec=spec), namespace=namespace))["metadata"]
    return Read((namespace, "p"), metadata["uid"], metadata["resourceVersion"])


async def message(client: KubeClient, pod: Read) -> str | None:
    found = await client.get(PODS, pod.key[1], namespace=pod.key[0])
    return found["status"].get("message")


WRITERS = {
    "apply": lambda client, pod: apply_status(client, PODS, pod.key, pod.uid, {"message": "m"}, manager="test"),
    "merge": lambda client, pod: merge(client, PODS, pod, {"status": {"message": "m"}}, subresource="status"),
    "json patch": lambda client, pod: write_status(client, PODS, pod.key, pod.uid, "m", below=("message",)),
}


@pytest.mark.parametrize("writer", WRITERS)
async def test_the_object_that_was_read_is_written_and_no_other(
    client: KubeClient, namespace: str, writer: str
) -> None:
    first = await made(client, namespace)
    await WRITERS[writer](client, first)
    assert await message(client, first) == "m"
    await client.delete(PODS, "p", namespace=namespace, grace_period_seconds=0)
    second = await made(client, namespace)
    with pytest.raises(ApiError) as refused:
        await WRITERS[writer](client, first)
    assert refused.value.conflict == (writer == "merge")
    assert refused.value.status == (409 if writer == "merge" else 422)
    assert await message(client, second) is None


@pytest.mark.parametrize("writer", ["apply", "json patch"])
async def test_an_object_that_is_gone_need_not_be_written(client: KubeClient, namespace: str, writer: str) -> None:
    pod = await made(client, namespace)
    await client.delete(PODS, "p", namespace=namespace, grace_period_seconds=0)
    assert await WRITERS[writer](client, pod) is None
    assert await get_or_none(client, PODS, "p", namespace=namespace) is None


async def test_a_merge_into_an_object_that_is_gone_is_refused(client: KubeClient, namespace: str) -> None:
    pod = await made(client, namespace)
    await client.delete(PODS, "p", namespace=namespace, grace_period_seconds=0)
    with pytest.raises(ApiError) as refused:
        await WRITERS["merge"](client, pod)
    assert refused.value.not_found


async def test_a_merge_into_an_object_that_has_changed_is_a_conflict(client: KubeClient, namespace: str) -> None:
    pod = await made(client, namespace)
    label = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}
    await patch_same(client, PODS, pod.key, pod.uid, label)
    with pytest.raises(ApiError) as refused:
        await merge(client, PODS, pod, {"metadata": {"labels": {"a": "c"}}})
    assert refused.value.conflict


async def test_finalizers_of_others_stay(client: KubeClient, namespace: str) -> None:
    pod = await made(client, namespace)
    finalizers = ["a.io/theirs"]
    for present, expected in (
        (True, ["a.io/theirs", "b.io/ours"]),
        (True, ["a.io/theirs", "b.io/ours"]),
        (False, ["a.io/theirs"]),
    ):
        change = finalized(finalizers, "b.io/ours", present=present)
        written = await client.patch(PODS, "p", change, patch_type="merge", namespace=namespace)
        finalizers = written["metadata"]["finalizers"]
        assert finalizers == expected
    assert finalized(["b.io/ours", "a.io/theirs"], "b.io/ours", present=True) == {
        "metadata": {"finalizers": ["a.io/theirs", "b.io/ours"]}
    }
    assert finalized(["b.io/ours"], "b.io/ours", present=False) == {"metadata": {"finalizers": None}}
    await client.patch(PODS, pod.key[1], {"metadata": {"finalizers": None}}, patch_type="merge", namespace=namespace)
