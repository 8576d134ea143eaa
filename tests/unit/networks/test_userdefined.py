"""User-defined injections: the merge by itself."""

from __future__ import annotations

import pytest

from app.errors import Denied
from app.networks.model import NETWORKS
from app.networks.userdefined import Injection, merge


def networks(current: str | None, *entries: Injection) -> str:
    annotations = {} if current is None else {NETWORKS: current}
    return merge(annotations, entries, namespace="default").annotations[NETWORKS]


def append(value: str) -> Injection:
    return Injection("x", {NETWORKS: value}, "append")


@pytest.mark.parametrize(
    ("current", "value", "result"),
    [
        (None, "a", "a"),
        ("", "a", "a"),
        ("a", "a", "a"),
        ("a", "a,a", "a, a"),
        ("a", "default/a", "a"),
        ("a", "a@net1", "a, a@net1"),
        ('[{"name":"a"}]', "ns/b@net1", '[{"name":"a"},{"name":"b","namespace":"ns","interface":"net1"}]'),
        ("[]", "a", '[{"name":"a"}]'),
    ],
)
def test_append_joins_what_is_missing(current: str | None, value: str, result: str) -> None:
    """Each network stands at least as often as the entry names it, so that a second run changes nothing."""
    assert networks(current, append(value)) == result
    assert networks(result, append(value)) == result


def test_what_a_present_network_also_asks_for_does_not_make_it_another() -> None:
    present = '[{"name":"a","ips":["10.0.0.1"],"deviceID":"x"}]'
    assert networks(present, append("a")) == present


def test_append_to_an_unreadable_value_is_denied() -> None:
    """There is nothing right that could come of it."""
    with pytest.raises(Denied, match="element 2"):
        networks("a,", append("b"))


def test_append_keeps_other_annotations() -> None:
    """Only networks can be joined; any other value of the Pod's own stays."""
    merged = merge({"note": "mine"}, [Injection("x", {"note": "theirs"}, "append")], namespace="default")
    assert merged.annotations == {"note": "mine"}
    assert merged.sources == {}


def test_a_value_that_comes_back_to_the_first_is_no_change() -> None:
    """Two entries that undo each other plan nothing."""
    entries = [Injection("a", {"note": "2"}), Injection("b", {"note": "1"})]
    assert merge({"note": "1"}, entries, namespace="default").sources == {}


def test_without_entries_nothing_is_copied() -> None:
    """The usual case costs nothing."""
    annotations = {"note": "1"}
    assert merge(annotations, [], namespace="default").annotations is annotations
