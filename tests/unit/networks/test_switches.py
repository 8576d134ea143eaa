"""The ConfigMap of control switches: every state of it has one outcome, whatever was in force before."""

from __future__ import annotations

import json

import pytest

from app.networks.settings import Switches, parse_switches

OFF = Switches(honor_existing=False)
ON = Switches(hugepage_down_api=True, honor_existing=True)
ENTRY = {"op": "add", "path": "/metadata/annotations", "value": {"note": "1"}}


def features(**values: object) -> str:
    return json.dumps({"features": values})


@pytest.mark.parametrize("initial", [OFF, ON])
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, ""),
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "not a JSON object"),
        ("{}", ""),
        ('{"features": null}', ""),
        ('{"features": 1}', "features is not an object"),
        ('{"features": {"enableHugePageDownApi": "yes", "enableHonorExistingResources": true}}', "neither true nor"),
        ('{"features": {"other": 1, "enableHonorExistingResources": true}}', "neither true nor false"),
        ('{"networkResourceNameKeys": ["x"]}', ""),
        ('{"user-defined-injections": null}', ""),
        ('{"user-defined-injections": []}', "those that were read before apply"),
    ],
)
def test_what_is_absent_or_unusable_has_its_initial_value(initial: Switches, text: str | None, problem: str) -> None:
    """A deleted ConfigMap, a missing key and a broken text put everything back; the problem is told."""
    switches = parse_switches(text, initial=initial)
    assert (switches.hugepage_down_api, switches.honor_existing) == (initial.hugepage_down_api, initial.honor_existing)
    assert switches.injections == ()
    assert bool(switches.problems) == bool(problem)
    assert problem in "".join(switches.problems)


def test_features_override_the_flags_each_for_itself() -> None:
    """A feature that is named wins over the flag, one that is not named keeps the flag's value; null is false."""
    assert parse_switches(features(enableHugePageDownApi=True), initial=OFF).hugepage_down_api is True
    assert parse_switches(features(enableHonorExistingResources=True), initial=OFF).honor_existing is True
    one = parse_switches(features(enableHugePageDownApi=False), initial=ON)
    assert (one.hugepage_down_api, one.honor_existing) == (False, True)
    assert parse_switches(features(enableHonorExistingResources=None), initial=ON).honor_existing is False


def test_broken_features_leave_the_injections_alone() -> None:
    """Features and injections are read independently of each other."""
    text = json.dumps({"features": 1, "user-defined-injections": {"x": ENTRY}})
    switches = parse_switches(text, initial=OFF)
    assert [entry.label for entry in switches.injections] == ["x"]
    assert len(switches.problems) == 1


@pytest.mark.parametrize(
    ("label", "entry", "problem"),
    [
        ("x", None, "want an object"),
        ("x", [], "want an object"),
        ("bad key", ENTRY, "not a qualified name"),
        ("x", ENTRY | {"op": "replace"}, 'want "add"'),
        ("x", {"path": ENTRY["path"], "value": ENTRY["value"]}, 'want "add"'),
        ("x", ENTRY | {"path": "/spec"}, 'want "/metadata/annotations"'),
        ("x", {"op": "add", "value": ENTRY["value"]}, 'want "/metadata/annotations"'),
        ("x", ENTRY | {"mode": "merge"}, "replace, append or keep"),
        ("x", ENTRY | {"mode": ["keep"]}, "replace, append or keep"),
        ("x", ENTRY | {"value": "text"}, "not an object of annotations"),
        ("x", ENTRY | {"value": {}}, "not an object of annotations"),
        ("x", ENTRY | {"value": {"note": 1}}, "note is not a string"),
        ("x", ENTRY | {"value": {"berth.dev/injected-resources": "{}"}}, "a record"),
        ("x", ENTRY | {"value": {"bad key": "1"}}, "not a qualified name"),
        ("x", ENTRY | {"value": {"k8s.v1.cni.cncf.io/networks": "a@b@c"}}, "more than one '@'"),
        ("x", ENTRY | {"value": {"v1.multus-cni.io/default-network": "a,b"}}, "exactly one"),
    ],
)
def test_a_bad_entry_is_skipped_alone(label: str, entry: object, problem: str) -> None:
    """The others stay, and nothing of the bad one is borrowed from its neighbors."""
    text = json.dumps({"user-defined-injections": {"a": ENTRY, label: entry, "z": ENTRY}})
    switches = parse_switches(text, initial=OFF)
    assert [one.label for one in switches.injections] == ["a", "z"]
    assert len(switches.problems) == 1
    assert problem in switches.problems[0]
    assert switches.problems[0].isprintable()


def test_entries_stand_in_the_order_of_their_labels() -> None:
    """The order in the ConfigMap is of no consequence."""
    forth = parse_switches(json.dumps({"user-defined-injections": {"b": ENTRY, "a": ENTRY}}), initial=OFF)
    back = parse_switches(json.dumps({"user-defined-injections": {"a": ENTRY, "b": ENTRY}}), initial=OFF)
    assert forth == back


@pytest.mark.parametrize("text", ["{", "[]", '{"user-defined-injections": []}'])
def test_a_slip_of_the_pen_takes_no_networks_away(text: str) -> None:
    """Injections that cannot be read stay as they were; a text without them, and none at all, clears them."""
    before = parse_switches(
        '{"user-defined-injections": {"l": {"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}}}',
        initial=Switches(),
    )
    assert len(before.injections) == 1
    assert parse_switches(text, initial=Switches(), previous=before).injections == before.injections
    assert parse_switches("{}", initial=Switches(), previous=before).injections == ()
    assert parse_switches(None, initial=Switches(), previous=before).injections == ()
