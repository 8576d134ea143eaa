"""Answers that are kept for Pods alike are those of a chain that keeps none, byte by byte."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import REGISTRY

from app.admission import memo as memos
from app.admission.chain import Chain, MutationPlan
from app.admission.endpoint import Answer, ReviewEndpoint
from app.admission.memo import Memo
from app.admission.metrics import create_series
from app.admission.review import Request
from app.metrics import publish
from tests.support.claim_reviews import attachment, claim, definitions, device_class, template
from tests.support.memo_reviews import (
    KUBELETS,
    SYSTEM,
    Twins,
    asking,
    body,
    namespace,
    pod,
    rdt_classes,
    switches,
    with_token,
)
from tests.support.rmd_reviews import node

NETWORKS = "k8s.v1.cni.cncf.io/networks"
CONTAINER = "berth.dev/resources-container"
MIRROR = "kubernetes.io/config.mirror"
NAME = "kube-api-access-"


def replica(number: int, obj: dict[str, Any] | None = None, **fields: Any) -> bytes:
    """A replica of a template: everything that no decision reads is its own."""
    obj = with_token(obj or asking(), f"{NAME}{number:05d}")
    owners = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": f"owner-{number}"}]
    metadata = {
        **obj["metadata"],
        "name": f"web-{number}",
        "uid": f"pod-{number}",
        "creationTimestamp": f"2026-11-25T20:00:{number % 60:02d}Z",
        "ownerReferences": owners,
        "managedFields": [{"manager": f"manager-{number}", "operation": "Update"}],
    }
    user = {"username": f"user-{number}", "groups": [f"group-{number}"], "extra": {"number": [str(number)]}}
    own = {"uid": f"uid-{number}", "name": f"web-{number}", "userInfo": user, "dryRun": number % 2 == 0}
    return body({**obj, "metadata": metadata, "status": {"phase": f"{number}"}}, **(own | fields))


def test_replicas_are_decided_twice_and_then_answered() -> None:
    twins = Twins()
    assert twins.hits(*(replica(number) for number in range(10))) == 8


def test_a_replica_is_answered_without_a_decision_and_without_its_pod() -> None:
    decided = []

    class Counting:
        name = "counting"

        def inject(self, request: Request, plan: MutationPlan) -> None:
            decided.append(request.pod.metadata.name)
            plan.warnings.append("a warning")

    endpoint = ReviewEndpoint("mutate", Chain(injectors=[Counting()]), finished=lambda _: None, memo=Memo())
    answers = [endpoint.decide(replica(number)) for number in range(5)]
    assert decided == ["web-0", "web-1"]
    assert [isinstance(one, Answer) and json.loads(one.payload)["response"]["uid"] for one in answers] == [
        f"uid-{number}" for number in range(5)
    ]
    last = answers[-1]
    assert isinstance(last, Answer)
    assert last.request is not None
    assert last.request.names == ("web-4", "")
    assert "pod" not in last.request.__dict__


def test_a_name_that_the_api_server_will_make_is_reported_without_the_metadata() -> None:
    twins = Twins()
    obj = asking()
    obj["metadata"] = {"generateName": "web-", "annotations": obj["metadata"]["annotations"]}
    answers = [twins.ask(body(obj, name="")) for _ in range(3)]
    assert [one.request.names for one in answers if one.request is not None] == [("", "web-")] * 3
    assert answers[-1].request is not None
    assert "metadata" not in answers[-1].request.__dict__


PODS = {"group": "", "version": "v1", "kind": "Pod"}
JOBS = {"group": "batch", "version": "v1", "kind": "Job"}


@pytest.mark.parametrize(
    ("known", "other"),
    [
        pytest.param({}, {"namespace": "blue"}, id="namespace"),
        pytest.param(
            {"namespace": "", "object": {**asking(), "metadata": {**asking()["metadata"], "namespace": "team"}}},
            {"object": {**asking(), "metadata": {**asking()["metadata"], "namespace": "blue"}}},
            id="namespace of the object",
        ),
        pytest.param({}, {"version": "v1beta1"}, id="version of the review"),
        pytest.param({}, {"operation": "UPDATE"}, id="operation"),
        pytest.param({}, {"subResource": "status"}, id="subresource"),
        pytest.param({}, {"kind": JOBS}, id="kind"),
        pytest.param({}, {"kind": {}, "resource": {"version": "v1", "resource": "jobs"}}, id="resource"),
        pytest.param({}, {"object": None}, id="object"),
        pytest.param({}, {"object": pod(annotations={NETWORKS: "foo,foo"})}, id="annotations"),
        pytest.param({}, {"object": {**asking(), "metadata": {"labels": {"berth.dev/inject": "false"}}}}, id="labels"),
        pytest.param({}, {"object": asking(hostNetwork=True)}, id="spec"),
        pytest.param({}, {"object": {"metadata": asking()["metadata"]}}, id="no spec"),
        pytest.param({}, {"object": {**asking(), "metadata": {**asking()["metadata"], "name": 1}}}, id="broken name"),
        pytest.param({}, {"object": {"spec": asking()["spec"]}}, id="no metadata"),
        pytest.param(
            {"namespace": "blue", "object": pod(annotations={MIRROR: "x"}), "userInfo": {"groups": KUBELETS}},
            {"userInfo": {"groups": ["system:masters"]}},
            id="not a kubelet",
        ),
    ],
)
def test_each_input_of_a_decision_is_part_of_the_key(known, other) -> None:
    """In both directions: neither takes the answer of the other."""
    first, second = {"obj": asking()} | _named(known), {"obj": asking()} | _named(known | other)
    for one, another in ((first, second), (second, first)):
        twins = Twins()
        for _ in range(3):
            twins.ask(body(**one))
        for _ in range(3):
            twins.ask(body(**another))


def _named(fields: dict[str, Any]) -> dict[str, Any]:
    return {"obj" if name == "object" else name: value for name, value in fields.items()}


def test_the_inputs_above_do_change_the_decision() -> None:
    """Otherwise the test above would prove nothing."""
    twins = Twins()
    kubelet = {"namespace": "blue", "obj": pod(annotations={MIRROR: "x"})}
    assert _payload(twins, body(asking())) != _payload(twins, body(asking(), namespace="blue"))
    assert _payload(twins, body(asking())) != _payload(twins, body(asking(), operation="UPDATE"))
    assert _payload(twins, body(**kubelet, userInfo={"groups": KUBELETS})) != _payload(twins, body(**kubelet))


def _payload(twins: Twins, content: bytes) -> bytes:
    return twins.ask(content).payload


def two_containers(second: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": "main"}, {"name": second, **more}]


VOLUME_CASES: dict[str, Callable[[str], dict[str, Any]]] = {
    "an annotation names a container of that name": lambda volume: pod(
        annotations={NETWORKS: "foo", CONTAINER: f"{NAME}aaaaa"}, containers=two_containers(volume)
    ),
    "a container has the name": lambda volume: asking(containers=two_containers(volume)),
    "a resource has the name": lambda volume: asking(
        containers=[{"name": "main", "resources": {"limits": {volume: "1"}}}]
    ),
    "a node selector has the name": lambda volume: asking(nodeSelector={"zone": volume}),
    "a claim is made from a template of the name": lambda volume: asking(
        networks="claimed", resourceClaims=[{"name": "mine", "resourceClaimTemplateName": volume}]
    ),
    "a claim has the name": lambda volume: asking(resourceClaims=[{"name": volume, "resourceClaimName": "own"}]),
    "the name is mounted where our volume is": lambda volume: asking(
        volumes=[{"name": volume}],
        containers=[{"name": "main", "volumeMounts": [{"name": volume, "mountPath": "/etc/podnetinfo"}]}],
    ),
    "a variable has the name": lambda volume: asking(
        containers=[{"name": "main", "env": [{"name": "CONTAINER_NAME", "value": volume}]}]
    ),
    "two volumes": lambda volume: asking(volumes=[{"name": volume}, {"name": f"{NAME}bbbbb"}]),
    "part of a longer text": lambda volume: asking(
        containers=[{"name": "main", "args": [f"x {volume}", f'"{volume}']}]
    ),
    "nothing but the volume": lambda volume: with_token(asking(), volume),
}


@pytest.mark.parametrize("case", VOLUME_CASES)
def test_the_name_of_the_token_volume_changes_no_answer(case) -> None:
    twins = Twins()
    twins.store(template(f"{NAME}aaaaa", "vf.example.com", namespace="team"))
    for suffix in ("aaaaa", "aaaaa", "aaaaa", "bbbbb", "bbbbb", "bbbbb", "ccccc", "aaaaa"):
        twins.ask(body(VOLUME_CASES[case](NAME + suffix)))


@pytest.mark.parametrize("spelled", ["\\u006bube-api-access-bbbbb", "kube-api-access-\\u0062bbbb", "kube\\u002dapi"])
def test_other_spellings_of_the_name_are_compared_as_they_came(spelled) -> None:
    twins = Twins()
    obj = pod(annotations={NETWORKS: "foo", CONTAINER: "SPELLED"}, containers=two_containers("SPELLED"))
    for suffix in ("aaaaa", "aaaaa", "bbbbb", "ccccc"):
        twins.ask(body(with_token(obj, NAME + suffix)).replace(b"SPELLED", spelled.encode()))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"volumes":[', '"volumes":[{"name":"kube-api-access-zzzzz"}],"volumes":['),
        ('"spec":{', '"spec":{"containers":[{"name":"kube-api-access-zzzzz"}]},"spec":{'),
        ('"annotations":{', '"annotations":{"k8s.v1.cni.cncf.io/networks":"bar"},"annotations":{'),
        ('"annotations":{', '"annotations":null,"labels":null,"annotations":{'),
        ('"containers":[', '"nodeSelector":null,"containers":['),
        ('"spec":{', '"spec" : {\n'),
        ('"labels":{}', '"labels":{"berth.dev/inject":"true"}'),
        ('"request":{"uid":"', '"request":{"uid":"other","uid":"'),
    ],
)
def test_doubled_members_nulls_and_white_space_change_no_answer(before, after) -> None:
    twins = Twins()
    plain = [replica(number) for number in range(4)]
    odd = [one.replace(before.encode(), after.encode(), 1) for one in plain]
    assert odd != plain
    for one, other in zip(plain, odd, strict=True):
        twins.ask(one)
        twins.ask(other)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda t: t.store(attachment("foo", namespace="team", resource="example.com/x")), id="attachment"),
        pytest.param(lambda t: t.remove("NetworkAttachmentDefinition", "team", "foo"), id="attachment gone"),
        pytest.param(lambda t: t.store(switches({"web": {NETWORKS: "foo, foo"}})), id="switches"),
        pytest.param(lambda t: t.store(namespace("team", "tenant2")), id="tenant of the namespace"),
        pytest.param(lambda t: t.store(definitions(other="requests: {nic: x.example.com}\n")), id="definitions"),
        pytest.param(lambda t: t.store(template("vf", "x.example.com", namespace="team")), id="claim template"),
        pytest.param(lambda t: t.store(device_class("vf.example.com", "example.com/other")), id="device class"),
        pytest.param(lambda t: t.store(rdt_classes("other")), id="RDT classes"),
        pytest.param(lambda t: t.store(node("n1", "10")), id="cache ways of nodes"),
    ],
)
def test_a_change_of_what_decisions_read_drops_every_answer(change) -> None:
    twins = Twins()
    contents = [replica(number) for number in range(6)]
    assert twins.hits(*contents) == 4
    change(twins)
    assert twins.memo.bytes == 0
    assert twins.hits(*contents[:1]) == 0


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(namespace("team") | {"status": {"phase": "Active"}}, id="namespace"),
        pytest.param(attachment("foo", namespace="team", resource="example.com/foo") | {"spec": {}}, id="attachment"),
        pytest.param(claim("another", "vf.example.com", namespace="team"), id="claim"),
        pytest.param({"kind": "Pod", "metadata": {"name": "web", "namespace": "team"}}, id="Pod"),
    ],
)
def test_what_no_answer_rests_on_drops_none(change) -> None:
    twins = Twins()
    contents = [replica(number) for number in range(4)]
    assert twins.hits(*contents) == 2
    twins.store(change)
    assert twins.hits(*contents) == 4


def test_the_answer_to_a_pod_with_a_claim_of_its_own_is_not_kept() -> None:
    """Claims come and go with Pods; so their cache drops no answers."""
    twins = Twins()
    mine = asking(resourceClaims=[{"name": "mine", "resourceClaimName": "own"}])
    contents = [replica(number, mine) for number in range(4)]
    assert twins.hits(*contents) == 0
    twins.store(claim("own", namespace="team"))
    assert twins.hits(*contents) == 0


def test_the_answer_to_a_pod_that_asks_for_rdt_classes_is_not_kept() -> None:
    twins = Twins()
    twins.store(rdt_classes("one"))
    contents = [replica(number, pod(annotations={"main_policy": "gold"})) for number in range(4)]
    assert b'"rdt-classes"' in _payload(twins, contents[0])
    assert twins.hits(*contents) == 0


@pytest.mark.parametrize(
    ("obj", "why"),
    [(asking("missing"), "waits"), (asking("Not A Name"), "denied"), (pod(volumes="none"), "unreadable")],
)
def test_what_waits_or_is_denied_is_not_kept(obj, why) -> None:
    twins = Twins()
    contents = [body(obj) for _ in range(4)]
    assert twins.hits(*contents) == 0, why
    assert twins.memo.bytes == 0


def test_pods_of_which_there_is_one_each_leave_what_is_kept() -> None:
    twins = Twins()
    assert twins.hits(*(replica(number) for number in range(4))) == 2
    before = twins.memo.bytes
    assert twins.hits(*(replica(0, asking(schedulerName=f"own-{number}")) for number in range(50))) == 0
    assert twins.memo.bytes == before
    assert twins.hits(replica(5)) == 1


def test_what_is_decided_in_slices_is_not_kept() -> None:
    """The caches may change between two slices, and drop every answer before this one is kept."""
    memo = Memo()
    endpoint = ReviewEndpoint("mutate", Chain(), finished=lambda _: None, memo=memo)
    for number in range(4):
        endpoint.decide(replica(number), endpoint.pace)
    assert memo.bytes == 0


def test_a_large_pod_is_not_looked_for() -> None:
    twins = Twins()
    large = body(asking(containers=[{"name": "main", "args": ["x" * memos.LARGEST]}]))
    assert twins.hits(large, large, large) == 0
    assert twins.memo.bytes == 0


def test_what_names_no_namespace_is_not_looked_for() -> None:
    """A text that no API server sends, of which the key would be as long."""
    twins = Twins({"confine_tenants": False})
    contents = [body(pod(), namespace="n" * length) for length in (63, 64, 1_000_000) for _ in range(3)]
    assert twins.hits(*contents) == 1


def test_what_was_not_used_of_late_goes_first() -> None:
    twins = Twins(limit=100_000)
    templates = [[replica(number, asking(schedulerName=f"s{one}")) for number in range(4)] for one in range(30)]
    assert twins.hits(*templates[0]) == 2
    for contents in templates[1:]:
        twins.hits(*contents[:2])
        assert twins.memo.bytes <= 100_000
        assert twins.hits(templates[0][0]) == 1
    assert twins.hits(templates[-1][0], templates[-2][0]) == 2
    assert twins.hits(templates[1][0]) == 0


LARGE: dict[str, dict[str, Any]] = {
    "usual Pods": {},
    "the token's volume is named very often": {"volumes": [{"name": f"{NAME}00000"}] * 1000},
    "many warnings": {
        "containers": [
            {"name": f"{'n' * 50}{one}", "volumeMounts": [{"name": "v" * 50, "mountPath": "/etc/podnetinfo"}]}
            for one in range(90)
        ]
    },
}


@pytest.mark.parametrize("spec", LARGE.values(), ids=LARGE)
def test_the_bytes_that_are_counted_are_not_less_than_those_that_are_kept(spec) -> None:
    twins = Twins()
    contents = [[replica(0, asking("foo,foo", schedulerName=f"s{one}", priority=one, **spec))] * 2 for one in range(80)]
    for pair in contents[:5]:
        twins.hits(*pair)  # what is cached elsewhere is there already
    before = twins.memo.bytes
    gc.collect()
    tracemalloc.start()
    try:
        for first, second in contents[5:]:
            twins.endpoint.decide(first)
            twins.endpoint.decide(second)
        gc.collect()
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert used <= twins.memo.bytes - before
    assert twins.hits(*(first for first, _ in contents)) == 80


def test_the_exempt_namespaces_have_answers_of_their_own() -> None:
    twins = Twins()
    for where in ("team", "kube-system", SYSTEM, "team", "kube-system"):
        for number in range(3):
            twins.ask(replica(number, namespace=where))


def test_lookups_and_bytes_are_metrics() -> None:
    def value(name: str, **labels: str) -> float:
        publish()
        return REGISTRY.get_sample_value(name, labels) or 0.0

    create_series(("mutate",))
    before = [value("admission_memo_lookups_total", result=one) for one in ("hit", "miss")]
    memo = Memo()
    endpoint = ReviewEndpoint("mutate", Chain(), finished=lambda _: None, memo=memo)
    for number in range(5):
        endpoint.decide(replica(number))
    # What creates no Pod is not looked for.
    endpoint.decide(body(asking(), operation="UPDATE"))
    after = [value("admission_memo_lookups_total", result=one) for one in ("hit", "miss")]
    assert [now - then for now, then in zip(after, before, strict=True)] == [3, 2]
    assert value("admission_memo_bytes", webhook="mutate") >= memo.bytes > 0


def test_look_ups_become_rare_after_a_long_row_of_misses_and_come_back_with_a_hit() -> None:
    twins = Twins()
    memo = twins.memo
    for number in range(1800):
        if number == 1000:
            memo.take_lookups()
        twins.ask(body(pod(annotations={"number": str(number)})))
    rare = memo.take_lookups()
    assert rare == {"hit": 0, "miss": 50, "skipped": 750}
    for number in range(32):
        twins.ask(replica(number))
    assert memo.take_lookups()["hit"] > 0
    for number in range(10):
        twins.ask(replica(number))
    assert memo.take_lookups() == {"hit": 10, "miss": 0, "skipped": 0}
