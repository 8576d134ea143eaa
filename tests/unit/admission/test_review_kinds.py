"""Each kind of review that API servers are told to send has an object from which the fuzz makes its worst cases."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.fuzz.growing import grown, growths
from tests.fuzz.kinds import Kind, body_of, kinds, object_of

KINDS = kinds()


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_each_kind_has_an_object_whose_members_grow(kind: Kind) -> None:
    base = object_of(kind)
    smallest = len(json.dumps(base))
    found = [*growths(base)]
    assert len(found) > 20
    for growth in found:
        assert len(json.dumps(grown(base, growth, 1_000))) > smallest + 250, growth
    assert object_of(kind) == base  # none of it was changed
    assert json.loads(body_of(kind, "CREATE", base))["request"]["object"] == base


def test_a_kind_without_an_object_is_an_error() -> None:
    with pytest.raises(LookupError, match=r"want an object of example\.com/widgets, which pods reviews"):
        object_of(replace(KINDS[0], group="example.com", resource="widgets"))
