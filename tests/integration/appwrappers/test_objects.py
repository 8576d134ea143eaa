"""Which objects the controller takes for those of an AppWrapper, and what it does about others, and about none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.appwrappers.model import (
    APP_WRAPPER,
    APP_WRAPPER_UID,
    APP_WRAPPERS,
    DELETED,
    PODS_READY,
    QUOTA_RESERVED,
    RESOURCES_DEPLOYED,
    UNHEALTHY,
)
from app.errors import ApiError
from app.kube.conditions import condition
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NODES, PODS, Resource
from tests.support.appwrappers import CONFIG, JOBS, NAMESPACE, SYSTEM, AppWrapperCluster, app_wrapper, job, pod
from tests.support.waiting import eventually

pytestmark = pytest.mark.simulated
WIDGETS = Resource("example.com", "v1", "widgets", "Widget")
WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}}
SHORT = {"retryPausePeriodDuration": "1s", "admissionGracePeriodDuration": "5s", "failureGracePeriodDuration": "1s"}


async def define_widgets(cluster: AppWrapperCluster) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [version],
        },
    }
    await cluster.admin.create(CUSTOM_RESOURCE_DEFINITIONS, body)


async def test_a_deleted_object_is_made_again(cluster: AppWrapperCluster) -> None:
    async with cluster.controller():
        await cluster.wrap("repaired", pod("p"), job("j"), **SHORT)
        await cluster.there(JOBS, "j")
        await cluster.reaches("repaired", "Running")
        first = await cluster.there(PODS, "p")
        await cluster.admin.delete(JOBS, "j", namespace=NAMESPACE, propagation_policy="Background")
        await cluster.says("repaired", UNHEALTHY, "MissingComponent")
        message = cluster.condition("repaired", UNHEALTHY)["message"]
        assert message == "Only found 1 deployed components, but was expecting 2: Job j is gone"
        await cluster.there(PODS, "p", other_than=first["metadata"]["uid"])
        await cluster.reaches("repaired", "Running")
        assert cluster.status(APP_WRAPPERS, "repaired")["resettingCount"] == 1


async def test_what_a_lagging_cache_does_not_show_is_not_missing(cluster: AppWrapperCluster) -> None:
    """The watch of Jobs is refused, so that its cache never has the Job."""
    client = await cluster.client()
    watch = client.watch

    def lagging(resource: Resource, **options: Any) -> Any:
        if resource.plural == "jobs":
            raise ApiError("jobs: slow", status=500)
        return watch(resource, **options)

    client.watch = lagging  # type: ignore[method-assign]
    async with cluster.controller(client):
        await cluster.wrap("healthy", job("j"))
        await cluster.there(JOBS, "j")
        await cluster.reaches("healthy", "Running")
        await asyncio.sleep(20)
        assert cluster.phase("healthy") == "Running"
    await client.close()


async def test_a_generated_name_is_made_once_though_the_controller_crashes(cluster: AppWrapperCluster) -> None:
    """It dies after the API server has made the Pod, and before the status has its name."""
    client = await cluster.client()
    dead = asyncio.Event()
    create = client.create

    async def crash(resource: Resource, body: Any, **more: Any) -> Any:
        made = await create(resource, body, **more)
        if resource.plural == "pods":
            dead.set()
            await asyncio.Event().wait()
        return made

    client.create = crash  # type: ignore[method-assign]
    async with cluster.controller(client):
        await cluster.wrap("generated", pod(generateName="p-"))
        await dead.wait()
    await client.close()
    before = list(cluster.pods())
    async with cluster.controller():
        await cluster.reaches("generated", "Running")
        assert list(cluster.pods()) == before
        assert before[0].startswith("p-")
        assert cluster.status(APP_WRAPPERS, "generated")["componentStatus"][0]["name"] == before[0]


async def test_an_object_of_others_is_neither_taken_over_nor_deleted(cluster: AppWrapperCluster) -> None:
    labels = {APP_WRAPPER: "second"}
    foreign = await cluster.admin.create(PODS, pod("p", labels=labels), namespace=NAMESPACE)
    async with cluster.controller():
        await cluster.wrap("first", pod("first"))
        await cluster.reaches("first", "Running")  # from here on the cache of Pods has the foreign one
        await cluster.wrap("second", pod("q"), pod("p"))
        await cluster.reaches("second", "Failed")
        problem = "error creating components: pods p exists, and belongs to another owner"
        assert cluster.condition("second", UNHEALTHY)["message"] == problem
        await cluster.says("second", RESOURCES_DEPLOYED, "Failed")
        await cluster.admin.delete(APP_WRAPPERS, "second", namespace=NAMESPACE)
        await eventually(lambda: cluster.object(APP_WRAPPERS, "second") is None)
        assert cluster.uid("p") == foreign["metadata"]["uid"]
        assert sorted(cluster.pods()) == ["first", "p"]


async def test_an_object_of_a_former_one_of_the_same_name_is_not_taken_over(cluster: AppWrapperCluster) -> None:
    """It belongs to another UID, and goes away with its owner; then ours is made."""
    owner = {"apiVersion": APP_WRAPPERS.api_version, "kind": "AppWrapper", "name": "again", "uid": "former"}
    await cluster.admin.create(PODS, pod("p", ownerReferences=[owner | {"controller": True}]), namespace=NAMESPACE)
    async with cluster.controller():
        await cluster.wrap("again", pod("p"))
        failed = "ComponentCreationErrored"
        statuses = await eventually(lambda: cluster.status(APP_WRAPPERS, "again").get("componentStatus"))
        await eventually(lambda: condition(component(cluster, "again"), RESOURCES_DEPLOYED).get("reason") == failed)
        assert statuses
        assert cluster.phase("again") == "Resuming"
        await cluster.admin.delete(PODS, "p", namespace=NAMESPACE, grace_period_seconds=0)
        await cluster.reaches("again", "Running")


def component(cluster: AppWrapperCluster, name: str, index: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = cluster.status(APP_WRAPPERS, name)["componentStatus"][index]
    return found


async def test_a_kind_that_is_not_served_fails_at_once(cluster: AppWrapperCluster) -> None:
    async with cluster.controller():
        await cluster.wrap("unknown", pod("p"), WIDGET)
        await cluster.reaches("unknown", "Failed")
        assert "no kind Widget in example.com/v1 is served" in cluster.condition("unknown", UNHEALTHY)["message"]
        await eventually(lambda: cluster.pods() == {})


async def test_a_kind_that_is_removed_later_does_not_hold_the_deletion(cluster: AppWrapperCluster) -> None:
    await define_widgets(cluster)
    async with cluster.controller():
        await cluster.wrap("kinds", pod("p"), WIDGET, **SHORT)
        await cluster.reaches("kinds", "Running")
        await cluster.there(WIDGETS, "w")
        await cluster.admin.delete(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com")
        await cluster.admin.delete(APP_WRAPPERS, "kinds", namespace=NAMESPACE)
        await eventually(lambda: cluster.object(APP_WRAPPERS, "kinds") is None)
        assert cluster.pods() == {}


async def test_a_kind_that_a_new_controller_never_saw_does_not_hold_the_deletion(cluster: AppWrapperCluster) -> None:
    await define_widgets(cluster)
    async with cluster.controller():
        await cluster.wrap("kinds", pod("p"), WIDGET)
        await cluster.reaches("kinds", "Running")
    await cluster.admin.delete(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com")
    await cluster.admin.delete(APP_WRAPPERS, "kinds", namespace=NAMESPACE)
    async with cluster.controller():
        await eventually(lambda: cluster.object(APP_WRAPPERS, "kinds") is None)
        assert cluster.pods() == {}


async def test_what_a_finalizer_holds_counts_as_gone_after_the_grace(cluster: AppWrapperCluster) -> None:
    """And it delays no other AppWrapper."""
    await define_widgets(cluster)
    async with cluster.controller():
        held = WIDGET | {"metadata": {"name": "w", "finalizers": ["example.com/held"]}}
        await cluster.wrap("held", pod("p"), held, forcefulDeletionGracePeriodDuration="10s")
        await cluster.wrap("other", pod("q"))
        await cluster.reaches("held", "Running")
        await cluster.admin.delete(APP_WRAPPERS, "held", namespace=NAMESPACE)
        await cluster.reaches("held", "Terminating")
        await cluster.admin.delete(APP_WRAPPERS, "other", namespace=NAMESPACE)
        await eventually(lambda: cluster.object(APP_WRAPPERS, "other") is None)
        assert cluster.phase("held") == "Terminating"
        assert condition(component(cluster, "held"), RESOURCES_DEPLOYED)["reason"] == DELETED
        await asyncio.sleep(9)
        await eventually(lambda: cluster.object(APP_WRAPPERS, "held") is None)
        assert cluster.object(WIDGETS, "w")


async def test_a_pod_whose_node_is_silent_is_removed_by_force(cluster: AppWrapperCluster) -> None:
    async with cluster.controller() as client:
        await cluster.wrap("silent", pod("p"), forcefulDeletionGracePeriodDuration="10s")
        await cluster.there(PODS, "p")
        await cluster.bind("p", NAMESPACE)
        await cluster.running("p")
        await cluster.suspend("silent")
        await cluster.reaches("silent", "Suspending")
        await asyncio.sleep(8)
        assert list(cluster.pods()) == ["p"]
        await cluster.reaches("silent", "Suspended")
        assert cluster.pods() == {}
        assert client.counts["delete pods"] == 2


async def test_a_fault_of_the_api_server_is_waited_out_for_the_admission_grace(cluster: AppWrapperCluster) -> None:
    client = await cluster.client()
    create, calls = client.create, 0

    async def full(resource: Resource, body: Any, **more: Any) -> Any:
        nonlocal calls
        if resource.plural == "pods":
            calls += 1
            if calls < 4:
                raise ApiError("exceeded quota", status=403, reason="Forbidden")
        return await create(resource, body, **more)

    client.create = full  # type: ignore[method-assign]
    async with cluster.controller(client):
        await cluster.wrap("late", pod("p"))
        await cluster.reaches("late", "Running")
        assert calls == 4
        assert cluster.status(APP_WRAPPERS, "late").get("resettingCount", 0) == 0
        calls = -1000
        await cluster.wrap("never", pod("q"), **SHORT)
        await cluster.reaches("never", "Resetting")
        assert "exceeded quota" in cluster.condition("never", UNHEALTHY)["message"]
    await client.close()


async def test_what_the_api_server_refuses_for_good_fails_at_once(cluster: AppWrapperCluster) -> None:
    broken = pod("p")
    broken["spec"]["containers"] = []
    async with cluster.controller():
        await cluster.wrap("broken", broken)
        await cluster.reaches("broken", "Failed")
        assert "containers" in cluster.condition("broken", UNHEALTHY)["message"]


async def test_pods_in_a_crash_loop_are_failed_ones(cluster: AppWrapperCluster) -> None:
    async with cluster.controller():
        await cluster.wrap("looping", pod("p"), restartLimit="3", **SHORT)
        await cluster.there(PODS, "p")
        waiting = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {}, "ready": False}
        status = {"name": "c", "image": "busybox", "imageID": "", "restartCount": 3} | waiting
        body = {"phase": "Running", "containerStatuses": [status]}
        await cluster.set_status("p", body, NAMESPACE)
        await asyncio.sleep(3)
        assert cluster.phase("looping") == "Running"
        assert cluster.condition("looping", PODS_READY)["status"] == "False"
        await cluster.set_status("p", {"containerStatuses": [status | {"restartCount": 4}]}, NAMESPACE)
        await cluster.reaches("looping", "Resetting")
        assert cluster.condition("looping", UNHEALTHY)["reason"] == "FoundFailedPods"


async def test_pods_leave_nodes_that_health_checks_have_labeled(cluster: AppWrapperCluster) -> None:
    """No retry is used up; new Pods keep off such nodes."""
    gpus = pod("p")
    gpus["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "dpu"}}
    await cluster.admin.create(NODES, node)
    async with cluster.controller():
        await cluster.wrap("moved", gpus, **SHORT)
        found = await cluster.there(PODS, "p")
        terms = found["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        wanted = {"key": "autopilot.ibm.com/gpuhealth", "operator": "NotIn", "values": ["TESTING", "EVICT"]}
        assert terms["nodeSelectorTerms"] == [{"matchExpressions": [wanted]}]
        await cluster.bind("p", NAMESPACE)
        await cluster.running("p")
        await cluster.says("moved", PODS_READY, "SufficientPodsReady")
        labels = {"metadata": {"labels": {"autopilot.ibm.com/gpuhealth": "EVICT"}}}
        await cluster.admin.patch(NODES, "dpu", labels, patch_type="merge")
        await cluster.says("moved", UNHEALTHY, "AutopilotNoExecute")
        assert cluster.status(APP_WRAPPERS, "moved").get("resettingCount", 0) == 0


async def test_the_config_map_is_followed_and_a_wrong_one_is_not_used(cluster: AppWrapperCluster) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG}}
    text = "appwrapper: {faultTolerance: {retryLimit: 0, failureGracePeriod: 1000000000}}"
    resource = Resource("", "v1", "configmaps", "ConfigMap")
    await cluster.admin.create(resource, body | {"data": {"config.yaml": text}}, namespace=SYSTEM)
    async with cluster.controller():
        for name in ("one", "two"):
            await cluster.wrap(name, pod(name))
            await cluster.there(PODS, name)
            await cluster.ended(name, 1)
            await cluster.reaches(name, "Failed")
            wrong = {"data": {"config.yaml": "appwrapper: {faultTolerance: {retryLimit: many}}"}}
            await cluster.admin.patch(resource, CONFIG, wrong, patch_type="merge", namespace=SYSTEM)


async def test_one_that_another_controller_manages_is_left_alone(cluster: AppWrapperCluster) -> None:
    async with cluster.controller():
        body = app_wrapper("theirs", pod("p"))
        body["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
        await cluster.admin.create(APP_WRAPPERS, body, namespace=NAMESPACE)
        await cluster.wrap("ours", pod("q"))
        await cluster.reaches("ours", "Running")
        assert cluster.status(APP_WRAPPERS, "theirs") == {}
        assert list(cluster.pods()) == ["q"]


async def test_a_running_one_of_another_controller_is_taken_over_untouched(cluster: AppWrapperCluster) -> None:
    """AppWrapper v1.2 has made the Pod, without our marks; it goes on, and its end is seen."""
    made = await cluster.wrap("taken", pod("p"))
    owner = {"apiVersion": APP_WRAPPERS.api_version, "kind": "AppWrapper", "name": "taken", "controller": True}
    owner |= {"uid": made["metadata"]["uid"], "blockOwnerDeletion": True}
    body = pod("p", labels={APP_WRAPPER: "taken"}, ownerReferences=[owner])
    theirs = await cluster.admin.create(PODS, body, namespace=NAMESPACE)
    at = "2026-01-01T00:00:00Z"
    flags = {"QuotaReserved": "True", "ResourcesDeployed": "True", "PodsReady": "True", "Unhealthy": "False"}
    conditions = [
        {"type": kind, "status": value, "reason": "Resuming", "message": "", "lastTransitionTime": at}
        for kind, value in flags.items()
    ]
    deployed = {"type": "ResourcesDeployed", "status": "True", "reason": "ComponentCreatedSuccessfully"}
    deployed |= {"message": "", "lastTransitionTime": at}
    status = {
        "phase": "Running",
        "conditions": conditions,
        "componentStatus": [
            {
                "name": "p",
                "kind": "Pod",
                "apiVersion": "v1",
                "podSets": [{"path": "template", "replicas": 1}],
                "conditions": [deployed],
            }
        ],
    }
    finalizers = {"metadata": {"finalizers": ["workload.codeflare.dev/finalizer"]}}
    await cluster.patched(APP_WRAPPERS, "taken", finalizers)
    await cluster.patched(APP_WRAPPERS, "taken", {"status": status}, subresource="status")
    await cluster.running("p")
    async with cluster.controller():
        await cluster.says("taken", PODS_READY, "SufficientPodsReady")
        assert cluster.uid("p") == theirs["metadata"]["uid"]
        assert APP_WRAPPER_UID not in cluster.pods()["p"]["metadata"]["labels"]
        await cluster.ended("p")
        await cluster.reaches("taken", "Succeeded")


async def test_quota_is_held_until_the_last_pod_is_gone(cluster: AppWrapperCluster) -> None:
    """Pods outlive the Job that has made them."""
    async with cluster.controller():
        await cluster.wrap("slow", job("j"))
        found = await cluster.there(JOBS, "j")
        await cluster.reaches("slow", "Running")
        labels = found["spec"]["template"]["metadata"]["labels"]
        await cluster.admin.create(PODS, pod("j-1", labels=labels), namespace=NAMESPACE)
        await cluster.bind("j-1", NAMESPACE)
        await cluster.suspend("slow")
        await eventually(lambda: cluster.object(JOBS, "j") is None)
        await asyncio.sleep(5)
        assert cluster.phase("slow") == "Suspending"
        assert cluster.condition("slow", QUOTA_RESERVED)["status"] == "True"
        await cluster.admin.delete(PODS, "j-1", namespace=NAMESPACE, grace_period_seconds=0)
        await cluster.reaches("slow", "Suspended")


async def test_an_object_that_takes_the_place_of_ours_is_not_deleted(cluster: AppWrapperCluster) -> None:
    """Between the look and the deletion, another Pod gets the name."""
    client = await cluster.client()
    delete = client.delete

    async def late(resource: Resource, name: str, **options: Any) -> Any:
        await cluster.admin.delete(PODS, "p", namespace=NAMESPACE, grace_period_seconds=0)
        await cluster.admin.create(PODS, pod("p"), namespace=NAMESPACE)
        client.delete = delete  # type: ignore[method-assign]
        return await delete(resource, name, **options)

    async with cluster.controller(client):
        await cluster.wrap("replaced", pod("p"))
        await cluster.reaches("replaced", "Running")
        client.delete = late  # type: ignore[method-assign]
        await cluster.suspend("replaced")
        await cluster.reaches("replaced", "Suspended")
        assert list(cluster.pods()) == ["p"]
        assert APP_WRAPPER_UID not in cluster.pods()["p"]["metadata"].get("labels", {})
    await client.close()


async def test_a_decision_upon_an_old_state_is_refused(cluster: AppWrapperCluster) -> None:
    """It is suspended while the controller is about to say that it runs."""
    client = await cluster.client()
    patch, refused = client.patch, 0

    async def late(resource: Resource, name: str, body: Any, **options: Any) -> Any:
        nonlocal refused
        if body.get("status", {}).get("phase") == "Running" and not refused:
            await cluster.suspend("raced")
        try:
            return await patch(resource, name, body, **options)
        except ApiError as error:
            refused += error.conflict
            raise

    client.patch = late  # type: ignore[method-assign]
    async with cluster.controller(client):
        await cluster.wrap("raced", pod("p"))
        await cluster.reaches("raced", "Suspended")
        assert refused == 1
    await client.close()


async def test_two_controllers_at_once_make_no_more_than_one_would(cluster: AppWrapperCluster) -> None:
    async with cluster.controller() as first, cluster.controller() as second:
        names = [f"w{number}" for number in range(10)]
        for name in names:
            await cluster.wrap(name, pod(generateName=f"{name}-"), **SHORT)
        for name in names:
            await cluster.reaches(name, "Running")
        assert len(cluster.pods()) == len(names)
        for name in names:
            await cluster.suspend(name)
        for name in names:
            await cluster.reaches(name, "Suspended")
        assert cluster.pods() == {}
        assert all(cluster.status(APP_WRAPPERS, name).get("resettingCount", 0) == 0 for name in names)
        assert first.counts["create pods"]
        assert second.counts["create pods"]
