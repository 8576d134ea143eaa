"""Garbage collection: what a deletion takes along, as a cluster's controller manager and the stand-ins do it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.kube.client import KubeClient, Propagation
from app.kube.resources import CONFIG_MAPS, DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, STATEFUL_SETS, Resource
from app.kube.retry import get_or_none
from tests.support.control_plane import NAMESPACE, ControlPlane
from tests.support.waiting import eventually

JSON = dict[str, Any]
TEMPLATE = {
    "metadata": {"labels": {"app": "owned"}},
    "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "busybox"}]},
}


@pytest.fixture
def client(control_plane: ControlPlane) -> KubeClient:
    return control_plane.client


def reference(owner: JSON, **more: Any) -> JSON:
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        **more,
    }


async def made(client: KubeClient, name: str, *owners: JSON, **metadata: Any) -> JSON:
    """A ConfigMap with these owner references."""
    body = CONFIG_MAPS.body({"name": name, "ownerReferences": list(owners), **metadata})
    return CONFIG_MAPS.body({}) | await client.create(CONFIG_MAPS, body, namespace=NAMESPACE)


def workload(resource: Resource, *owners: JSON, **spec: Any) -> JSON:
    """A workload with one Pod that runs on."""
    if resource == JOBS:
        template = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
        return JOBS.body({"name": "w", "ownerReferences": list(owners)}, spec={"template": template, **spec})
    selector = {"matchLabels": TEMPLATE["metadata"]["labels"]}
    return resource.body(
        {"name": "w", "ownerReferences": list(owners)},
        spec={"replicas": 1, "selector": selector, "template": TEMPLATE, **spec},
    )


def listed(client: KubeClient, resource: Resource) -> Callable[[], Awaitable[list[JSON]]]:
    async def look() -> list[JSON]:
        return (await client.list_page(resource, namespace=NAMESPACE)).items

    return look


async def gone(client: KubeClient, resource: Resource, name: str) -> None:
    look = lambda: get_or_none(client, resource, name, namespace=NAMESPACE)  # noqa: E731
    await eventually(look, lambda obj: obj is None)


async def deleted(client: KubeClient, resource: Resource, name: str, policy: Propagation | None = None) -> None:
    await client.delete(resource, name, namespace=NAMESPACE, propagation_policy=policy)


def runs(pods: list[JSON]) -> bool:
    return bool(pods) and all(pod["status"].get("phase") == "Running" for pod in pods)


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
@pytest.mark.parametrize("resource", [JOBS, DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS], ids=lambda one: one.kind)
async def test_a_workload_that_goes_with_its_owner_takes_its_pods_along(
    client: KubeClient, resource: Resource, policy: Propagation
) -> None:
    """A Job too, of which a deletion that names no policy leaves the Pods."""
    owner = await made(client, "owner")
    await client.create(resource, workload(resource, reference(owner, blockOwnerDeletion=True)), namespace=NAMESPACE)
    await eventually(listed(client, PODS), runs)
    await deleted(client, CONFIG_MAPS, "owner", policy)
    await gone(client, CONFIG_MAPS, "owner")
    if policy == "Foreground":
        assert not await listed(client, resource)()
    await gone(client, resource, "w")
    await eventually(listed(client, PODS), lambda pods: not pods)


async def test_an_owner_in_the_foreground_waits_for_the_dependents_of_dependents(client: KubeClient) -> None:
    """The collector deletes a dependent of what waits in the foreground too, where it has dependents itself."""
    owner = await made(client, "owner")
    child = await made(client, "child", reference(owner, blockOwnerDeletion=True))
    await made(client, "grandchild", reference(child, blockOwnerDeletion=True), finalizers=["example.com/hold"])
    await eventually(listed(client, CONFIG_MAPS), lambda found: len(found) >= 3)
    await deleted(client, CONFIG_MAPS, "owner", "Foreground")
    ending = lambda obj: obj is not None and obj["metadata"].get("deletionTimestamp")  # noqa: E731
    for name in ("grandchild", "child", "owner"):
        look = lambda name=name: get_or_none(client, CONFIG_MAPS, name, namespace=NAMESPACE)  # noqa: E731
        found = await eventually(look, ending)
        wanted = ["example.com/hold"] if name == "grandchild" else ["foregroundDeletion"]
        assert found is not None
        assert found["metadata"]["finalizers"] == wanted
    body = {"metadata": {"finalizers": None}}
    await client.patch(CONFIG_MAPS, "grandchild", body, patch_type="merge", namespace=NAMESPACE)
    await gone(client, CONFIG_MAPS, "owner")


async def test_only_a_dependent_that_blocks_holds_its_owner(client: KubeClient) -> None:
    owner = await made(client, "owner")
    await made(client, "child", reference(owner), finalizers=["example.com/hold"])
    await deleted(client, CONFIG_MAPS, "owner", "Foreground")
    await gone(client, CONFIG_MAPS, "owner")
    look = lambda: get_or_none(client, CONFIG_MAPS, "child", namespace=NAMESPACE)  # noqa: E731
    await eventually(look, lambda obj: obj is not None and obj["metadata"].get("deletionTimestamp"))
    body = {"metadata": {"finalizers": None}}
    await client.patch(CONFIG_MAPS, "child", body, patch_type="merge", namespace=NAMESPACE)
    await gone(client, CONFIG_MAPS, "child")


async def test_a_dependent_stays_with_the_owner_that_is_left(client: KubeClient) -> None:
    """The reference to an owner that waits in the foreground goes as well as that to one that is gone."""
    first, second, third = [await made(client, name) for name in ("first", "second", "third")]
    blocking = [reference(owner, blockOwnerDeletion=True) for owner in (first, second, third)]
    child = await made(client, "child", *blocking)
    await made(client, "grandchild", reference(child))
    await deleted(client, CONFIG_MAPS, "first", "Foreground")
    await gone(client, CONFIG_MAPS, "first")
    await deleted(client, CONFIG_MAPS, "second")
    look = lambda: client.get(CONFIG_MAPS, "child", namespace=NAMESPACE)  # noqa: E731
    found = await eventually(look, lambda obj: len(obj["metadata"]["ownerReferences"]) == 1)
    assert found["metadata"]["ownerReferences"][0]["uid"] == third["metadata"]["uid"]
    assert not found["metadata"].get("deletionTimestamp")
    await deleted(client, CONFIG_MAPS, "third")
    await gone(client, CONFIG_MAPS, "grandchild")


async def test_an_owner_that_leaves_its_dependents_is_no_owner_any_more(client: KubeClient) -> None:
    owner = await made(client, "owner")
    child = await made(client, "child", reference(owner))
    await made(client, "grandchild", reference(child))
    await deleted(client, CONFIG_MAPS, "owner", "Orphan")
    await gone(client, CONFIG_MAPS, "owner")
    found = await client.get(CONFIG_MAPS, "child", namespace=NAMESPACE)
    assert not found["metadata"].get("ownerReferences")
    await deleted(client, CONFIG_MAPS, "child")
    await gone(client, CONFIG_MAPS, "grandchild")


@pytest.mark.parametrize("finalizer", ["orphan", "foregroundDeletion"])
async def test_a_dependent_goes_as_its_own_finalizer_says(client: KubeClient, finalizer: str) -> None:
    owner = await made(client, "owner")
    child = await made(client, "child", reference(owner), finalizers=[finalizer])
    await made(client, "grandchild", reference(child))
    await deleted(client, CONFIG_MAPS, "owner")
    await gone(client, CONFIG_MAPS, "child")
    if finalizer == "orphan":
        found = await client.get(CONFIG_MAPS, "grandchild", namespace=NAMESPACE)
        assert not found["metadata"].get("ownerReferences")
    else:
        await gone(client, CONFIG_MAPS, "grandchild")


async def test_an_owner_that_never_was_takes_its_dependents_along(client: KubeClient) -> None:
    """Another object of the owner's name is not the owner; an owner of a kind that is not served may be there."""
    namesake = await made(client, "namesake")
    strange = {"apiVersion": "strange.example.com/v1", "kind": "Unknown", "name": "x", "uid": "1-1"}
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "0-0"}
    await made(client, "kept", strange)
    await made(client, "of-a-ghost", ghost)
    await made(client, "of-a-namesake", {**reference(namesake), "uid": "2-2"})
    for name in ("of-a-ghost", "of-a-namesake"):
        await gone(client, CONFIG_MAPS, name)
    assert await client.get(CONFIG_MAPS, "kept", namespace=NAMESPACE)


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan", None])
async def test_the_pods_of_a_job_go_unless_the_deletion_leaves_them(
    client: KubeClient, policy: Propagation | None
) -> None:
    """A deletion that names no policy leaves them: the default of batch/v1, which kubectl overrides."""
    await client.create(JOBS, workload(JOBS, parallelism=2, completions=2), namespace=NAMESPACE)
    await eventually(listed(client, PODS), lambda pods: len(pods) == 2 and runs(pods))
    await deleted(client, JOBS, "w", policy)
    await gone(client, JOBS, "w")
    left = 2 if policy in ("Orphan", None) else 0
    pods = await eventually(
        listed(client, PODS),
        lambda pods: (
            len(pods) == left
            and not any(pod["metadata"].get("ownerReferences") or pod["metadata"].get("finalizers") for pod in pods)
        ),
    )
    assert not any(pod["metadata"].get("deletionTimestamp") for pod in pods)
    assert left == 0 or runs(pods)
