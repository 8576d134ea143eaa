"""Reviews of RMD over TLS: an API server calls them, and they follow what that API server has."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from app.admission.parts import Parts
from app.errors import ApiError
from app.kube.resources import CONFIG_MAPS, MUTATING_WEBHOOKS, NODES, PODS, VALIDATING_WEBHOOKS, Resource
from app.registration import further_webhooks
from app.rmd.admission.review import review
from app.rmd.model import L3_CACHE_WAYS, RMD_CONFIGS, RMD_WORKLOADS
from app.rmd.permissions import ASKS
from app.rmd.settings import AdmissionSettings
from tests.support.rmd_cluster import NAMESPACE, SYSTEM, RmdCluster
from tests.support.rmd_reviews import CLASSES, config_map, container, pod
from tests.support.served_reviews import served_reviews
from tests.support.waiting import eventually

JSON = dict[str, Any]
CLASS = "rdt.resources.beta.kubernetes.io/container.c1"
FINE = {"coreIds": ["0-1"], "rdt": {"cache": {"max": 2, "min": 2}}, "nodes": ["n1"]}


class Reviewed:
    """A cluster whose API server calls the reviews at a port."""

    def __init__(self, cluster: RmdCluster, port: int, part: Parts) -> None:
        self.admin, self.part, self._port = cluster.admin, part, port

    async def pod(self, body: JSON) -> JSON:
        body = {**body, "metadata": {"generateName": "p-", "annotations": body["metadata"]["annotations"]}}
        del body["spec"]["nodeName"]
        return await self.admin.create(PODS, body, namespace=NAMESPACE)

    async def refused(self, resource: Resource, body: JSON) -> str:
        with pytest.raises(ApiError) as refusal:
            await (self.pod(body) if resource is PODS else self.admin.create(resource, body, namespace=NAMESPACE))
        return str(refusal.value)

    async def post(self, path: str, body: JSON, *, namespace: str = NAMESPACE) -> JSON:
        """The answer to the creation of an object, by curl as it were."""
        group, _, version = body["apiVersion"].rpartition("/")
        kind = {"group": group, "version": version, "kind": body["kind"]}
        request = {"uid": "u", "kind": kind, "operation": "CREATE", "namespace": namespace, "dryRun": True}
        sent = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request | {"object": body}}
        async with aiohttp.ClientSession() as session:
            answer = await session.post(f"https://127.0.0.1:{self._port}{path}", json=sent, ssl=False)
            assert answer.status == 200
            response: JSON = (await answer.json())["response"]
            return response


@contextlib.asynccontextmanager
async def reviewed(cluster: RmdCluster, folder: Path, **settings: Any) -> AsyncIterator[Reviewed]:
    given = AdmissionSettings.load(settings, environment=False)
    serving = served_reviews(review, given, kubeconfig=cluster.kubeconfig, folder=folder, namespace=SYSTEM)
    async with serving as served:
        await register(cluster, served.port, served.bundle)
        yield Reviewed(cluster, served.port, served.part)


async def register(cluster: RmdCluster, port: int, bundle: str) -> None:
    """As the chart does it, from the descriptors of the wing."""
    for resource, path, kinds in (
        (MUTATING_WEBHOOKS, "/mutate", ("pods",)),
        (VALIDATING_WEBHOOKS, "/validate", ("rmd-pods", "rmdworkloads")),
    ):
        called = {
            "clientConfig": {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "NoneOnDryRun",
            "failurePolicy": "Fail",
        }
        entries = [one for kind in kinds for one in further_webhooks(kind, called, exempt=(SYSTEM,))]
        for entry in entries if path == "/mutate" else ():
            entry["matchConditions"] = [{"name": "asks", "expression": " || ".join(one.expression for one in ASKS)}]
        await cluster.admin.apply(resource, "berth", resource.body({"name": "berth"}, webhooks=entries))


async def announce(cluster: RmdCluster, node: str, ways: str) -> None:
    await cluster.add_node(node)
    status = {"status": {"allocatable": {"cpu": "8", L3_CACHE_WAYS: ways}}}
    await cluster.admin.patch(NODES, node, status, patch_type="merge", subresource="status")


async def test_pods_that_no_daemon_can_serve_are_refused(cluster: RmdCluster, tmp_path: Path) -> None:
    async with reviewed(cluster, tmp_path / "webhook", rmd_backend="daemon") as place:
        assert "want whole CPUs" in await place.refused(PODS, pod(container(cpu="500m")))
        made = await place.pod(pod(container()))
        assert made["spec"]["containers"][0]["resources"]["limits"][L3_CACHE_WAYS] == "2"
        name = made["metadata"]["name"]
        wrong, right = ({"metadata": {"annotations": {"c1_mba_percentage": text}}} for text in ("x", "50"))
        with pytest.raises(ApiError, match="want a whole number, got 'x'"):
            await place.admin.patch(PODS, name, wrong, patch_type="merge", namespace=NAMESPACE)
        await place.admin.patch(PODS, name, right, patch_type="merge", namespace=NAMESPACE)
        await place.pod(pod(container(ways=None, cpu="500m"), c1_mba_percentage="x"))


async def test_ways_are_those_that_nodes_announce(cluster: RmdCluster, tmp_path: Path) -> None:
    await announce(cluster, "n1", "3")
    async with reviewed(cluster, tmp_path / "webhook", rmd_backend="daemon") as place:
        (warning,) = (await place.post("/validate", pod(container(ways="4"))))["warnings"]
        assert warning.endswith("and no node has more than 3")
        await announce(cluster, "n2", "4")
        await eventually(lambda: place.post("/validate", pod(container(ways="4"))), lambda one: "warnings" not in one)


async def test_workloads_and_the_config_are_checked(cluster: RmdCluster, tmp_path: Path) -> None:
    await cluster.add_node("n1")
    async with reviewed(cluster, tmp_path / "webhook", rmd_backend="daemon") as place:
        wrong = RMD_WORKLOADS.body({"name": "w"}, spec={**FINE, "coreIds": ["3-1"]})
        assert "spec.coreIds[0]: want the lower core first" in await place.refused(RMD_WORKLOADS, wrong)
        await place.admin.create(RMD_WORKLOADS, RMD_WORKLOADS.body({"name": "w"}, spec=FINE), namespace=NAMESPACE)
        finalizer = {"metadata": {"finalizers": ["example.com/kept"]}}
        await place.admin.patch(RMD_WORKLOADS, "w", finalizer, patch_type="merge", namespace=NAMESPACE)
        change = {"spec": {"rdt": {"cache": {"min": 3}}}}
        with pytest.raises(ApiError, match=r"spec\.rdt\.cache\.min: want at most max, 2, got 3"):
            await place.admin.patch(RMD_WORKLOADS, "w", change, patch_type="merge", namespace=NAMESPACE)
        config = RMD_CONFIGS.body({"name": "rmdconfig"}, spec={"rmdNodeSelector": {"a b": "c"}})
        assert "spec.rmdNodeSelector[a b]" in await place.refused(RMD_CONFIGS, config)


async def test_workloads_of_other_namespaces_are_counted(cluster: RmdCluster, tmp_path: Path) -> None:
    await cluster.add_node("n1")
    async with reviewed(cluster, tmp_path / "webhook", rmd_backend="daemon") as place:
        mine = RMD_WORKLOADS.body({"name": "payroll"}, spec=FINE)
        await place.admin.create(RMD_WORKLOADS, mine, namespace=NAMESPACE)
        asked = RMD_WORKLOADS.body({"name": "w"}, spec=FINE)

        async def warned(namespace: str) -> str:
            return " ".join((await place.post("/validate", asked, namespace=namespace)).get("warnings", ()))

        near = await eventually(lambda: warned(NAMESPACE))
        assert f"cores 0-1 of n1 for {NAMESPACE}/payroll" in near
        far = await warned("nowhere")
        assert far.endswith("others ask for cores 0-1 of n1 for 1 RmdWorkload of another namespace")
        assert "payroll" not in far


async def test_classes_follow_their_config_map(cluster: RmdCluster, tmp_path: Path) -> None:
    async with reviewed(cluster, tmp_path / "webhook", rmd_backend="runtime") as place:
        asking = pod(container(cpu="500m"))
        assert "no RDT class serves 2 cache ways: there are none" in await place.refused(PODS, asking)

        async def say(text: str) -> None:
            await place.admin.apply(CONFIG_MAPS, CLASSES, config_map(text), namespace=SYSTEM)

        async def chosen() -> str:
            patch = (await place.post("/mutate", asking)).get("patch", "")
            found = json.loads(base64.b64decode(patch)) if patch else []
            return next((str(one["value"]) for one in found if one["path"].endswith("c1")), "")

        await say("classes: [{name: four, cacheWays: 4}]")
        await eventually(chosen, lambda name: name == "four")
        made = await place.pod(pod(container(cpu="500m")))
        assert made["metadata"]["annotations"] == {CLASS: "four"}
        assert made["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "500m", "memory": "64Mi"}
        assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "64Mi"}
        await say("classes: [{name: two, cacheWays: 2}, {name: bad, cacheWays: 0}]")
        await eventually(place.part.problems)
        assert await chosen() == "four", "what cannot be read changes nothing"
        await say("classes: [{name: two, cacheWays: 2}, {name: four, cacheWays: 4}]")
        await eventually(chosen, lambda name: name == "two")
        assert place.part.problems() == []


async def test_daemons_take_over_as_soon_as_a_node_announces_ways(cluster: RmdCluster, tmp_path: Path) -> None:
    await cluster.admin.apply(CONFIG_MAPS, CLASSES, config_map("classes: [{name: a, cacheWays: 4}]"), namespace=SYSTEM)
    async with reviewed(cluster, tmp_path / "webhook", rmd_backend="auto") as place:
        assert (await place.pod(pod(container())))["metadata"]["annotations"] == {CLASS: "a"}
        await announce(cluster, "n1", "7")
        await eventually(lambda: place.post("/mutate", pod(container())), lambda one: "patch" not in one)
        made = await place.pod(pod(container()))
        assert CLASS not in made["metadata"].get("annotations", {})
        assert made["spec"]["containers"][0]["resources"]["limits"][L3_CACHE_WAYS] == "2"
