"""Goldens of the injection of claims; see goldens/README.md."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from app.text import MESSAGE
from app.wire import load_yaml
from tests.support import claim_reviews as given
from tests.support.claim_reviews import Reviews

JSON = dict[str, Any]
GOLDENS = Path(__file__).parent / "goldens"
CLUSTER = GOLDENS / "cluster.yaml"
CASES = sorted(path.stem for path in GOLDENS.glob("*.yaml") if path != CLUSTER)


def cluster() -> list[JSON]:
    said = load_yaml(CLUSTER.read_text())
    return [
        *(given.attachment(name, **annotations) for name, annotations in said["attachments"].items()),
        *(given.template(name, *classes) for name, classes in said["templates"].items()),
        *(given.claim(name, *classes) for name, classes in said["claims"].items()),
        *(given.device_class(name, resource) for name, resource in said["classes"].items()),
        given.definitions(**said["definitions"]),
    ]


def load(case: str) -> Any:
    return load_yaml((GOLDENS / f"{case}.yaml").read_text())


def written_out(short: JSON) -> JSON:
    spec = {key: value for key, value in short.items() if key != "annotations"}
    metadata = {"name": "p", "annotations": short.get("annotations", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("case", CASES)
async def test_golden(case: str) -> None:
    """The patched Pod is the expected one, and a second run plans nothing."""
    wanted = load(case)
    async with Reviews(cluster()) as reviews:
        first = await reviews.mutate(written_out(wanted["pod"]))
        if "denied" in wanted:
            assert [words for words in wanted["denied"] if words not in first.message] == []
            assert first.message.isprintable()
            return
        assert first.decision.allowed, first.decision.message
        assert first.obj == written_out(wanted.get("expected", wanted["pod"]))
        assert first.decision.reason == wanted["reason"]
        warnings = wanted.get("warnings", [])
        assert len(first.decision.warnings) == len(warnings), first.decision.warnings
        assert all(said.startswith(words) for said, words in zip(first.decision.warnings, warnings, strict=True))
        for key, words in wanted.get("audit", {}).items():
            assert words in first.decision.audit_annotations[key]
        again = await reviews.mutate(first.obj)
    assert again.decision.allowed
    assert (again.plan.patch.operations, again.plan.injected) == ([], {})
    assert set(again.decision.warnings) <= set(first.decision.warnings)


@pytest.mark.parametrize("case", CASES)
async def test_every_operation_has_a_reason_that_names_its_cause(case: str) -> None:
    async with Reviews(cluster()) as reviews:
        found = await reviews.mutate(written_out(load(case)["pod"]))
    patch = found.plan.patch
    assert len(patch.reasons) == len(patch.operations)
    assert all(reason.startswith(("annotation ", "container ")) for reason in patch.reasons), patch.reasons
    assert all(0 < len(text) <= MESSAGE for text in found.decision.audit_annotations.values())
    if found.decision.allowed:
        assert ("claims" in found.decision.audit_annotations) == ("claim" in found.plan.injected)


async def test_without_the_flag_annotations_about_claims_have_no_effect() -> None:
    async with Reviews(cluster(), {"claims": False}) as reviews:
        found = await reviews.mutate(written_out(load("repeated-and-mixed")["pod"]))
    resources = found.obj["spec"]["containers"][0]["resources"]
    assert resources["limits"]["example.com/foo"] == "4"
    assert "resourceClaims" not in found.obj["spec"]


async def test_a_pod_with_a_claim_and_one_without_share_no_plan() -> None:
    """Their shape is the same; what the claim asks for is not in it."""
    claiming = written_out(load("own-claim-of-a-resource")["pod"])
    asking = copy.deepcopy(claiming)
    del asking["spec"]["resourceClaims"]
    asking["spec"]["containers"][0]["resources"] = {}
    async with Reviews(cluster()) as reviews:
        found = [await reviews.mutate(pod) for pod in (asking, claiming, asking)]
    assert [one.plan.injected.get("resource") for one in found] == [1, None, 1]
    assert found[0].obj == found[2].obj
    assert found[1].obj == claiming
