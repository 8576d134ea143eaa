"""What the controller `policies` writes next, and what counts as a difference."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from app.policies.keeping import SETTLED, Difference, Step, difference, ident_of, next_step
from app.policies.model import Terms
from app.policies.objects import generate
from app.policies.settings import parse_config
from tests.support.policy_stage import network

JSON = dict[str, Any]
OBJECTS = generate([network("foo", "example.com/foo")], Terms()).objects
CHANGE = Difference(missing=(OBJECTS[0],))


def _installed() -> dict[Any, JSON]:
    return {ident_of(obj): copy.deepcopy(obj) for obj in OBJECTS}


def test_what_an_api_server_fills_in_is_no_difference() -> None:
    installed = _installed()
    for obj in installed.values():
        obj["spec"] |= {"filled": "in"}
    assert not difference(OBJECTS, installed)


def test_another_owner_is_a_difference_where_one_is_wanted() -> None:
    """The controller's objects have one; of the command's an owner does not matter."""
    installed, owner = _installed(), {"kind": "ClusterRole", "name": "x", "uid": "1"}
    wanted = [{**obj, "metadata": {**obj["metadata"], "ownerReferences": [owner]}} for obj in OBJECTS]
    assert difference(wanted, installed).stale == tuple(wanted)
    for obj in installed.values():
        obj["metadata"]["ownerReferences"] = [owner]
    assert not difference(wanted, installed)
    assert not difference(OBJECTS, installed)


@pytest.mark.parametrize(
    "change",
    [
        {"failurePolicy": "Ignore"},
        {"variables": []},
        {"matchConditions": [*OBJECTS[0]["spec"]["matchConditions"], {"name": "never", "expression": "false"}]},
        {"matchConstraints": {**OBJECTS[0]["spec"]["matchConstraints"], "excludeResourceRules": [{}]}},
        {"paramKind": {"kind": "X"}},
    ],
)
def test_what_has_been_changed_is_stale(change: JSON) -> None:
    installed = _installed()
    installed[ident_of(OBJECTS[0])]["spec"] |= change
    assert difference(OBJECTS, installed).stale == (OBJECTS[0],)


def test_what_is_not_there_is_missing_and_bindings_of_what_is_too_much_go_first() -> None:
    installed = _installed()
    del installed[ident_of(OBJECTS[0])]
    found = difference(OBJECTS, installed)
    assert found.missing == (OBJECTS[0],)
    kinds = [ident.kind for ident in difference([], _installed()).extra]
    assert [kind.endswith("Binding") for kind in kinds] == [True] * 4 + [False] * 4


@pytest.mark.parametrize(
    ("state", "step"),
    [
        # Nothing is there yet.
        ((CHANGE, "", "new", 0.0, 0.0, True), Step(change=CHANGE, again=SETTLED)),
        # The webhook is called for all Pods first, then the policies change, then it leaves them to these.
        ((CHANGE, "old", "new", 0.0, 0.0, False), Step(condition="", again=SETTLED)),
        ((CHANGE, "", "new", 1.0, 0.0, False), Step(again=SETTLED - 1.0)),
        ((CHANGE, "", "new", SETTLED, 0.0, False), Step(change=CHANGE, again=SETTLED)),
        ((Difference(), "", "new", 9.0, 1.0, False), Step(again=SETTLED - 1.0)),
        ((Difference(), "", "new", 9.0, SETTLED, False), Step(condition="new")),
        ((Difference(), "new", "new", 0.0, 0.0, False), Step()),
        # With policies alone there is no condition to write, and one that was left goes.
        ((CHANGE, "", "", SETTLED, 0.0, False), Step(change=CHANGE)),
        ((Difference(), "old", "", 0.0, 0.0, False), Step(condition="")),
    ],
)
def test_the_next_step(state: tuple[Any, ...], step: Step) -> None:
    change, condition, wanted, open_for, current_for, fresh = state
    assert (
        next_step(change, condition=condition, wanted=wanted, open_for=open_for, current_for=current_for, fresh=fresh)
        == step
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "want a map with the key mode"),
        ("mode: x", "want one of webhook, policies, both, got 'x'"),
        ("{mode: both, webhook: 1}", "want a map, as webhook.args"),
        ("{mode: both, registration: 1}", "registration: want a map"),
        ("{mode: both, webhook: {nodeSelectorConflict: x}}", "node-selector-conflict"),
        ("{", "this is not YAML"),
    ],
)
def test_a_configuration_that_cannot_be_read_says_why(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        parse_config({"data": {"policies.yaml": text}})


def test_the_values_of_the_chart_are_the_flags_of_the_webhook() -> None:
    text = "{mode: both, webhook: {networkResourceNameKeys: [a.b/c, d.e/f], claims: true, workers: 3, unknown: 1}}"
    values = parse_config({"data": {"policies.yaml": text}}).webhook.model_dump()
    assert values["network_resource_name_keys"] == "a.b/c,d.e/f"
    assert values["claims"]
    assert values["workers"] == 1, "what policies do not depend on is not read"
