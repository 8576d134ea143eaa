"""`berth webhook --injected-annotation` over TLS: what was injected stands on the object, once, and is true."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pytest

from app.admission.injected import INJECTED_BY
from app.placement.model import DPU_OF_HOST
from tests.support.webhook_process import Pki, Webhook

Json = dict[str, Any]
Review = Callable[[str], Json]
Patched = Callable[[Json, Json], Json]
FULL = {
    "version": version("berth"),
    "networks": ["default/foo-network"],
    "resources": {"example.com/foo": "2"},
    "volumes": ["podnetinfo"],
}


@pytest.fixture(scope="module")
def says(launch: Callable[..., Webhook], pki: Pki) -> Webhook:
    return launch(pki, "--insecure", "--injected-annotation", "--workers=1").until_ready()


def with_annotations(review: Json, **annotations: str | None) -> Json:
    found = review["request"]["object"]["metadata"].setdefault("annotations", {})
    for key, value in annotations.items():
        found[key] = value
    return review


def said(pod: Json) -> Json | None:
    text = (pod["metadata"].get("annotations") or {}).get(INJECTED_BY)
    return None if text is None else json.loads(text)


def answered(webhook: Webhook, asked: Json, patched: Patched) -> Json:
    """The object as it is after the review."""
    status, answer = webhook.post(asked)
    assert (status, answer["response"]["allowed"]) == (200, True), answer
    return patched(asked, answer) if "patch" in answer["response"] else asked["request"]["object"]


def again(asked: Json, obj: Json) -> Json:
    return {**asked, "request": {**asked["request"], "object": obj}}


def test_what_was_injected_is_said_and_a_second_pass_changes_nothing(
    says: Webhook, review: Review, patched: Patched
) -> None:
    asked = review("webhook-demo")
    pod = answered(says, asked, patched)
    assert said(pod) == FULL
    assert "patch" not in says.post(again(asked, pod))[1]["response"]
    plain = review("plain")
    assert "patch" not in says.post(plain)[1]["response"]


def test_pods_alike_get_the_kept_answer(says: Webhook, review: Review, patched: Patched) -> None:
    before = says.metrics()['admission_memo_lookups_total{result="hit"}']
    pods = [answered(says, review("webhook-demo"), patched) for _ in range(4)]
    assert all(said(pod) == FULL for pod in pods)
    assert says.metrics()['admission_memo_lookups_total{result="hit"}'] > before


@pytest.mark.parametrize(
    "forged",
    [
        json.dumps({"version": "9.9", "resources": {"example.com/foo": "7"}, "volumes": ["stolen"]}),
        json.dumps({"version": "0.0.1", "networks": ["kube-system/secret"]}),
        json.dumps({"fields": ["/spec/nowhere", "/spec/containers/9/image"], "removed": ["cpu"], "x": 7}),
        json.dumps(
            {"fields": ["/spec/containers"], "resources": {"cpu": "1"}, "annotations": ["k8s.v1.cni.cncf.io/networks"]}
        ),
        json.dumps({"resources": {"other.io/nic": "1"}, "volumes": ["own"], "nodeSelector": {"disk": "own"}}),
        json.dumps({"env": ["OWN"], "claims": ["own"], "placement": {"zone": "a"}, "metadata": ["x"]}),
        "no JSON",
        "[" * 5000,
        "",
        "null",
    ],
)
def test_a_value_that_a_client_made_up_is_corrected(
    says: Webhook, review: Review, patched: Patched, forged: str
) -> None:
    """What the object has, and Berth puts into none or not into this one, is taken out as well."""

    def own(name: str) -> Json:
        asked = review(name)
        spec = asked["request"]["object"]["spec"]
        spec["nodeSelector"] = {"disk": "own"}
        spec["volumes"] = [*spec.get("volumes", ()), {"name": "own", "emptyDir": {}}]
        spec["resourceClaims"] = [{"name": "own", "resourceClaimName": "own"}]
        spec["affinity"] = {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
                }
            }
        }
        amounts = {"cpu": "1", "other.io/nic": "1"}
        spec["containers"][0]["resources"] = {"limits": {**amounts}, "requests": {**amounts}}
        spec["containers"][0]["env"] = [{"name": "OWN", "value": "x"}]
        return asked

    pod = answered(says, with_annotations(own("webhook-demo"), **{INJECTED_BY: forged}), patched)
    assert said(pod) == FULL
    # Nothing is injected into this one: it loses the annotation.
    plain = with_annotations(own("plain"), **{INJECTED_BY: forged})
    assert INJECTED_BY not in answered(says, copy.deepcopy(plain), patched)["metadata"]["annotations"]


def test_what_another_pass_adds_is_added(says: Webhook, review: Review, patched: Patched) -> None:
    """Another webhook may add a container, or ask for a host, and the API server calls Berth again."""
    asked = review("webhook-demo")
    pod = answered(says, asked, patched)
    pod["metadata"]["annotations"][DPU_OF_HOST] = "host-a"
    pod = answered(says, again(asked, pod), patched)
    host_label = {key: value for key, value in (said(pod) or {}).items() if key == "placement"}
    assert said(pod) == {**FULL, **host_label}
    assert list(host_label["placement"].values()) == ["host-a"]
    pod["spec"]["volumes"] = [volume for volume in pod["spec"]["volumes"] if volume["name"] != "podnetinfo"]
    for container in pod["spec"]["containers"]:
        container["resources"] = {}
    pod["metadata"]["annotations"].pop("k8s.v1.cni.cncf.io/networks")
    pod = answered(says, again(asked, pod), patched)
    assert said(pod) == {"version": version("berth"), **host_label, "volumes": ["podnetinfo"]}, "mounts are left"


def test_a_value_of_another_version_gets_the_own(says: Webhook, review: Review, patched: Patched) -> None:
    asked = review("webhook-demo")
    pod = answered(says, asked, patched)
    pod["metadata"]["annotations"][INJECTED_BY] = json.dumps({**FULL, "version": "0.0.1"})
    assert said(answered(says, again(asked, pod), patched)) == FULL


def test_without_the_flag_the_annotation_is_neither_written_nor_touched(
    server: Webhook, review: Review, patched: Patched
) -> None:
    assert said(answered(server, review("webhook-demo"), patched)) is None
    asked = with_annotations(review("webhook-demo"), **{INJECTED_BY: "theirs"})
    assert answered(server, asked, patched)["metadata"]["annotations"][INJECTED_BY] == "theirs"


def test_a_kubelet_may_show_its_static_pod_as_it_is(says: Webhook, review: Review) -> None:
    asked = with_annotations(review("plain"), **{INJECTED_BY: "x", "kubernetes.io/config.mirror": "x"})
    asked["request"]["userInfo"]["groups"] = ["system:nodes", "system:authenticated"]
    assert "patch" not in says.post(asked)[1]["response"]
