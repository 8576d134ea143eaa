"""Goldens: one folder a case; see goldens/README.md for the files."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from app.admission.injected import INJECTED_BY
from app.kube.documents import parse_documents
from app.kube.names import check_qualified_name
from app.networks.settings import NetworksOptions, Switches, parse_switches
from app.text import MESSAGE
from app.wire import encode_json, load_yaml

GOLDENS = Path(__file__).parent / "goldens"
CASES = sorted(path.parent.name for path in GOLDENS.glob("*/input.yaml"))
INERT = {"NoNetworks", "NothingMissing", "HostNetwork", "MirrorPod", "OptedOut"}


def load(case: str, name: str) -> Any:
    path = GOLDENS / case / f"{name}.yaml"
    return load_yaml(path.read_text()) if path.exists() else {}


def configure(injection: Any, case: str) -> dict[str, Any]:
    """Set the injection up for a case; returns the expected outcome."""
    options = load(case, "options")
    config = options.pop("config", None)
    hugepages = options.pop("hugepage_down_api", False)
    injection.keys = tuple(options.pop("resource_name_keys", injection.keys))
    injection.options = NetworksOptions(**options)
    honor = True if injection.options.existing_resources == "add" else None
    initial = Switches(hugepage_down_api=hugepages, honor_existing=honor)
    injection.switches = parse_switches(json.dumps(config) if config is not None else None, initial=initial)
    attachments = (GOLDENS / case / "attachments.yaml").read_text()
    injection.attachments = [document.content for document in parse_documents(attachments, source="")]
    return load(case, "outcome")


@pytest.mark.parametrize("case", CASES)
async def test_golden(injection: Any, case: str) -> None:
    """The patched Pod is the expected one, and a second run plans nothing."""
    outcome = configure(injection, case)
    first = await injection.run(load(case, "input"))
    if "denied" in outcome:
        assert not first.decision.allowed
        assert [words for words in outcome["denied"] if words not in first.decision.message] == []
        assert first.decision.message.isprintable()
        return
    assert first.decision.allowed, first.decision.message
    assert first.pod == load(case, "expected")
    assert_outcome(first, outcome)
    second = await injection.run(first.pod)
    assert second.decision.allowed
    assert second.plan.patch.operations == []


@pytest.mark.parametrize("case", CASES)
async def test_what_was_injected_is_written_down_once(injection: Any, case: str) -> None:
    """With --injected-annotation, beside what is injected without it; the second run plans nothing then, too."""
    outcome = configure(injection, case)
    injection.says = True
    first = await injection.run(load(case, "input"))
    if "denied" in outcome:
        assert not first.decision.allowed
        return
    pod = json.loads(json.dumps(first.pod))
    said = pod["metadata"].get("annotations", {}).pop(INJECTED_BY, None)
    expected = load(case, "expected")
    if not pod["metadata"].get("annotations"):
        for either in (pod, expected):
            either["metadata"].pop("annotations", None)
    assert pod == expected
    assert (said is None) == (first.decision.reason in INERT)
    assert len(first.plan.patch.reasons) == len(first.plan.patch.operations)
    if said is not None:
        assert json.loads(said)["version"] == version("berth")
        assert len(json.loads(said)) > 1
    second = await injection.run(first.pod)
    assert second.plan.patch.operations == []


def assert_outcome(run: Any, outcome: dict[str, Any]) -> None:
    reason = outcome.get("reason")
    assert reason in (None, run.decision.reason)
    assert (run.plan.patch.operations == []) == (run.decision.reason in INERT)
    if run.decision.reason in INERT:
        assert run.decision.message
    expected = outcome.get("warnings", [])
    assert len(run.plan.warnings) == len(expected)
    for warning, words in zip(run.plan.warnings, expected, strict=True):
        assert words in warning


@pytest.mark.parametrize("case", CASES)
async def test_every_operation_has_a_reason_that_names_its_cause(injection: Any, case: str) -> None:
    """`berth explain` shows why: the annotation and attachment, the injection's label, or the container."""
    configure(injection, case)
    run = await injection.run(load(case, "input"))
    patch = run.plan.patch
    assert len(patch.reasons) == len(patch.operations)
    for reason in patch.reasons:
        assert any(words in reason for words in ("annotation ", "label ", "container ", "second injection"))


NOTES = {
    "resource": {"resources"},
    "node-selector": {"node-selector"},
    "volume": {"volume"},
    "env": {"env"},
    "annotation": {"annotations", "record"},
}
"""Which audit annotations speak of what the metric counts."""


@pytest.mark.parametrize("case", CASES)
async def test_the_audit_log_is_told_of_everything_that_is_injected(injection: Any, case: str) -> None:
    """Every kind with what asked for it; of a denial the reason and the message. Short, and under keys that can be."""
    configure(injection, case)
    run = await injection.run(load(case, "input"))
    audit = run.decision.audit_annotations
    assert audit["decision"] == run.decision.reason
    for key, text in audit.items():
        assert check_qualified_name(key) == key
        assert 0 < len(text) <= MESSAGE
    if not run.decision.allowed:
        assert audit["message"] == run.decision.message
        return
    for kind in run.plan.injected:
        assert NOTES[kind] & audit.keys(), kind
        assert all(" for " in audit[key] for key in NOTES[kind] & audit.keys())
    assert audit.keys() - {"decision"} <= {key for kind in run.plan.injected for key in NOTES[kind]}


async def test_the_same_input_gives_the_same_bytes(injection: Any) -> None:
    """Order follows names, not the order in which networks or labels happen to stand."""
    pod = load("selector-padded-and-listed", "input")
    configure(injection, "selector-padded-and-listed")
    first = await injection.run(pod)
    second = await injection.run(json.loads(json.dumps(pod, sort_keys=True)))
    assert encode_json(first.plan.patch.operations) == encode_json(second.plan.patch.operations)
