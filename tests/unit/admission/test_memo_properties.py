"""Whatever is asked, and whatever changes in between: a webhook with a memo answers as one without it, byte by byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.claim_reviews import attachment, claim, definitions, device_class, template
from tests.support.memo_reviews import (
    KUBELETS,
    OBJECTS,
    SYSTEM,
    Twins,
    body,
    config_map,
    namespace,
    rdt_classes,
    switches,
    with_token,
)
from tests.support.rmd_reviews import node

JSON = dict[str, Any]
NETWORKS = "k8s.v1.cni.cncf.io/networks"
VOLUMES = ("kube-api-access-aaaaa", "kube-api-access-bbbbb", "kube-api-access-ccccc")


def _some(members: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[JSON]:
    """Objects with none of these members, with one, or with two."""
    pairs = st.one_of(*(st.tuples(st.just(name), values) for name, values in members.items()))
    return st.lists(pairs, max_size=2).map(dict)


_names = st.sampled_from(["main", "web", *VOLUMES[:2]])
_networks = st.sampled_from(["", "foo", "foo, foo", "team/foo", "claimed", "missing", '[{"name": "foo"}]', "foo@"])

annotations = st.fixed_dictionaries(
    {},
    optional={
        NETWORKS: _networks,
        "v1.multus-cni.io/default-network": _networks,
        "berth.dev/inject": st.sampled_from(["false", "true"]),
        "kubernetes.io/config.mirror": st.just("x"),
        "berth.dev/resources-container": _names,
        "berth.dev/dpu-of-host": st.sampled_from(["host1", "", "Not A Host"]),
        "berth.dev/injected-resources": st.sampled_from(['{"main":{"example.com/foo":1}}', "no JSON"]),
        "main_policy": st.sampled_from(["gold", "lead"]),
    },
)
labels = st.fixed_dictionaries(
    {}, optional={"web": st.sampled_from(["true", "false"]), "berth.dev/inject": st.just("false")}
)
_amounts = st.fixed_dictionaries(
    {},
    optional={
        "example.com/foo": st.sampled_from(["1", "2", 1, "x"]),
        "hugepages-2Mi": st.just("4Mi"),
        "berth.dev/pair": st.just("1"),
        "intel.com/l3_cache_ways": st.just("1"),
        VOLUMES[0]: st.just("1"),
    },
)
_containers = st.fixed_dictionaries(
    {"name": _names},
    optional={
        "resources": st.fixed_dictionaries({}, optional={"requests": _amounts, "limits": _amounts}),
        "env": st.lists(st.fixed_dictionaries({"name": st.just("CONTAINER_NAME"), "value": _names}), max_size=1),
        "volumeMounts": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(VOLUMES), "mountPath": st.sampled_from(["/data", "/etc/podnetinfo/"])}
            ),
            max_size=2,
        ),
        "args": st.lists(st.sampled_from([*VOLUMES, f'"{VOLUMES[0]}', f"x {VOLUMES[1]}", "é"]), max_size=1),
    },
)
_terms = st.sampled_from(
    [[], [{}], [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [VOLUMES[0]]}]}]]
)
specs = st.fixed_dictionaries(
    {"containers": st.lists(_containers, max_size=2)},
    optional={
        "initContainers": st.lists(_containers, max_size=1),
        "volumes": st.lists(st.fixed_dictionaries({"name": st.sampled_from([*VOLUMES, "podnetinfo"])}), max_size=2),
        "hostNetwork": st.booleans(),
        "nodeName": st.sampled_from(["", "n1"]),
        "nodeSelector": st.dictionaries(st.sampled_from(["zone", VOLUMES[0]]), st.sampled_from(VOLUMES), max_size=1),
        "resourceClaims": st.lists(
            st.fixed_dictionaries(
                {"name": _names},
                optional={
                    "resourceClaimName": st.sampled_from(["own", "missing", VOLUMES[0]]),
                    "resourceClaimTemplateName": st.sampled_from(["vf", "missing", VOLUMES[0], VOLUMES[1]]),
                },
            ),
            max_size=1,
        ),
        "affinity": _terms.map(
            lambda terms: {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            }
        ),
        "schedulerName": st.sampled_from(["s1", "s2"]),
    },
)
templates = st.tuples(
    st.fixed_dictionaries({"labels": labels, "annotations": annotations}),
    specs,
    st.booleans(),
)
"""Metadata, spec, and whether the API server adds a volume with a token."""

_fields = _some(
    {
        "uid": st.sampled_from(["b", "admission.k8s.io/v1", 'quo"ted']),
        "name": st.sampled_from(["", "web-1"]),
        "namespace": st.sampled_from(["blue", "unknown", "", SYSTEM]),
        "operation": st.sampled_from(["UPDATE", "DELETE"]),
        "subResource": st.just("status"),
        "kind": st.sampled_from([{}, {"group": "batch", "version": "v1", "kind": "Job"}]),
        "resource": st.just({"resource": "jobs"}),
        "userInfo": st.sampled_from([{"groups": KUBELETS}, {"username": "someone", "uid": "u"}, {"groups": []}]),
        "dryRun": st.sampled_from([None, True]),
        "version": st.just("v1beta1"),
        "oldObject": st.just({"kind": "Pod"}),
    },
)
_metadata = _some(
    {
        "name": st.sampled_from(["web-2", None, 1]),
        "generateName": st.sampled_from(["web-", None]),
        "namespace": st.sampled_from(["team", "blue", 1]),
        "uid": st.just("u"),
        "ownerReferences": st.sampled_from([[], None, [{"kind": "ReplicaSet", "uid": "x"}], "none"]),
        "managedFields": st.just([{"manager": "m"}]),
        "labels": st.none() | labels,
        "annotations": st.none() | annotations,
        "finalizers": st.just(["berth.dev/x"]),
    },
)
_spellings: list[tuple[str, str]] = [
    ("kube-api-access-a", "\\u006bube-api-access-a"),
    ('"volumes":', '"volum\\u0065s":'),
    ('"spec":{', '"spec":{"volumes":[{"name":"kube-api-access-ccccc"}],'),
    ('"annotations":{', '"annotations":{"berth.dev/inject":"false"},"annotations":{'),
    ('"containers":', '"nodeSelector":null,"containers":'),
    ('"spec":', '"status":null , "spec":\n'),
    ('"metadata":{', '"metadata":{"annotations":{"k8s.v1.cni.cncf.io/networks":"foo"}},"metadata":{'),
    ("{", "[{"),
]

CHANGES: list[Callable[[Twins], None]] = [
    lambda twins: twins.store(attachment("foo", namespace="team", resource="example.com/other")),
    lambda twins: twins.store(attachment("foo", namespace="team", template="vf")),
    lambda twins: twins.store(attachment("claimed", namespace="team", device_class="vf.example.com")),
    lambda twins: twins.remove("NetworkAttachmentDefinition", "team", "foo"),
    lambda twins: twins.store(attachment("missing", namespace="team", resource="example.com/late")),
    lambda twins: twins.store(switches({"web": {NETWORKS: "foo"}})),
    lambda twins: twins.store(switches(enableHugePageDownApi=True, enableHonorExistingResources=True)),
    lambda twins: twins.store(config_map("nri-control-switches", **{"config.json": "no JSON"})),
    lambda twins: twins.remove("ConfigMap", SYSTEM, "nri-control-switches"),
    lambda twins: twins.store(namespace("team", "tenant2")),
    lambda twins: twins.store(namespace("blue")),
    lambda twins: twins.remove("Namespace", "", "team"),
    lambda twins: twins.store(namespace("unknown", "tenant3")),
    lambda twins: twins.store(template("vf", "gpu.example.com", namespace="team")),
    lambda twins: twins.store(template(VOLUMES[0], "vf.example.com", namespace="team")),
    lambda twins: twins.remove("ResourceClaimTemplate", "team", "vf"),
    lambda twins: twins.store(claim("own", "gpu.example.com", namespace="team")),
    lambda twins: twins.remove("ResourceClaim", "team", "own"),
    lambda twins: twins.store(device_class("vf.example.com", "example.com/other")),
    lambda twins: twins.store(device_class("gpu.example.com", **{"berth.dev/claim-template": "pair"})),
    lambda twins: twins.store(definitions(pair="requests: {nic: gpu.example.com}\n")),
    lambda twins: twins.store(rdt_classes("one")),
    lambda twins: twins.store(rdt_classes("one", "one")),
    lambda twins: twins.store(node("n1", "10")),
    lambda twins: twins.remove("Node", "", "n1"),
    lambda twins: twins.store(*OBJECTS),
]

_reviews = st.tuples(
    st.integers(0, 1),
    st.sampled_from(VOLUMES),
    _metadata,
    _fields,
    st.just(("", "")) | st.sampled_from(_spellings),
)
"""Of which template, with which name of the volume, metadata and fields of the request, and spelled how."""


@settings(max_examples=150)
@given(st.tuples(templates, templates), st.lists(_reviews | st.sampled_from(CHANGES), min_size=4, max_size=24))
def test_a_webhook_with_a_memo_answers_as_one_without(known, steps) -> None:
    twins = Twins()
    for step in steps:
        if not isinstance(step, tuple):
            step(twins)
            continue
        which, volume, own, fields, (said, spelled) = step
        metadata, spec, token = known[which]
        obj: JSON = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web-1", **metadata, **own}, "spec": spec}
        obj = with_token(obj, volume) if token else obj
        # Twice: the second time an answer may be kept, the third time it is given.
        for _ in range(2):
            twins.ask(body(obj, **fields).replace(said.encode(), spelled.encode(), 1) if said else body(obj, **fields))


def test_the_steps_above_do_hit() -> None:
    """A property that holds of misses alone would prove nothing."""
    twins = Twins()
    obj = with_token(
        {"metadata": {"annotations": {NETWORKS: "foo"}}, "spec": {"containers": [{"name": "main"}]}}, VOLUMES[0]
    )
    assert twins.hits(*(body(obj, uid=uid) for uid in ("a", "b", 'quo"ted', "admission.k8s.io/v1"))) == 2
    assert json.loads(twins.ask(body(obj, uid='quo"ted')).payload)["response"]["uid"] == 'quo"ted'
