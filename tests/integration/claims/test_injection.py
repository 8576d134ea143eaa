"""Claims for networks over TLS: an API server calls the webhook, and the controller makes the templates."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.admission.application import review_app
from app.admission.parts import Context, ReviewCaches, chains
from app.admission.server import make_server
from app.appwrappers.model import APP_WRAPPERS
from app.claims.admission.review import review as claims
from app.claims.definitions import CLASS_DEFINITION
from app.claims.permissions import ASKS
from app.devtools.clusters.certificates import write_webhook_certificate
from app.errors import ApiError
from app.kube.resources import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    JOBS,
    MUTATING_WEBHOOKS,
    NETWORK_ATTACHMENTS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    VALIDATING_WEBHOOKS,
    Resource,
)
from app.networks.places import INJECT_TEMPLATE
from app.networks.webhook import review as networks
from app.registration import Terms, further_webhooks, objects_to, pods_to
from app.registry import settings_of
from app.runtime.serving import Sources
from app.serving.listener import bind
from tests.support.appwrappers import app_wrapper
from tests.support.claim_cluster import NAMESPACE, ClaimCluster
from tests.support.claim_reviews import (
    DEFINITIONS,
    NETWORKS,
    PAIR,
    SYSTEM,
    attachment,
    definitions,
    device_class,
    template,
)
from tests.support.waiting import eventually

JSON = dict[str, Any]


class Reviewed:
    """A cluster whose API server calls the webhook."""

    def __init__(self, cluster: ClaimCluster) -> None:
        self.cluster, self.admin = cluster, cluster.admin

    async def pod(self, spec: JSON | None = None, **annotations: str) -> JSON:
        said = {key.replace("networks", NETWORKS): value for key, value in annotations.items()}
        given = {"containers": [{"name": "main", "image": "i"}]} | (spec or {})
        body = PODS.body({"generateName": "p-", "annotations": said}, spec=given)
        return await self.admin.create(PODS, body, namespace=NAMESPACE)

    async def refused(self, request: Any) -> str:
        with pytest.raises(ApiError) as refusal:
            await request
        return str(refusal.value)


@contextlib.asynccontextmanager
async def serving(cluster: ClaimCluster, folder: Path) -> AsyncIterator[None]:
    bundle = write_webhook_certificate(folder)
    given = {"kubeconfig": str(cluster.kubeconfig), "insecure": True, "claims": True, "namespace": SYSTEM}
    settings: Any = settings_of("webhook").load(given, environment=False)
    caches = ReviewCaches()
    context = Context(settings, SYSTEM, caches)
    parts = [networks(context), claims(context)]
    tls, _ = settings.server_context()
    tls.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    app = review_app(chains(parts, namespace=SYSTEM), finished=lambda _outcome: None)
    listener, sources, server = bind("127.0.0.1", 0), Sources(settings, caches), make_server(app, context=tls)
    listener.listen()
    tasks = [asyncio.create_task(sources.run()), asyncio.create_task(server.serve(sockets=[listener]))]
    try:
        await eventually(lambda: server.started and not sources.waiting())
        await register(cluster, listener.getsockname()[1], bundle)
        yield
    finally:
        server.should_exit = True
        await tasks[1]
        tasks[0].cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await tasks[0]


async def register(cluster: ClaimCluster, port: int, bundle: str) -> None:
    """As the chart does it, from the descriptors of the wings."""

    def calling(path: str) -> JSON:
        return {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}

    terms = Terms(exempt=(SYSTEM,))
    mutating = pods_to(calling("/mutate"), name="berth", webhook="pods.berth.dev", terms=terms)
    validating = objects_to(calling("/validate"), name="berth", webhook="objects.berth.dev", terms=terms)
    asks = [f"has(object.metadata.annotations) && '{NETWORKS}' in object.metadata.annotations"]
    asks += [one.expression for one in ASKS]
    called = mutating["webhooks"][0]
    shared = {
        "exempt": (SYSTEM,),
        "sources": {"berth.ownNamespace": (SYSTEM,), "berth.claimTemplatesName": (DEFINITIONS,)},
    }
    mutating["webhooks"] = [called | {"matchConditions": [{"name": "asks", "expression": " || ".join(asks)}]}]
    mutating["webhooks"] += further_webhooks("pod-templates", called, **shared)
    for kind in ("claim-pods", "claim-definitions", "device-classes"):
        validating["webhooks"] += further_webhooks(kind, validating["webhooks"][0], **shared)
    await cluster.admin.apply(MUTATING_WEBHOOKS, "berth", mutating)
    await cluster.admin.apply(VALIDATING_WEBHOOKS, "berth", validating)


@pytest.fixture
def cluster(claim_cluster: ClaimCluster) -> ClaimCluster:
    return claim_cluster


@pytest_asyncio.fixture
async def place(cluster: ClaimCluster, tmp_path: Path) -> AsyncIterator[Reviewed]:
    """With attachments by claim and by resource, a class for both, and the definition gpu-nic."""
    await cluster.make(definitions(gpu_nic=PAIR), CONFIG_MAPS)
    for name in ("vf.example.com", "gpu.example.com"):
        resource = "example.com/foo" if name == "vf.example.com" else ""
        await cluster.make(device_class(name, resource), DEVICE_CLASSES)
    for body in (
        attachment("by-class", device_class="vf.example.com"),
        attachment("by-resource", resource="example.com/foo"),
        attachment("by-template", template="mine"),
    ):
        await cluster.make(body, NETWORK_ATTACHMENTS)
    async with serving(cluster, tmp_path / "webhook"):
        yield Reviewed(cluster)


def claims_in(pod: JSON) -> list[str]:
    """The templates of the claims of a Pod; all claims are used by the first container."""
    claims = pod["spec"].get("resourceClaims") or []
    used = [one["name"] for one in (pod["spec"]["containers"][0].get("resources") or {}).get("claims") or []]
    assert used == [one["name"] for one in claims]
    return [one["resourceClaimTemplateName"] for one in claims]


async def test_networks_get_claims_and_the_claims_their_templates(place: Reviewed) -> None:
    async with place.cluster.controller():
        made = await place.pod(networks="by-class,by-class")
        assert claims_in(made) == ["berth-class-vf.example.com"] * 2
        assert "limits" not in made["spec"]["containers"][0]["resources"]
        await place.cluster.has("berth-class-vf.example.com")


async def test_a_template_that_does_not_exist_is_a_warning(place: Reviewed) -> None:
    assert claims_in(await place.pod(networks="by-template")) == ["mine"]
    await place.cluster.make(template("mine", "vf.example.com"), RESOURCE_CLAIM_TEMPLATES)
    own = {"resourceClaims": [{"name": "own", "resourceClaimTemplateName": "mine"}]}
    own["containers"] = [{"name": "main", "image": "i", "resources": {"claims": [{"name": "own"}]}}]
    assert claims_in(await place.pod(own, networks="by-template")) == ["mine"]


async def test_the_same_hardware_by_resource_and_by_claim_is_refused(place: Reviewed) -> None:
    """Also where the injection of networks adds the resource, or the resource is the implicit one of the class."""
    said = await place.refused(place.pod(networks="by-class,by-resource"))
    assert "spec.containers[0].resources.limits[example.com/foo]" in said
    assert "both ask for a device of DeviceClass vf.example.com" in said
    pair: JSON = {"berth.dev/gpu-nic": "1", "deviceclass.resource.kubernetes.io/gpu.example.com": "1"}
    container = {"name": "main", "image": "i", "resources": {"limits": pair, "requests": dict(pair)}}
    assert "and claim 'gpu-nic-main-0-" in await place.refused(place.pod({"containers": [container]}))
    made = await place.pod(networks="by-resource")
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"example.com/foo": "1"}
    both = {"resources": {"limits": {"example.com/foo": "1"}, "claims": [{"name": "a"}]}}
    spec = {"containers": [{"name": "main", "image": "i"} | both]}
    spec["resourceClaims"] = [{"name": "a", "resourceClaimTemplateName": "berth-class-vf.example.com"}]
    await place.cluster.make(template("berth-class-vf.example.com", "vf.example.com"), RESOURCE_CLAIM_TEMPLATES)
    assert "both ask for a device" in await place.refused(place.pod(spec))
    await place.pod(spec, **{"berth.dev/inject": "false"})


async def test_a_pair_is_asked_for_in_one_line(place: Reviewed) -> None:
    amounts = {"berth.dev/gpu-nic": "2"}
    container = {"name": "main", "image": "i", "resources": {"limits": amounts, "requests": dict(amounts)}}
    async with place.cluster.controller():
        made = await place.pod({"containers": [container]})
        assert claims_in(made) == ["gpu-nic"] * 2
        assert not made["spec"]["containers"][0]["resources"].get("limits")
        await place.cluster.has("gpu-nic")
    unknown = {"name": "main", "image": "i", "resources": {"limits": {"berth.dev/gpus": "1"}}}
    assert "want one of: berth.dev/gpu-nic" in await place.refused(place.pod({"containers": [unknown]}))


async def test_definitions_are_checked_when_they_are_written(place: Reviewed) -> None:
    def change(resource: Resource, name: str, body: JSON, **where: Any) -> Any:
        return place.admin.patch(resource, name, body, patch_type="merge", **where)

    wrong = change(CONFIG_MAPS, DEFINITIONS, {"data": {"x": "requests: {gpu: GPU}"}}, namespace=SYSTEM)
    assert "data[x]: requests.gpu: 'GPU' is not a valid name" in await place.refused(wrong)
    await change(CONFIG_MAPS, DEFINITIONS, {"data": {"x": "requests: {gpu: gpu.example.com}"}}, namespace=SYSTEM)
    elsewhere = {**CONFIG_MAPS.body({"name": DEFINITIONS}), "data": {"x": "3"}}
    await place.admin.create(CONFIG_MAPS, elsewhere, namespace=NAMESPACE)
    marked = {"metadata": {"annotations": {CLASS_DEFINITION: "One_VF"}}}
    said = await place.refused(change(DEVICE_CLASSES, "vf.example.com", marked))
    assert f"metadata.annotations[{CLASS_DEFINITION}]: 'One_VF' is not a valid name" in said
    await change(DEVICE_CLASSES, "vf.example.com", {"metadata": {"annotations": {CLASS_DEFINITION: "one-vf"}}})


async def test_pod_templates_are_injected_into_where_it_is_asked_for(place: Reviewed) -> None:
    def job(name: str, **marks: JSON) -> JSON:
        pod_spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}
        metadata = {"annotations": {NETWORKS: "by-class"}}
        return JOBS.body({"name": name, **marks}, spec={"template": {"metadata": metadata, "spec": pod_spec}})

    plain = await place.admin.create(JOBS, job("plain"), namespace=NAMESPACE)
    assert claims_in(plain["spec"]["template"]) == []
    made = await place.admin.create(JOBS, job("asks", labels={INJECT_TEMPLATE: "true"}), namespace=NAMESPACE)
    assert claims_in(made["spec"]["template"]) == ["berth-class-vf.example.com"]
    # The Pod that the Job controller makes of it lacks nothing.
    pod_template = made["spec"]["template"]
    pod = PODS.body(pod_template["metadata"] | {"generateName": "asks-"}, spec=pod_template["spec"])
    assert claims_in(await place.admin.create(PODS, pod, namespace=NAMESPACE)) == ["berth-class-vf.example.com"]
    inner = PODS.body({"annotations": {NETWORKS: "by-resource"}}, spec=job("")["spec"]["template"]["spec"])
    wrapped = app_wrapper("w", job("inner"), inner)
    wrapped["metadata"]["annotations"] = {INJECT_TEMPLATE: "true"}
    stored = await place.admin.create(APP_WRAPPERS, wrapped, namespace=NAMESPACE)
    first, second = (one["template"] for one in stored["spec"]["components"])
    assert claims_in(first["spec"]["template"]) == ["berth-class-vf.example.com"]
    assert second["spec"]["containers"][0]["resources"]["limits"] == {"example.com/foo": "1"}


async def test_a_template_that_cannot_be_served_is_refused_with_its_place(place: Reviewed) -> None:
    resources = {"limits": {"berth.dev/none": "1"}}
    pod_spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i", "resources": resources}]}
    body = JOBS.body({"name": "j", "annotations": {INJECT_TEMPLATE: "true"}}, spec={"template": {"spec": pod_spec}})
    said = await place.refused(place.admin.create(JOBS, body, namespace=NAMESPACE))
    assert "spec.template: container 'main' asks for 'berth.dev/none'" in said
