"""The largest Pod that policies take, and the largest number of attachments, on a real API server; and files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.policies.cel import EXPRESSION_LIMIT
from app.policies.leaving import MOST_CONTAINERS, MOST_LABELS, MOST_MOUNTS, MOST_NETWORKS
from app.policies.model import PolicyMode, Terms
from app.policies.objects import OBJECT_LIMIT
from tests.support.chart import ASSETS, Render
from tests.support.policy_stage import JSON, Stage, Verdict, chart_entry, late_networks, network, pod_with, policy_stage
from tests.support.real_parts import needs, since
from tests.support.waiting import wait_until

pytestmark = [*needs("etcd", "kube-apiserver"), since(36)]
HOME = "limits"
SELECTOR = "k8s.v1.cni.cncf.io/nodeSelector"


def _selector(index: int) -> str:
    """As many labels as one may have: one in common, the others of its own."""
    own = (f"k{index}.{place}=v" for place in range(MOST_LABELS - 1))
    return ",".join(("common=x", *own))


LARGEST = [
    network(f"w{index}", f"example.com/w{index}", HOME, **{SELECTOR: _selector(index)})
    for index in range(MOST_NETWORKS)
]
"""As many networks as a Pod may select, each with a resource and labels of its own."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, render: Render) -> Iterator[Stage]:
    with policy_stage(Path(ASSETS), tmp_path_factory.mktemp("stage"), chart_entry(render)) as stage:
        for api in (stage.webhook, stage.policies):
            api.make_namespaces([HOME])
        yield stage


def largest_pod(containers: int = MOST_CONTAINERS, mounts: int = MOST_MOUNTS) -> JSON:
    """A Pod whose containers all ask for all resources, and for less than its networks need."""
    amounts = {f"example.com/w{index}": "1" for index in range(MOST_NETWORKS)}
    pod = pod_with(",".join(f"w{index}@interface-{index:05}" for index in range(MOST_NETWORKS)))
    pod["metadata"]["annotations"]["berth.dev/resources-container"] = f"c{containers - 1:02}"
    pod["spec"]["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    each, more = divmod(mounts, containers)
    pod["spec"]["containers"] = [
        {
            "name": f"c{place:02}",
            "image": "registry.example/app",
            "resources": {"limits": amounts, "requests": {} if place % 2 else amounts},
            "volumeMounts": [
                {"name": "scratch", "mountPath": f"/data/{mount}"} for mount in range(each + (place < more))
            ],
        }
        for place in range(containers)
    ]
    return pod


def many(count: int) -> list[JSON]:
    """Attachments with names as long as usual, a third of them with a node selector."""
    selector = {SELECTOR: "feature.node.kubernetes.io/network-sriov.capable=true"}
    return [
        network(
            f"network-{index:05}",
            f"example.com/resource_{index % 400:03}",
            f"namespace-{index % 97:02}",
            **(selector if index % 3 == 0 else {}),
        )
        for index in range(count)
    ]


@pytest.mark.parametrize("mode", ["policies", "both"])
def test_the_largest_pod_stays_below_the_cost_that_an_api_server_allows(stage: Stage, mode: PolicyMode) -> None:
    """And is not taken for a larger one when it is judged again with what policies added."""
    stage.serve([*LARGEST, *many(10_000)], Terms(mode=mode))
    assert max(stage.generated.sizes.values()) < OBJECT_LIMIT
    by_webhook, by_policy = stage.judged(largest_pod(), HOME)
    assert by_policy.pod is not None, by_policy
    assert by_policy.pod == by_webhook.pod
    if mode == "both":
        before = stage.reviews
        assert stage.policies.judged(largest_pod(), HOME).pod == by_webhook.pod
        assert stage.reviews == before


def hostile(count: int) -> list[JSON]:
    """Attachments whose names, resources and labels are as long as the API lets them be."""
    labels = ",".join(f"{'p' * 253}/{'k' * 62}{place}={'v' * 63}" for place in range(MOST_LABELS))
    huge = ",".join(f"k{place}={'v' * 60}" for place in range(3_500))
    return [
        network("huge", "example.com/huge", HOME, **{SELECTOR: huge}),
        *(
            network(
                f"n{index:05}{'x' * 247}",
                f"{'d' * 240}{index % 1_000:04}/{'r' * 63}",
                f"zz{index % 97:02}{'y' * 59}",
                **({SELECTOR: labels} if index % 50 == 0 else {}),
            )
            for index in range(count)
        ),
    ]


@pytest.mark.parametrize("mode", ["policies", "both"])
def test_what_does_not_fit_stops_no_neighbor(stage: Stage, mode: PolicyMode) -> None:
    """10,000 attachments that are as large as they may be: an API server takes what is generated, and serves Pods."""
    stage.serve([network("foo", "example.com/foo", HOME), *hostile(10_000)], Terms(mode=mode))
    generated = stage.generated
    assert OBJECT_LIMIT * 0.99 < max(generated.sizes.values()) <= OBJECT_LIMIT
    assert generated.longest <= EXPRESSION_LIMIT
    assert len(generated.left) + len(generated.networks) == 10_003
    reasons = {left.subject: left.reason for left in generated.left}
    assert f"3500 labels; policies take up to {MOST_LABELS}" in reasons[f"NetworkAttachmentDefinition {HOME}/huge"]
    by_webhook, by_policy = stage.judged(pod_with("foo"), HOME)
    assert by_policy.pod is not None
    assert by_policy.pod == by_webhook.pod
    by_webhook, by_policy = stage.judged(pod_with("huge"), HOME)
    assert by_policy.left if mode == "policies" else by_policy.pod == by_webhook.pod


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (largest_pod(MOST_CONTAINERS + 1), f"more than {MOST_CONTAINERS} containers"),
        (largest_pod(mounts=MOST_MOUNTS + 1), f"more than {MOST_MOUNTS} volumes or mounts"),
        (pod_with(",".join(["w1"] * (MOST_NETWORKS + 1))), f"more than {MOST_NETWORKS} elements"),
        (pod_with("w1," + " " * 4096), "more than 4096 characters"),
    ],
)
def test_a_larger_pod_is_left_to_the_webhook(stage: Stage, pod: JSON, reason: str) -> None:
    if stage.generated.condition or not stage.generated.objects:
        stage.serve(LARGEST, Terms())
    for container in pod["spec"]["containers"]:
        container["resources"] = {}  # which alone would be invalid without the injection
    verdict = stage.policies.judged(pod, HOME)
    assert verdict.left, verdict
    assert reason in verdict.message


def test_a_pod_that_gets_its_networks_too_late_is_the_webhooks(stage: Stage) -> None:
    """With both: policies do not see its networks, and so the webhook is called, for a node selector alone too."""
    labeled = network("labeled", "", HOME, **{SELECTOR: "a=b"})
    stage.serve([network("foo", "example.com/foo", HOME), labeled], Terms(mode="both"))
    for networks, field in (("foo", "volumes"), ("labeled", "nodeSelector")):
        for obj in late_networks(networks):
            stage.policies.apply(obj)
        verdict = wait_until(lambda wanted=networks: _annotated(stage, wanted))
        assert verdict.pod is not None
        assert field in verdict.pod["spec"]


def test_a_pod_that_no_policy_has_served_is_the_webhooks(stage: Stage) -> None:
    """The policies have gone with their owner, and the condition has stayed: what a Pod brings does not hide its lack."""
    labeled = network("labeled", "", HOME, **{SELECTOR: "k=v"})
    stage.serve([network("foo", "example.com/foo", HOME), labeled], Terms(mode="both"))
    stage.remove_policies()
    brought = {"nodeSelector": {"zone": "x"}, "volumes": [{"name": "podnetinfo", "emptyDir": {}}]}
    for networks in ("labeled", "foo", "labeled,foo"):
        pod = pod_with(networks, **brought)
        by_webhook, served = stage.judged(pod, HOME)
        assert served.pod is not None
        assert served.pod == by_webhook.pod
    assert served.pod["spec"]["nodeSelector"] == {"zone": "x", "k": "v"}


def _annotated(stage: Stage, networks: str) -> Verdict | None:
    """The Pod, where the other policy has given it these networks."""
    verdict = stage.policies.judged(pod_with(None), HOME)
    return verdict if f'"{networks}"' in json.dumps((verdict.pod or {}).get("metadata")) else None
