"""Reviews of AppWrappers: an API server calls the webhook over TLS, and the webhook asks that API server for rights."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import yaml

from app.appwrappers.model import APP_WRAPPERS, CREATOR, QUEUE_NAME, USER, USER_ID
from app.appwrappers.sizes import MOST_COMPONENTS
from app.devtools.clusters.certificates import write_webhook_certificate
from app.devtools.clusters.parts import running_parts
from app.devtools.clusters.registering import register
from app.devtools.clusters.webhooks import start_webhook
from app.devtools.kueue.definitions import kueue_definitions
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from app.kube.transport import connect
from tests.support.appwrappers import CONFIG, NAMESPACE, SYSTEM, AppWrapperCluster, app_wrapper, job, open_cluster, pod
from tests.support.appwrappers import service as a_service
from tests.support.waiting import eventually

JSON = dict[str, Any]
RBAC = "rbac.authorization.k8s.io"
ROLES = Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
BINDINGS = Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
WRAP = {"apiGroups": [APP_WRAPPERS.group], "resources": ["appwrappers"], "verbs": ["create", "update", "patch", "get"]}
PODS_RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}
PEERS_PATH = "/mutate-workload-codeflare-dev-v1beta2-appwrapper"


class Reviewed:
    """A cluster whose API server calls the webhook; `post` asks the webhook itself."""

    def __init__(self, cluster: AppWrapperCluster, port: int) -> None:
        self.cluster, self.admin, self._port = cluster, cluster.admin, port

    async def create(self, body: JSON, *, client: KubeClient | None = None) -> JSON:
        return await (client or self.admin).create(APP_WRAPPERS, body, namespace=NAMESPACE)

    async def change(self, name: str, body: JSON, *, client: KubeClient | None = None) -> JSON:
        patch = (client or self.admin).patch
        return await patch(APP_WRAPPERS, name, body, patch_type="merge", namespace=NAMESPACE)

    async def refused(self, body: JSON, *, client: KubeClient | None = None) -> str:
        with pytest.raises(ApiError) as refusal:
            await self.create(body, client=client)
        return str(refusal.value)

    async def unchanged(self, name: str, body: JSON, *, client: KubeClient | None = None) -> str:
        with pytest.raises(ApiError) as refusal:
            await self.change(name, body, client=client)
        return str(refusal.value)

    async def grant(self, user: str, *rules: JSON) -> None:
        """Give a user these rights, and no others."""
        role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": user}, "rules": list(rules)}
        await self.admin.apply(ROLES, user, role)
        ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": user}
        subjects = [{"apiGroup": RBAC, "kind": "User", "name": user}]
        binding = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": user}}
        await self.admin.apply(BINDINGS, user, binding | {"roleRef": ref, "subjects": subjects})

    def acting_as(self, name: str) -> str:
        """The path of a kubeconfig by which an administrator impersonates this user."""
        config = yaml.safe_load(Path(self.cluster.kubeconfig).read_text())
        config["users"][0]["user"]["as"] = name
        path = Path(self.cluster.kubeconfig).with_name(f"{name}.kubeconfig")
        path.write_text(yaml.safe_dump(config))
        return str(path)

    @contextlib.asynccontextmanager
    async def user(self, name: str, *rules: JSON) -> AsyncIterator[KubeClient]:
        await self.grant(name, WRAP, *rules)
        async with await connect(kubeconfig=self.acting_as(name)) as client:
            yield client

    async def post(self, path: str, body: JSON, *, old: JSON | None = None) -> tuple[int, JSON]:
        """A review of the creation, or of the change of an `old` one, by curl as it were."""
        request = {
            "uid": "u",
            "kind": {"group": APP_WRAPPERS.group, "version": APP_WRAPPERS.version, "kind": APP_WRAPPERS.kind},
            "operation": "UPDATE" if old else "CREATE",
            "namespace": NAMESPACE,
            "userInfo": {"username": "system:admin", "groups": ["system:masters"]},
            "object": body,
            "oldObject": old,
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        async with aiohttp.ClientSession() as session:
            answer = await session.post(f"https://127.0.0.1:{self._port}{path}", json=review, ssl=False)
            return answer.status, (await answer.json())["response"]


Opening = Callable[..., contextlib.AbstractAsyncContextManager[Reviewed]]


@pytest_asyncio.fixture
async def opening(tmp_path: Path) -> Opening:
    @contextlib.asynccontextmanager
    async def opened(*, weak: bool = False, kueue: bool = False, **settings: Any) -> AsyncIterator[Reviewed]:
        async with open_cluster(tmp_path) as cluster, running_parts() as parts:
            for body in kueue_definitions() if kueue else ():
                await cluster.admin.create(CUSTOM_RESOURCE_DEFINITIONS, body)
            bundle = write_webhook_certificate(tmp_path / "webhook")
            path = cluster.kubeconfig
            if weak:
                path = tmp_path / "weak.kubeconfig"
                path.write_text(cluster.kubeconfig.read_text().replace("  user:\n", "  user:\n    as: weak\n", 1))
                every = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
                await Reviewed(cluster, 0).grant("weak", every)
            common = {
                "kubeconfig": str(path),
                "namespace": SYSTEM,
                "insecure": True,
                "tls_cert_file": str(tmp_path / "webhook" / "tls.crt"),
                "tls_private_key_file": str(tmp_path / "webhook" / "tls.key"),
                "drain_seconds": 0.0,
                "appwrappers": True,
            }
            port, _ = await start_webhook(parts, common | settings, host="127.0.0.1", where="the cluster")
            await register(cluster.admin, port=port, bundle=bundle, infra=False, every=True)
            yield Reviewed(cluster, port)

    return opened


def queued(name: str, *templates: JSON, **spec: Any) -> JSON:
    body = app_wrapper(name, *templates)
    body["metadata"]["labels"] = {QUEUE_NAME: "user-queue"}
    body["spec"] |= spec
    return body


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
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
            body = queued("claims", pod("p"))
            body["metadata"]["ownerReferences"] = [owner]
            assert "spec.suspend: want the verb admit" in await place.refused(body, client=carol)
            await place.change("waits", {"spec": {"suspend": False}}, client=kueue)
            await place.change("waits", {"spec": {"suspend": True}}, client=kueue)
            await place.grant("carol", WRAP)
            said = await place.unchanged("waits", {"spec": {"suspend": False}}, client=kueue)
            assert "User carol is not authorized to create pods in default" in said


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
