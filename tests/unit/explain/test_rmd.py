"""Explaining says which RDT classes a Pod would get, and why a daemon would never serve it."""

from __future__ import annotations

from typing import Any

from app.explain.explaining import explain
from app.explain.rehearsal import Rehearsal
from app.explain.rendering import render
from app.registry import settings_of
from app.rmd.model import L3_CACHE_WAYS
from tests.support.explaining import given
from tests.support.rmd_reviews import SYSTEM, config_map, container, node, pod

FOUR = config_map("classes: [{name: four, cacheWays: 4}]")


async def shown(*objects: dict[str, Any], **settings: Any) -> tuple[str, list[str]]:
    chosen = settings_of("webhook").load(settings, environment=False)
    answer = await explain(given(*objects), Rehearsal(chosen, SYSTEM))
    return "\n".join(line.text for line in render(answer.pods, "text")), answer.notes


async def test_the_class_and_what_it_is_chosen_for() -> None:
    text, notes = await shown(pod(container(cpu="500m")), FOUR, rmd_backend="runtime")
    assert notes == []
    assert "would be injected" in text
    assert "  container c1: RDT class four serves 2 cache ways" in text
    assert '    metadata.annotations[rdt.resources.beta.kubernetes.io/container.c1]: "four"' in text
    assert f"    spec.containers[c1].resources.limits[{L3_CACHE_WAYS}]: removed" in text
    assert f"  warning: spec.containers[0].resources: {L3_CACHE_WAYS} is taken out" in text


async def test_no_class_and_no_config_map() -> None:
    text, _ = await shown(pod(container()), rmd_backend="runtime")
    assert "would be denied: spec.containers[0]: no RDT class serves 2 cache ways: there are none" in text


async def test_a_mapping_that_cannot_be_read_is_noted() -> None:
    _, notes = await shown(pod(container()), config_map("[]"), rmd_backend="runtime")
    assert notes == [
        "configmaps/berth-rmd-classes: data[classes.yaml]: the document: want a mapping, got '[]'",
    ]


async def test_nodes_among_the_manifests_decide_what_serves() -> None:
    nodes = {"apiVersion": "v1", **node("n1", "7")}, {"apiVersion": "v1", **node("n2")}
    assert "class four" in (await shown(pod(container()), nodes[1], FOUR, rmd_backend="auto"))[0]
    text, notes = await shown(pod(container(ways="8")), *nodes, FOUR, rmd_backend="auto")
    assert ("class four" in text, notes) == (False, [])
    assert f"ask for 8 {L3_CACHE_WAYS} together, and no node has more than 7" in text


async def test_what_a_daemon_would_never_serve_is_denied_with_its_warnings() -> None:
    text, _ = await shown(pod(container(cpu="500m"), c1_polcy="x"), rmd_backend="daemon")
    assert "would be denied: spec.containers[0].resources.limits[cpu]: want whole CPUs" in text
    assert "  warning: metadata.annotations[c1_polcy]: unknown setting" in text


async def test_an_object_that_no_cache_can_keep_is_a_finding() -> None:
    spec = {"coreIds": ["1"], "rdt": 3, "nodes": ["n1"]}
    workload = {"apiVersion": "intel.com/v1alpha1", "kind": "RmdWorkload", "metadata": {"name": "w"}, "spec": spec}
    chosen = settings_of("webhook").load({"rmd_backend": "daemon"}, environment=False)
    answer = await explain(given(workload), Rehearsal(chosen, SYSTEM))
    assert [one.text for one in answer.findings if one.reason == "UnreadableObject"] == [
        "error: RmdWorkload default/w: has not the form of its kind"
    ]
