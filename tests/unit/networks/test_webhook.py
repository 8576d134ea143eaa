"""The injector in the chain: which requests it looks at, the namespace it believes, and what it reports."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from app.admission.chain import MutationPlan
from app.admission.review import GroupVersionKind, decode
from app.errors import Denied, Transient
from app.networks.model import NETWORKS
from app.networks.settings import Switches
from app.networks.userdefined import Injection
from app.networks.webhook import NetworksInjector
from app.text import MESSAGE
from tests.support.patches import patched
from tests.support.paths import REVIEWS
from tests.support.pod_requests import OTHERS, request_for

from .conftest import attachment, inject, lookup_for

POD = {"metadata": {"annotations": {NETWORKS: "foo"}}, "spec": {"containers": [{"name": "a"}]}}


@pytest.mark.parametrize("fields", OTHERS)
async def test_other_requests_leave_the_plan_untouched(injection: Any, fields: dict[str, Any]) -> None:
    """Only the creation of a Pod is looked at."""
    plan = MutationPlan()
    await inject(injection.injector(), request_for(POD, **fields), plan)
    untouched = MutationPlan()
    assert plan.patch.operations == []
    assert (plan.reason, plan.message, plan.warnings, plan.audit) == (untouched.reason, "", [], {})


async def test_a_review_that_names_the_resource_alone_is_about_a_pod(injection: Any) -> None:
    """Hand-written reviews often leave the kind out."""
    run = await injection.run(POD, kind=GroupVersionKind())
    assert run.decision.reason == "Injected"


async def test_the_namespace_of_the_request_is_believed(injection: Any) -> None:
    """The object's own namespace counts only where the request has none; with neither nothing is looked up."""
    injection.attachments = [attachment("foo", "example.com/foo", namespace="real")]
    pod = json.loads(json.dumps(POD))
    pod["metadata"]["namespace"] = "claimed"
    assert (await injection.run(pod, namespace="real")).decision.reason == "Injected"
    assert "'claimed/foo'" in (await injection.run(pod, namespace="")).decision.message
    unknown = await injection.run(POD, namespace="")
    assert (unknown.decision.reason, unknown.plan.patch.operations) == ("NoNamespace", [])
    pod["metadata"]["annotations"][NETWORKS] = "real/foo"
    assert (await injection.run(pod, namespace="")).decision.reason == "Injected"


async def test_switches_that_are_not_loaded_are_no_decision() -> None:
    """Without the switches a label's injection could be missed; a Pod that has neither label nor network passes."""

    def switches() -> Switches:
        raise Transient("not loaded yet")

    injector = NetworksInjector(lookup_for([]), switches=switches)
    with pytest.raises(Transient):
        await inject(injector, request_for(POD), MutationPlan())
    plan = MutationPlan()
    await inject(injector, request_for({"metadata": {}, "spec": {"containers": [{"name": "a"}]}}), plan)
    assert plan.reason == "NoNetworks"


@pytest.mark.parametrize(
    "obj",
    [
        [],
        7,
        "text",
        {"metadata": []},
        {"metadata": {"labels": {"a": 1}}},
        {"spec": {"containers": {}}},
        {"spec": {"containers": [None]}},
        {"spec": {"hostNetwork": "yes"}},
    ],
)
async def test_an_object_that_is_no_pod_is_denied(injection: Any, obj: Any) -> None:
    """The message says where the object cannot be read."""
    with pytest.raises(Denied, match="not a Pod that can be read") as caught:
        await inject(injection.injector(), request_for(obj), MutationPlan())
    assert caught.value.code == 400


async def test_deep_json_is_denied(injection: Any) -> None:
    """Nesting is bounded by the decoder, not by the stack."""
    deep = b'{"metadata":' + b'{"x":' * 100_000 + b"1" + b"}" * 100_000 + b"}"
    with pytest.raises(Denied, match="not a Pod"):
        await inject(injection.injector(), request_for({}, object=msgspec.Raw(deep)), MutationPlan())


async def test_a_pod_without_containers_is_denied(injection: Any) -> None:
    """There is nothing that could hold what its networks need."""
    run = await injection.run({"metadata": {"annotations": {NETWORKS: "foo"}}})
    assert (run.decision.allowed, run.decision.reason) == (False, "NoContainers")


async def test_what_was_injected_is_counted_and_audited(injection: Any) -> None:
    """The metric gets kinds and numbers, the audit log resources and attachments."""
    injection.attachments = [attachment("foo", "example.com/foo", **{"k8s.v1.cni.cncf.io/nodeSelector": "a=b"})]
    annotations = {"note": "1"}
    injection.switches = Switches(injections=(Injection("x", annotations),))
    pod = {"metadata": POD["metadata"] | {"labels": {"x": "true"}}, "spec": POD["spec"]}
    run = await injection.run(pod)
    assert run.plan.injected == {"resource": 1, "volume": 2, "node-selector": 1, "annotation": 1}
    assert run.decision.audit_annotations == {
        "decision": "Injected",
        "resources": "example.com/foo=1 for default/foo",
        "volume": "podnetinfo at /etc/podnetinfo for example.com/foo",
        "node-selector": "a=b for default/foo",
        "annotations": "note for label x",
    }


async def test_audit_stays_short(injection: Any) -> None:
    """Many attachments do not flood the audit log."""
    names = [f"network-{index}" for index in range(100)]
    injection.attachments = [attachment(name, "example.com/foo") for name in names]
    pod = json.loads(json.dumps(POD))
    pod["metadata"]["annotations"][NETWORKS] = ",".join(names)
    run = await injection.run(pod)
    assert run.pod["spec"]["containers"][0]["resources"]["limits"] == {"example.com/foo": "100"}
    assert len(run.decision.audit_annotations["resources"]) == MESSAGE


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        ("plain", []),
        (
            "webhook-demo",
            [
                "/spec/containers/0/resources/requests",
                "/spec/containers/0/resources/requests/example.com~1foo",
                "/spec/containers/0/resources/limits",
                "/spec/containers/0/resources/limits/example.com~1foo",
                "/spec/containers/0/volumeMounts",
                "/spec/containers/0/volumeMounts/-",
                "/spec/volumes",
                "/spec/volumes/-",
            ],
        ),
        (
            "rich",
            [
                "/spec/containers/0/resources/requests/example.com~1bar",
                "/spec/containers/0/resources/limits/example.com~1bar",
                "/spec/containers/0/resources/requests/example.com~1foo",
                "/spec/containers/0/resources/limits/example.com~1foo",
                "/spec/containers/0/env/-",
                "/spec/containers/0/volumeMounts/-",
                "/spec/containers/1/volumeMounts",
                "/spec/containers/1/volumeMounts/-",
                "/spec/volumes/-",
            ],
        ),
    ],
)
async def test_reviews_of_a_real_api_server(name: str, paths: list[str]) -> None:
    """The recorded reviews get the operations in this order, and a second injection plans none."""
    request = decode((REVIEWS / f"Pod-{name}-CREATE.json").read_bytes()).request
    lookup = lookup_for([attachment("foo-network", "example.com/foo"), attachment("bar-network", "example.com/bar")])
    injector = NetworksInjector(lookup, switches=lambda: Switches(hugepage_down_api=True))
    plan = MutationPlan()
    await inject(injector, request, plan)
    assert [operation.path for operation in plan.patch.operations] == paths
    pod = patched(json.loads(bytes(request.object)), plan.patch)
    again = MutationPlan()
    await inject(injector, request_for(pod), again)
    assert again.patch.operations == []


async def test_injected_annotations_stand_in_the_order_of_their_keys(injection: Any) -> None:
    """Whichever entry they come from."""
    injection.switches = Switches(injections=(Injection("x", {"z": "1"}), Injection("y", {"a": "1", "m": "1"})))
    pod = {"metadata": {"labels": {"x": "true", "y": "true"}}, "spec": {"containers": [{"name": "a"}]}}
    paths = [operation.path for operation in (await injection.run(pod)).plan.patch.operations]
    assert paths == ["/metadata/annotations", *(f"/metadata/annotations/{key}" for key in "amz")]
