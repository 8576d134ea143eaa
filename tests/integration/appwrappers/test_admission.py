"""Reviews of AppWrappers: an API server calls the webhook over TLS, and the webhook asks that API server for rights."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from app.admission.review import UserInfo
from app.appwrappers.admission.entitlement import Access, Entitlement
from app.appwrappers.kueue.model import LOCAL_QUEUES
from app.appwrappers.model import APP_WRAPPERS, CREATOR, QUEUE_NAME, USER, USER_ID
from app.appwrappers.sizes import MOST_COMPONENTS
from app.errors import ApiError
from app.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    PODS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from app.pace import STEPS, Pace, pacing
from tests.support.appwrapper_reviews import PODS_RULE, WRAP, Opening, queued
from tests.support.appwrappers import CONFIG, JOBS, NAMESPACE, SYSTEM, app_wrapper, job, pod
from tests.support.appwrappers import service as a_service
from tests.support.chart_combinations import CALLER_TOKEN
from tests.support.waiting import eventually
from tests.support.widgets import WIDGET, WIDGETS, define_widgets

JSON = dict[str, Any]
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
PEERS_PATH = "/mutate-workload-codeflare-dev-v1beta2-appwrapper"


async def test_a_new_one_waits_for_its_queue_and_says_who_made_it(opening: Opening) -> None:
    async with opening() as place:
        made = await place.create(queued("one", pod("p"), suspend=False))
        assert made["spec"]["suspend"] is True
        labels = made["metadata"]["labels"]
        assert (labels[USER], labels[QUEUE_NAME]) == ("admin", "user-queue")
        assert USER_ID in labels
        assert CREATOR not in made["metadata"].get("annotations", {})
        made = await place.create(app_wrapper("two", pod("p")))
        assert not made["spec"]["suspend"]
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG}}
        config["data"] = {"any": "appwrapper: {defaultQueueName: usual}"}
        await place.admin.create(CONFIG_MAPS, config, namespace=SYSTEM)

        async def follows() -> bool:
            dry = await place.post("/mutate", app_wrapper("three", pod("p")))
            return bool(dry[1].get("patch"))

        await eventually(follows)

        async def made_in_queue() -> JSON:
            with contextlib.suppress(ApiError):
                await place.admin.delete(APP_WRAPPERS, "three", namespace=NAMESPACE)
            return (await place.create(app_wrapper("three", pod("p"))))["metadata"]["labels"]

        await eventually(made_in_queue, lambda labels: labels.get(QUEUE_NAME) == "usual")


async def test_the_paths_of_the_peer_are_served(opening: Opening) -> None:
    async with opening() as place:
        status, answer = await place.post(PEERS_PATH, queued("one", pod("p"), suspend=False))
        assert (status, answer["allowed"], answer["patchType"]) == (200, True, "JSONPatch")
        status, answer = await place.post(PEERS_PATH.replace("mutate", "validate"), app_wrapper("one"))
        assert (status, answer["allowed"]) == (200, False)
        assert "components contains no podspecs" in answer["status"]["message"]
        webhooks = (await place.admin.get(MUTATING_WEBHOOKS, "berth"))["webhooks"]
        assert ["appwrappers"] in [one["rules"][0]["resources"] for one in webhooks]


async def test_all_that_is_wrong_is_told_at_once(opening: Opening) -> None:
    async with opening() as place:
        body = app_wrapper("wrong", a_service("s"), pod("p", namespace="other"))
        body["spec"]["components"][0]["podSets"] = [{"path": "template.spec", "replicas": -1}]
        _, answer = await place.post("/validate", body)
        said = answer["status"]["message"]
        assert "spec.components[0].podSets[0].replicas: want an integer that is 0 or more" in said
        assert "spec.components[1].template.metadata.namespace: AppWrappers cannot create objects in other" in said
        assert "components contains no podspecs" in await place.refused(app_wrapper("empty", a_service("s")))
        assert "all podSets have 0 replicas" in await place.refused(app_wrapper("none", job("j", parallelism=0)))
        _, answer = await place.post("/validate", app_wrapper("n" * 62, pod("p")))
        assert "got 62: '" + "n" * 61 + "' fits" in answer["status"]["message"]
        nested = app_wrapper("outer", app_wrapper("inner", pod("p")))
        assert "Nested AppWrappers are forbidden" in await place.refused(nested)


async def test_what_creation_refuses_is_refused_before(opening: Opening) -> None:
    """The API server is asked for each object itself: it refuses those that Berth refuses, and no others."""
    config: JSON = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    metadata: list[JSON] = [
        {"resourceVersion": "5"},
        {"resourceVersion": "0"},
        {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 3, "selfLink": "/x"},
        {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5},
        {"managedFields": [{"manager": "kubectl", "operation": "Update"}]},
        {"creationTimestamp": "yesterday"},
        {"name": "Bad_Name"},
        {"labels": {"a": "b c"}},
        {"annotations": {"a b": "c"}},
        {"annotations": {"a": 1}},
        {"finalizers": ["example.com/held"]},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x"}]},
    ]
    async with opening() as place:
        await define_widgets(place.admin)
        for template, resource in ((config, CONFIG_MAPS), (WIDGET, WIDGETS)):
            for number, said in enumerate(metadata):
                written = template | {"metadata": {"name": f"n{number}"} | said}
                try:
                    await place.admin.create(resource, written, namespace=NAMESPACE)
                    refused = ""
                except ApiError as error:
                    refused = str(error)
                _, answer = await place.post("/validate", app_wrapper("one", pod("p"), written))
                assert answer["allowed"] is not bool(refused), (written, refused, answer)


async def test_a_kind_without_namespaces_is_refused(opening: Opening) -> None:
    """Of a kind that Berth does not know, discovery says it."""
    async with opening() as place:
        await define_widgets(place.admin, scope="Cluster")
        for template in (WIDGET, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}):

            async def answer(template: JSON = template) -> str:
                return str((await place.post("/validate", app_wrapper("one", pod("p"), template)))[1])

            said = f"components[1].template.kind: want a kind whose objects are in namespaces, got '{template['kind']}'"
            await eventually(answer, lambda text, said=said: said in text)


async def test_a_manifest_of_v05_waits_in_the_queue_of_its_annotation(opening: Opening) -> None:
    async with opening() as place:
        body = app_wrapper("v05", pod("p"), suspend=True)
        body["metadata"]["annotations"] = {QUEUE_NAME: "user-queue"}
        made = await place.create(body)
        assert made["metadata"]["labels"][QUEUE_NAME] == "user-queue"
        _, answer = await place.post("/validate", body)
        assert any("the form of AppWrapper v0.5" in one for one in answer["warnings"])
        body["metadata"] |= {"name": "resumed"}
        body["spec"]["suspend"] = False
        assert (await place.create(body))["spec"]["suspend"] is True


async def test_more_pod_sets_than_a_workload_has_are_refused(opening: Opening) -> None:
    async with opening(kueue=True) as place:
        pods = [pod(f"p{number}") for number in range(19)]
        await place.create(app_wrapper("fits", *pods[:18]))
        assert "contains 19 podspecs; at most 18 are allowed" in await place.refused(app_wrapper("more", *pods))
        name = "workloads.kueue.x-k8s.io"
        definition = await place.admin.get(CUSTOM_RESOURCE_DEFINITIONS, name)
        operations = [
            {
                "op": "replace",
                "path": f"/spec/versions/{index}/schema/openAPIV3Schema/properties/spec/properties/podSets/maxItems",
                "value": 8,
            }
            for index in range(len(definition["spec"]["versions"]))
        ]
        await place.admin.patch(CUSTOM_RESOURCE_DEFINITIONS, name, operations, patch_type="json")

        async def answer() -> str:
            return str(await place.post("/validate", app_wrapper("many", *pods[:9])))

        await eventually(answer, lambda said: "at most 8 are allowed" in said)


async def test_users_get_through_an_app_wrapper_what_they_may_create(opening: Opening) -> None:
    async with opening() as place, place.user("alice", PODS_RULE) as alice:
        await place.create(app_wrapper("mine", pod("p")), client=alice)
        said = await place.refused(app_wrapper("more", pod("p"), job("j")), client=alice)
        assert "spec.components[1].template: User alice is not authorized to create jobs in default" in said
        assert "components[0]" not in said
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        said = await place.refused(app_wrapper("unknown", pod("p"), widget), client=alice)
        assert "not authorized to create * in default" in said


async def test_a_cluster_that_cannot_be_asked_is_no_denial(opening: Opening) -> None:
    """The webhook may read, and may not ask for rights: a fault of the cluster, HTTP 500."""
    async with opening(weak=True) as place:
        status, answer = await place.post("/validate", app_wrapper("one", pod("p")))
        assert (status, answer["status"]["reason"]) == (500, "Unavailable")
        assert "subjectaccessreviews" in answer["status"]["message"]


@pytest.mark.parametrize("path", ["/mutate", "/validate", PEERS_PATH])
@pytest.mark.parametrize("user", ["system:admin", "alice"])
async def test_a_caller_that_has_not_proven_to_be_an_api_server_learns_nothing(
    opening: Opening, path: str, user: str
) -> None:
    """No right is asked for: the answer is the same for one who may create everything, and for one who may nothing."""
    async with opening(weak=True) as place:
        body = app_wrapper("one", pod("p"))
        for further in ({}, {"bearer": "x" * 64}, {"bearer": ""}):
            status, answer = await place.post(path, body, proven=False, user=user, **further)
            assert (status, answer["allowed"], answer["status"]["code"]) == (200, False, 403)
            assert "--caller-token-file" in answer["status"]["message"]
            assert user not in str(answer)
        _, answer = await place.post(f"{path}/{'y' * 64}", body, proven=False, user=user)
        assert answer["status"]["reason"] == "UnprovenCaller"


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_without_the_token_in_its_path_the_author_reads_what_is_missing(opening: Opening, policy: str) -> None:
    """Whatever the failurePolicy: an AppWrapper that was not checked is not admitted."""
    async with opening() as place:
        for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            configuration = await place.admin.get(kind, "berth")
            for webhook in configuration["webhooks"]:
                client = webhook["clientConfig"]
                webhook |= {"failurePolicy": policy}
                webhook["clientConfig"] = client | {"url": client["url"].removesuffix(f"/{CALLER_TOKEN}")}
            await place.admin.patch(kind, "berth", {"webhooks": configuration["webhooks"]}, patch_type="merge")
        async with place.user("alice", PODS_RULE) as alice:

            async def refusal() -> str:
                try:
                    await place.create(app_wrapper("one", pod("p")), client=alice)
                except ApiError as error:
                    return str(error)
                # A real API server learns of the change a moment later.
                await place.admin.delete(APP_WRAPPERS, "one", namespace=NAMESPACE)
                return ""

            text = await eventually(refusal)
            assert "has not proven to be an API server: want its client certificate (--client-ca" in text


async def test_a_bearer_token_proves_the_caller_too(opening: Opening) -> None:
    async with opening() as place:
        status, answer = await place.post("/validate", app_wrapper("one", pod("p")), proven=False, bearer=CALLER_TOKEN)
        assert (status, answer["allowed"]) == (200, True)


async def test_too_many_components_are_refused_before_anything_else(opening: Opening) -> None:
    """No right is asked for: this webhook may not ask for any."""
    services = (a_service(f"s-{number}") for number in range(MOST_COMPONENTS))
    async with opening(weak=True) as place:
        status, answer = await place.post("/validate", app_wrapper("many", pod("p"), *services))
        assert (status, answer["allowed"]) == (200, False)
        assert f"got {MOST_COMPONENTS + 1} components, want at most {MOST_COMPONENTS}" in answer["status"]["message"]


async def test_warnings_for_what_means_nothing(opening: Opening) -> None:
    async with opening(appwrapper_controller=f"{SYSTEM}/controller") as place:
        await place.admin.create(
            Resource("", "v1", "serviceaccounts", "ServiceAccount"),
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "controller"}},
            namespace=SYSTEM,
        )
        body = app_wrapper("warned", pod("p"), retrylimit="3", retryLimit="many")
        _, answer = await place.post("/validate", body)
        assert answer["allowed"]
        said = "\n".join(answer["warnings"])
        assert "retrylimit]: has no meaning; is workload.codeflare.dev.appwrapper/retryLimit meant?" in said
        assert "retryLimit]: want an integer, got 'many'; 3 is used" in said
        assert (
            f"the controller (system:serviceaccount:{SYSTEM}:controller) may not get, create, delete, list, watch"
            in said
        )
        assert 'Add to its role: {apiGroups: [""], resources: [pods]' in said


async def test_what_may_not_change_later(opening: Opening) -> None:
    async with opening() as place:
        await place.create(app_wrapper("fixed", pod("p")))
        template = {"spec": pod("p")["spec"], "metadata": {"name": "p"}, "kind": "Pod", "apiVersion": "v1"}
        await place.change("fixed", {"spec": {"components": [{"template": template}]}})
        said = await place.unchanged("fixed", {"spec": {"components": [{"template": pod("q")}]}})
        assert "spec.components[0].template: attempt to change immutable field" in said
        said = await place.unchanged("fixed", {"metadata": {"labels": {USER: "another"}}})
        assert f"metadata.labels[{USER}]: attempt to change immutable field" in said
        said = await place.unchanged("fixed", {"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}})
        assert "spec.managedBy: attempt to change immutable field" in said
        await place.change("fixed", {"spec": {"suspend": True}, "metadata": {"annotations": {"a": "b"}}})


async def test_strict_admission_asks_for_more_rights(opening: Opening) -> None:
    async with opening(appwrapper_strict=True) as place, place.user("bob", PODS_RULE) as bob:
        said = await place.refused(app_wrapper("one", pod("p")), client=bob)
        assert "User bob is not authorized to delete pods in default" in said
        jobs = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "delete"]}
        await place.grant("bob", WRAP, jobs)
        said = await place.refused(app_wrapper("two", job("j")), client=bob)
        assert "User bob is not authorized to create pods in default" in said
        await place.grant("bob", WRAP, jobs, PODS_RULE)
        await place.create(app_wrapper("three", job("j")), client=bob)


async def test_what_makes_pods_is_looked_for_in_slices(opening: Opening) -> None:
    """The API server has been asked for the kinds before: the rest of a big review lets others pass all the same."""
    async with opening(appwrapper_strict=True) as place:
        entitlement = Entitlement(Access(lambda: place.admin), strict=True, controller="")
        big = a_service("x") | {"spec": {"values": [{"a": [n]} for n in range(20_000)]}}
        pace = Pace()
        for paced, slices in ((None, 0), (pace, 40_000 // STEPS)):
            with pacing(paced):
                assert await entitlement.problems(UserInfo("bob"), [{"template": big}], NAMESPACE)
            assert (pace.slices > slices) == bool(paced)


async def test_strict_admission_keeps_users_from_passing_by_kueue(opening: Opening) -> None:
    async with opening(appwrapper_strict=True) as place:
        may = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete"]}
        admits = WRAP | {"verbs": ["patch", "get", "admit"]}
        async with place.user("carol", may) as carol, place.user("kueue", admits) as kueue:
            made = await place.create(queued("waits", pod("p")), client=carol)
            assert '"username":"carol"' in made["metadata"]["annotations"][CREATOR]
            said = await place.unchanged("waits", {"spec": {"suspend": False}}, client=carol)
            assert "spec.suspend: want the verb admit on appwrappers.workload.codeflare.dev" in said
            component = {"template": pod("p"), "podSetInfos": [{"nodeSelector": {"a": "b"}}]}
            said = await place.unchanged("waits", {"spec": {"components": [component]}}, client=carol)
            assert "spec.components[].podSetInfos: want the verb admit" in said
            said = await place.unchanged("waits", {"metadata": {"labels": {QUEUE_NAME: None}}}, client=carol)
            assert f"metadata.labels[{QUEUE_NAME}]: want the verb admit" in said
            said = await place.unchanged("waits", {"metadata": {"annotations": {CREATOR: "{}"}}}, client=carol)
            assert "Berth alone writes it" in said
            parent = job("parent", suspend=True)
            parent["metadata"]["labels"] = {QUEUE_NAME: "user-queue"}
            owner = reference(await place.admin.create(JOBS, parent, namespace=NAMESPACE))
            said = await place.refused(owned("claims", owner), client=carol)
            assert "spec.suspend: want the verb admit" in said
            said = await place.unchanged("waits", {"metadata": {"ownerReferences": [owner]}}, client=carol)
            assert "metadata.ownerReferences: want the verb admit" in said
            await place.change("waits", {"spec": {"suspend": False}}, client=kueue)
            await place.change("waits", {"spec": {"suspend": True}}, client=kueue)
            await place.grant("carol", WRAP)
            said = await place.unchanged("waits", {"spec": {"suspend": False}}, client=kueue)
            assert "User carol is not authorized to create pods in default" in said


async def test_an_empty_queue_is_none(opening: Opening) -> None:
    async with opening() as place:
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG}}
        config["data"] = {"any": "appwrapper: {defaultQueueName: usual}"}
        await place.admin.create(CONFIG_MAPS, config, namespace=SYSTEM)
        unnamed = app_wrapper("unnamed", pod("p"))
        unnamed["metadata"]["labels"] = {QUEUE_NAME: ""}

        async def made() -> JSON:
            with contextlib.suppress(ApiError):
                await place.admin.delete(APP_WRAPPERS, "unnamed", namespace=NAMESPACE)
            return await place.create(unnamed)

        found = await eventually(made, lambda one: bool(one["metadata"]["labels"][QUEUE_NAME]))
        assert (found["metadata"]["labels"][QUEUE_NAME], found["spec"]["suspend"]) == ("usual", True)


async def test_the_default_queue_of_the_namespace(opening: Opening) -> None:
    """As Kueue's LocalQueueDefaulting; what belongs to an object that Kueue manages is counted with that."""
    async with opening(charted=True, kueue=True) as place:

        async def made(name: str, *owners: JSON, suspend: bool = False, **metadata: Any) -> tuple[str | None, bool]:
            body = app_wrapper(name, pod("p"))
            body["metadata"] |= {"ownerReferences": list(owners), **metadata}
            body["spec"]["suspend"] = suspend
            created = await place.create(body)
            return created["metadata"]["labels"].get(QUEUE_NAME), bool(created["spec"].get("suspend"))

        assert await made("before") == (None, False)
        queue = LOCAL_QUEUES.body({"name": "other"}, spec={"clusterQueue": "c"})
        await place.admin.create(LOCAL_QUEUES, queue, namespace=NAMESPACE)
        assert await made("still") == (None, False)
        queue = LOCAL_QUEUES.body({"name": "default"}, spec={"clusterQueue": "c"})
        await place.admin.create(LOCAL_QUEUES, queue, namespace=NAMESPACE)
        assert await made("unnamed") == ("default", True)
        assert await made("empty", labels={QUEUE_NAME: ""}) == ("default", True)
        assert await made("named", labels={QUEUE_NAME: "other"}) == ("other", True)
        parents = [job("managed", suspend=True), job("unmanaged", suspend=True)]
        parents[0]["metadata"]["labels"] = {QUEUE_NAME: "other"}
        owners = [await place.admin.create(JOBS, parent, namespace=NAMESPACE) for parent in parents]
        managed, unmanaged = map(reference, owners)
        assert await made("child", managed) == (None, False)
        assert await made("suspended", managed, suspend=True) == (None, True)
        assert await made("orphan", managed | {"name": "absent"}) == ("default", True)
        assert await made("beside", unmanaged) == ("default", True)
        await place.admin.delete(LOCAL_QUEUES, "default", namespace=NAMESPACE)
        assert await made("after") == (None, False)


async def test_only_what_belongs_to_a_job_that_kueue_manages_does_not_wait(opening: Opening) -> None:
    """As Kueue follows owners: each exists, with the UID that the reference says, and one of them has a queue."""
    async with opening(charted=True) as place:

        async def create(resource: Resource, body: JSON, *owners: JSON, **labels: str) -> JSON:
            body["metadata"] |= {
                "ownerReferences": list(owners),
                "labels": {**body["metadata"].get("labels", {})} | labels,
            }
            return reference(await place.admin.create(resource, body, namespace=NAMESPACE))

        async def waits(name: str, owner: JSON) -> bool:
            return bool((await place.create(owned(name, owner)))["spec"]["suspend"])

        queue = {QUEUE_NAME: "user-queue"}
        bare = await create(PODS, pod("bare"))
        empty = await create(PODS, pod("empty"), **{QUEUE_NAME: ""})
        managed = await create(JOBS, job("managed", suspend=True), **queue)
        above = await create(DEPLOYMENTS, deployment("above"), **queue)
        between = await create(REPLICA_SETS, replica_set("between"), above)
        loop = await create(JOBS, job("loop", suspend=True), bare | {"name": "nobody"})
        assert await waits("one", bare)
        assert await waits("two", empty)
        assert not await waits("three", managed)
        assert await waits("four", managed | {"uid": bare["uid"]})
        assert await waits("five", managed | {"name": "absent"})
        assert not await waits("seven", between)
        assert await waits("eight", loop)
        assert await waits("nine", managed | {"controller": False})
        parent = bare
        for number in range(12):
            parent = await create(JOBS, job(f"deep{number}", suspend=True), parent if number else managed)
        assert await waits("ten", parent)


async def test_strict_admission_asks_who_changes_what_runs(opening: Opening) -> None:
    """Frank may patch AppWrappers, and may create no Pods: what he changes would make Pods for him."""
    async with opening(appwrapper_strict=True) as place:
        may = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete"]}
        deletes = may | {"verbs": ["delete"]}
        async with place.user("alice", may) as alice, place.user("frank", deletes) as frank:
            body = app_wrapper("waits", pod("p"), suspend=True)
            body["spec"]["components"][0]["podSets"] = [{"path": "template"}]
            await place.create(body, client=alice)
            info = {"labels": {"app": "payroll"}, "nodeSelector": {"node-role.kubernetes.io/control-plane": ""}}
            component = body["spec"]["components"][0] | {"podSetInfos": [info]}
            kueue = "kueue.x-k8s.io"
            for field, change in {
                "spec.suspend": {"spec": {"suspend": False}},
                "spec.components[].podSetInfos": {"spec": {"components": [component]}},
                "spec.components[].podSets": {
                    "spec": {"components": [body["spec"]["components"][0] | {"podSets": [ANNOTATED]}]}
                },
                f"metadata.labels[{QUEUE_NAME}]": {"metadata": {"labels": {QUEUE_NAME: "user-queue"}}},
                f"metadata.labels[{kueue}/priority-class]": {
                    "metadata": {"labels": {f"{kueue}/priority-class": "high"}}
                },
                f"metadata.annotations[provreq.{kueue}/a]": {"metadata": {"annotations": {f"provreq.{kueue}/a": "b"}}},
            }.items():
                said = await place.unchanged("waits", change, client=frank)
                assert "components[0].template: User frank is not authorized to create pods in default" in said
                assert f"; {field}: " in said
            retries = {"workload.codeflare.dev.appwrapper/retryLimit": "1"}
            await place.change("waits", {"metadata": {"annotations": retries, "labels": {"team": "b"}}}, client=frank)
            await place.change("waits", {"spec": {"components": [component], "suspend": False}}, client=alice)
            said = await place.unchanged("waits", {"spec": {"suspend": True}}, client=frank)
            assert "; spec.suspend: " in said


async def test_who_has_left_a_group_resumes_nothing_by_it(opening: Opening) -> None:
    """Of the creator who asks, the groups of the request count; for all others those of the creation."""
    async with opening(appwrapper_strict=True) as place:
        may = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete"]}
        await place.grant("devs", may, kind="Group")
        body = app_wrapper("waits", pod("p"), suspend=True)
        resumed, stopped = {"spec": {"suspend": False}}, {"spec": {"suspend": True}}
        admits = WRAP | {"verbs": ["patch", "get", "admit"]}
        async with (
            place.user("carol", groups=("devs",)) as member,
            place.user("carol") as former,
            place.user("kueue", admits) as kueue,
        ):
            made = await place.create(body, client=member)
            creator = made["metadata"]["annotations"][CREATOR]
            assert '"devs"' in creator
            assert "credential-id" not in creator
            said = await place.unchanged("waits", resumed, client=former)
            assert said.count("User carol is not authorized to create pods in default") == 1
            await place.change("waits", resumed, client=kueue)
            await place.change("waits", stopped, client=kueue)
            await place.change("waits", resumed, client=member)


async def test_a_certificate_of_the_creator_is_not_shown(opening: Opening) -> None:
    """An API server says by which credential a user asks: it is nobody's business who reads the AppWrapper."""
    async with opening(appwrapper_strict=True) as place:
        made = await place.create(app_wrapper("mine", pod("p"), suspend=True))
        assert "credential-id" not in made["metadata"]["annotations"][CREATOR]


@pytest.mark.parametrize("strict", [False, True])
async def test_without_strict_nothing_more_is_asked(opening: Opening, strict: bool) -> None:  # noqa: FBT001
    async with opening(appwrapper_strict=strict) as place, place.user("dave", PODS_RULE | {"verbs": ["*"]}) as dave:
        await place.create(queued("waits", pod("p")), client=dave)
        if strict:
            await place.unchanged("waits", {"spec": {"suspend": False}}, client=dave)
        else:
            await place.change("waits", {"spec": {"suspend": False}}, client=dave)


async def test_no_user_can_name_another_creator(opening: Opening) -> None:
    """Not before admission is strict either: it is believed afterwards."""
    async with opening() as place, place.user("eve", PODS_RULE) as eve:
        forged = app_wrapper("forged", pod("p"))
        forged["metadata"]["annotations"] = {CREATOR: '{"username":"admin"}'}
        made = await place.create(forged, client=eve)
        assert '"username":"eve"' in made["metadata"]["annotations"][CREATOR]
        _, answer = await place.post("/validate", forged)
        assert "Berth alone writes it" in answer["status"]["message"]


async def test_strict_admission_lets_berths_own_namespace_have_some(opening: Opening) -> None:
    async with opening(appwrapper_strict=True) as place:
        await place.admin.create(APP_WRAPPERS, app_wrapper("own", pod("p")), namespace=SYSTEM)


async def test_a_wrong_label_from_before_does_not_prevent_other_changes(opening: Opening) -> None:
    async with opening() as place:
        await place.admin.delete(VALIDATING_WEBHOOKS, "berth")
        body = app_wrapper("old", pod("p"))
        body["metadata"]["labels"] = {"kueue.x-k8s.io/max-exec-time-seconds": "soon"}
        made = await place.create(body)
        labels = made["metadata"]["labels"]
        changed = made | {"metadata": made["metadata"] | {"finalizers": ["workload.codeflare.dev/finalizer"]}}
        _, answer = await place.post("/validate", changed, old=made)
        assert answer["allowed"], answer
        changed["metadata"] = changed["metadata"] | {"labels": labels | {"kueue.x-k8s.io/max-exec-time-seconds": "-1"}}
        _, answer = await place.post("/validate", changed, old=made)
        assert not answer["allowed"]


ANNOTATED = {"path": "template", "annotations": {"a": "b"}}


def reference(obj: JSON) -> JSON:
    """The owner reference that makes the object the controller of another."""
    said = {field: obj["metadata"][field] for field in ("name", "uid")}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "controller": True, **said}


def owned(name: str, owner: JSON) -> JSON:
    body = queued(name, pod("p"))
    body["metadata"]["ownerReferences"] = [owner]
    return body


def deployment(name: str, kind: str = "Deployment") -> JSON:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod("p")["spec"] | {"restartPolicy": "Always"}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def replica_set(name: str) -> JSON:
    return deployment(name, "ReplicaSet")


HOSTILE: list[Any] = [
    None,
    [],
    "text",
    {"components": None},
    {"components": [None, 1]},
    {"components": [{"template": 1}]},
    {"components": [{"template": {"apiVersion": "v1", "kind": "Pod", "spec": 1}}]},
    {"components": [{"template": {"apiVersion": 1, "kind": [], "metadata": []}}]},
    {"components": [{"template": pod("p"), "podSets": 1, "podSetInfos": 7}]},
    {"components": [{"template": pod("p"), "podSets": [None, {"path": 5, "replicas": "x"}]}]},
    {"components": [{"template": {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": "x"}}}]},
    {"components": [{"template": pod("p"), "podSets": [{"path": "template" + "[0]" * 5000}]}]},
]


@pytest.mark.parametrize("strict", [False, True])
async def test_any_object_gets_an_answer(opening: Opening, strict: bool) -> None:  # noqa: FBT001
    async with opening(appwrapper_strict=strict) as place:
        for spec in HOSTILE:
            body = app_wrapper("hostile") | {"spec": spec}
            body["metadata"] |= {"labels": {QUEUE_NAME: "q"}}
            for path in ("/mutate", "/validate"):
                status, answer = await place.post(path, body)
                assert status == 200, (spec, answer)
                assert answer["allowed"] is (path == "/mutate"), spec
        for metadata in ({}, {"metadata": None}, {"metadata": {}}, {"metadata": {"name": "hostile"}}):
            body = app_wrapper("hostile", pod("p"))
            del body["metadata"]
            assert (await place.post("/validate", body | metadata))[0] == 200, metadata
