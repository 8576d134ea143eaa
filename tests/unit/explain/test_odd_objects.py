"""Whatever stands in a manifest, explaining ends with an answer in every form."""

from __future__ import annotations

import random
from typing import Any

import pytest
import yaml

from app.explain.answer import lines, lines_aside
from app.explain.explaining import explain
from app.explain.manifests import TEMPLATES
from app.explain.rehearsal import Rehearsal
from app.registry import settings_of
from tests.support.explaining import given
from tests.support.paths import ROOT

ODD: tuple[Any, ...] = (
    None,
    1,
    -1.5,
    True,
    "x",
    "",
    [],
    {},
    [1],
    ["x"],
    {"a": 1},
    {"a": {"b": [None]}},
    [[{}]],
    {"": 0},
)
DEVICES = """
kind: Node
metadata: {name: node}
status: {allocatable: {example.com/foo: "2"}}
---
kind: DeviceClass
metadata: {name: foo}
spec: {extendedResourceName: example.com/foo, selectors: [{cel: {expression: "device.driver == 'd'"}}]}
---
kind: ResourceSlice
metadata: {name: slice}
spec: {driver: d, pool: {name: p, generation: 1}, devices: [{name: a, attributes: {b: {string: c}}}]}
---
kind: ResourceClaimTemplate
metadata: {name: template, namespace: default}
spec: {spec: {devices: {requests: [{name: a, exactly: {deviceClassName: foo}}]}}}
---
kind: ResourceClaim
metadata: {name: claim, namespace: default}
spec: {devices: {requests: [{name: a, exactly: {deviceClassName: foo}}]}}
"""
USER = """
kind: Pod
metadata: {name: user}
spec:
  containers: [{name: c, image: c, resources: {limits: {example.com/foo: "1"}}}]
  resourceClaims: [{name: a, resourceClaimTemplateName: template}, {name: b, resourceClaimName: claim}]
"""
FORMS = ("text", "json", "diff", "patch", "pod")


def examples() -> list[dict[str, Any]]:
    files = sorted((ROOT / "examples").rglob("*.yaml"))
    found = [one for path in files for one in yaml.safe_load_all(path.read_text()) if "kind" in one]
    rule = next(one for one in found if one["kind"] == "WorkloadRule")
    admin = {**rule, "apiVersion": "workload.infra.universe.nvidia.com/v1alpha1", "kind": "AdminWorkloadRule"}
    template = {"spec": {"containers": [{"name": "c"}]}}
    owners = [{"kind": kind, "metadata": {"name": "x"}, "spec": {"template": template}} for kind in TEMPLATES]
    return [*found, {**admin, "spec": {**admin["spec"], "tenantMatch": ["*"]}}, *owners]


def changed(value: Any, chance: random.Random) -> Any:
    """The value with some of its parts left out, or something odd in their place."""
    if chance.random() < 0.04:
        return chance.choice(ODD)
    if isinstance(value, dict):
        return {key: changed(part, chance) for key, part in value.items() if chance.random() > 0.02}
    return [changed(part, chance) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", range(40))
async def test_odd_objects_never_end_in_a_traceback(seed: int) -> None:
    chance = random.Random(seed)
    settings = settings_of("webhook").load({"confine_tenants": True, "claims": True}, environment=False)
    objects = [changed(one, chance) for one in examples()]
    usable = [one for one in objects if isinstance(one, dict) and isinstance(one.get("kind"), str) and one["kind"]]
    answer = await explain(given(*usable), Rehearsal(settings, "kube-system"))
    assert answer.objects == len(usable)
    for form in FORMS:
        assert [*lines(answer, form), *lines_aside(answer, form)]


@pytest.mark.parametrize("seed", range(40))
async def test_odd_devices_never_end_in_a_traceback(seed: int) -> None:
    """The Pod is admitted, so that its roads are looked for."""
    chance = random.Random(seed)
    settings = settings_of("webhook").load({}, environment=False)
    objects = [changed(one, chance) for one in yaml.safe_load_all(DEVICES)]
    usable = [one for one in objects if isinstance(one, dict) and isinstance(one.get("kind"), str) and one["kind"]]
    answer = await explain(given(*usable, yaml.safe_load(USER)), Rehearsal(settings, "kube-system"))
    assert [one.denied for one in answer.pods] == [False]


async def test_devices_without_what_they_need_are_left_out_and_named() -> None:
    settings = settings_of("webhook").load({}, environment=False)
    node = {"kind": "Node", "metadata": {"name": "node"}, "status": {"allocatable": {"example.com/foo": "2"}}}
    odd = [{"kind": "Node", "status": 3}, {"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": {"driver": "d"}}]
    answer = await explain(given(node, *odd, yaml.safe_load(USER)), Rehearsal(settings, "kube-system"))
    assert answer.pods[0].roads[0] == "example.com/foo: device plugin, on node"
    assert answer.notes == ["ResourceSlice s (f:3): has no spec.pool.name; left out"]
