"""What only controllers judge is judged by explaining too: Services on networks, Workloads, RmdConfigs, ConfigMaps.

And what `/validate` judges, also for wings that are off.
"""

from __future__ import annotations

from typing import Any

import pytest

from app.explain.answer import Answer
from app.explain.explaining import explain
from app.explain.rehearsal import Rehearsal
from app.registry import settings_of
from app.services.model import INTERFACE, NETWORK, REQUEST, SELECTOR, Problem, read_wish
from tests.support.explaining import given
from tests.support.pods import pod

SYSTEM = "berth-system"


def attachment(name: str, ipam: str = '"ipam": {"type": "host-local", "subnet": "10.0.0.0/24"}') -> dict[str, Any]:
    config = f'{{"cniVersion": "0.3.1", "type": "macvlan", {ipam}}}'
    metadata = {"name": name}
    return {
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": metadata,
        "spec": {"config": config},
    }  # fmt: skip


def service(annotations: dict[str, Any], **spec: Any) -> dict[str, Any]:
    metadata = {"name": "s", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 1}], **spec}}


async def found(*objects: dict[str, Any], **settings: Any) -> list[tuple[str, str, str]]:
    chosen = settings_of("webhook").load(settings, environment=False)
    answer = await explain(given(*objects), Rehearsal(chosen, SYSTEM))
    return [(one.severity, one.reason, one.text) for one in answer.findings]


@pytest.mark.parametrize(
    ("annotations", "spec"),
    [
        ({NETWORK: "net"}, {"selector": {"app": "x"}}),
        ({NETWORK: "net", SELECTOR: "app=x"}, {"selector": {"app": "x"}}),
        ({NETWORK: "net", SELECTOR: "app=x"}, {"type": "ExternalName", "externalName": "a.b"}),
        ({NETWORK: "net"}, {}),
        ({NETWORK: "net", SELECTOR: " "}, {}),
        ({NETWORK: "net", SELECTOR: "a in ("}, {}),
        ({NETWORK: "", SELECTOR: "app=x"}, {}),
        ({NETWORK: "Net", SELECTOR: "app=x"}, {}),
        ({NETWORK: "a/b/c", SELECTOR: "app=x"}, {}),
        ({NETWORK: "net", INTERFACE: "eth1", SELECTOR: "app=x"}, {}),
        ({INTERFACE: "a/b", SELECTOR: "app=x"}, {}),
        ({REQUEST: "A_b", SELECTOR: "app=x"}, {}),
        ({REQUEST: "vf"}, {"selector": {"app": "x"}}),
    ],
)
async def test_what_the_controller_refuses_of_a_service_is_an_error_in_its_words(annotations, spec) -> None:
    problem = read_wish("default", annotations, spec)
    assert isinstance(problem, Problem)
    text = f"error: Service default/s (f:1): {problem.message}"
    assert await found(service(annotations, **spec), attachment("net")) == [("error", problem.reason, text)]


async def test_a_service_on_an_attachment_of_the_manifests_is_right() -> None:
    wish = {NETWORK: "net", SELECTOR: "app=x"}
    there = pod(labels={"app": "x"}, annotations={"k8s.v1.cni.cncf.io/networks": "net"})
    assert await found(service(wish), attachment("net"), there) == []
    assert await found(service({INTERFACE: "eth1", SELECTOR: "app=x"}), pod(labels={"app": "x"})) == []


async def test_an_attachment_that_is_not_there_or_without_subnets() -> None:
    wish = {NETWORK: "other/net", SELECTOR: "app=x"}
    ((severity, reason, text),) = await found(service(wish), attachment("net"))
    assert (severity, reason) == ("error", "AttachmentNotFound")
    assert "metadata.annotations[berth.dev/network]: there is no NetworkAttachmentDefinition other/net; want" in text
    ((severity, reason, text),) = await found(
        service({**wish, NETWORK: "net"}), attachment("net", '"ipam": {"type": "dhcp"}')
    )
    assert (severity, reason) == ("warning", "SubnetsUnknown")
    assert "no subnets are known of network default/net, so no address of Pods is published; give" in text


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (pod(labels={"app": "x"}), True),
        (pod(labels={"app": "x"}, annotations={"k8s.v1.cni.cncf.io/networks": "second"}), True),
        (pod(labels={"app": "y"}), False),
        (pod(labels={"app": "x"}, hostNetwork=True), False),
        (pod(labels={"app": "x"}, resourceClaims=[{"name": "c", "resourceClaimName": "c"}]), False),
        (pod(labels={"app": "x"}, annotations={"v1.multus-cni.io/default-network": "default/net"}), False),
    ],
)
async def test_pods_of_the_manifests_that_ask_for_other_networks_alone_are_warned_of(other, named) -> None:
    objects = service({NETWORK: "net", SELECTOR: "app=x"}), attachment("net"), attachment("second"), other
    reasons = [(severity, reason) for severity, reason, _ in await found(*objects)]
    assert reasons == [("warning", "PodsNotAttached")] * named


async def test_a_selector_alone_has_no_effect() -> None:
    ((severity, reason, _),) = await found(service({SELECTOR: "app=x"}))
    assert (severity, reason) == ("warning", "NoNetwork")


CLASS = {
    "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
    "metadata": {"name": "vf", "annotations": {"berth.dev/claim-template": "{"}},
    "spec": {"selectors": [{"cel": {"expression": "true"}}]},
}  # fmt: skip


def config_map(name: str, data: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": SYSTEM}, "data": data}


def rmd(kind: str, spec: dict[str, Any], name: str, namespace: str = "default") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "intel.com/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def workload(name: str, namespace: str) -> dict[str, Any]:
    api_version, metadata = "workload.infra.universe.nvidia.com/v1alpha1", {"name": name, "namespace": namespace}
    return {"apiVersion": api_version, "kind": "Workload", "metadata": metadata, "spec": {"metadata": {"id": "a"}}}


@pytest.mark.parametrize(
    ("obj", "findings"),
    [
        (config_map("nri-control-switches", {"config.json": "{"}), [("warning", "InvalidConfiguration")]),
        (config_map("berth-rmd-classes", {"classes.yaml": "[]"}), [("warning", "InvalidConfiguration")]),
        (config_map("appwrapper-operator-config", {"config.yaml": "a: ["}), [("warning", "InvalidConfiguration")]),
        (config_map("berth-claim-templates", {"vf": "a: ["}), [("error", "InvalidClaimDefinition")]),
        (config_map("berth-claim-templates", {"vf": "{requests: {vf: vf.example.com}}"}), []),
        (config_map("other", {"config.json": "{"}), []),
        (CLASS, [("error", "InvalidClaimDefinition")]),
        (rmd("RmdConfig", {"rmdImage": "a b"}, "rmdconfig"), [("error", "InvalidRmdConfig")]),
        (rmd("RmdConfig", {}, "other"), [("error", "InvalidRmdConfig")]),
        (rmd("RmdConfig", {}, "rmdconfig", "elsewhere"), [("warning", "WrongNamespace")]),
        (rmd("RmdWorkload", {"coreIds": ["1"], "nodes": ["n"]}, "w"), [("error", "InvalidRmdWorkload")]),
        (workload("w", "default"), [("error", "InvalidWorkload")]),
        (workload("other", "tenant-a"), [("error", "InvalidWorkload")]),
    ],
)
async def test_every_object_that_a_wing_reads_is_judged_although_the_wing_is_off(obj, findings) -> None:
    assert [(severity, reason) for severity, reason, _ in await found(obj)] == findings


async def test_claims_and_their_templates_are_judged_in_namespaces_of_tenants() -> None:
    tenant = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t", "labels": {"berth.dev/tenant": "a"}}}
    devices = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "x"}}]}}
    shared = {"apiVersion": "resource.k8s.io/v1", "metadata": {"name": "c", "namespace": "t"}}
    claims = (
        {**shared, "kind": "ResourceClaim", "spec": devices},
        {**shared, "kind": "ResourceClaimTemplate", "spec": {"spec": devices}},
    )
    texts = [text for _, _, text in await found(tenant, *claims, confine_tenants=True)]
    assert len(texts) == 2
    assert all("not allowed in the namespace of a tenant" in text for text in texts)
    assert await found(*claims, confine_tenants=True) == []


def wrapped(*templates: dict[str, Any]) -> dict[str, Any]:
    components = [{"template": template} for template in templates]
    return {
        "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
        "metadata": {"name": "aw", "namespace": "team"}, "spec": {"components": components},
    }  # fmt: skip


def claim_template(version: str) -> dict[str, Any]:
    request = {"name": "r", "deviceClassName": "vf.example.com"}
    if version != "v1beta1":
        request = {"name": "r", "exactly": {"deviceClassName": "vf.example.com"}}
    return {
        "apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceClaimTemplate", "metadata": {"name": "two"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }  # fmt: skip


async def explained(*objects: dict[str, Any], **settings: Any) -> Answer:
    chosen = settings_of("webhook").load(settings, environment=False)
    return await explain(given(*objects), Rehearsal(chosen, SYSTEM))


async def test_pods_of_an_app_wrapper_see_the_objects_that_it_creates() -> None:
    running = pod(labels={"app": "x"}, annotations={"k8s.v1.cni.cncf.io/networks": "net"}, restartPolicy="Never")
    wish = service({NETWORK: "net", SELECTOR: "app=x"})
    answer = await explained(wrapped(attachment("net"), wish, running))
    assert [one.denied for one in answer.pods] == [False]
    assert (answer.findings, answer.unused) == ([], {})
    assert (await explained(wrapped(wish, running))).pods[0].denied


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1beta2"])
async def test_a_wrapped_claim_template_says_which_devices_a_pod_has(version) -> None:
    classes = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "vf.example.com"}}
    claims = [{"name": "c", "resourceClaimTemplateName": "two"}]
    running = pod(restartPolicy="Never", resourceClaims=claims)
    (result,) = (await explained(classes, wrapped(claim_template(version), running))).pods
    assert [road.partition(":")[0] for road in result.roads] == ["claim c"]
    assert (await explained(classes, wrapped(running))).pods[0].roads == ()


async def test_what_is_wrong_with_a_wrapped_object_is_said_with_its_place_and_once() -> None:
    broken = {**attachment("net"), "spec": {"config": "{}"}}
    broken["metadata"] = {"name": "net", "labels": {"k8s.v1.cni.cncf.io/resourceName": "x"}}
    wish = service({NETWORK: "absent", SELECTOR: "app=x"})
    answer = await explained(wrapped(broken, wish, pod(restartPolicy="Never")))
    assert [one.text.partition(": ")[2][:80] for one in answer.findings] == [
        "AppWrapper team/aw (f:1): spec.components[0].template.metadata.labels[k8s.v1.cni",
        "NetworkAttachmentDefinition team/net (f:1 spec.components[0].template): would be",
        "Service team/s (f:1 spec.components[1].template): metadata.annotations[berth.dev",
    ]
    assert answer.findings[1].members["path"] == "spec.components[0].template"


async def test_objects_of_other_kinds_in_an_app_wrapper_are_left_alone() -> None:
    odd: Any = [None, [], {"template": 3}, {"template": {"kind": 3}}, {"template": {"kind": "Service", "spec": []}}]
    answer = await explained({**wrapped(), "spec": {"components": odd}})
    assert answer.pods == []
    foreign = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"annotations": {NETWORK: "n"}}}
    (finding,) = (await explained(wrapped(foreign))).findings
    assert "read on Services alone, and not on those of serving.knative.dev" in finding.text
