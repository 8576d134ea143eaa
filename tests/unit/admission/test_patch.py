"""The patch builder."""

from __future__ import annotations

import json

import jsonpatch
import jsonpointer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.admission.patch import Patch
from app.wire import encode_json, pointer


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ((), ""),
        (("spec", "containers", 0), "/spec/containers/0"),
        (("metadata", "annotations", "a.io/b"), "/metadata/annotations/a.io~1b"),
        (("~", "~1", "/"), "/~0/~01/~1"),
        (("",), "/"),
        (("volumes", "-"), "/volumes/-"),
    ],
)
def test_pointers_escape_their_segments(segments, expected) -> None:
    assert pointer(*segments) == expected


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_a_pointer_reads_back_as_its_segments(segments: list[str]) -> None:
    assert jsonpointer.JsonPointer(pointer(*segments)).parts == segments


def test_operations_keep_their_order_and_apply() -> None:
    patch = Patch()
    patch.ensure("/spec/volumes", [], present=False, reason="volumes")
    patch.add("/spec/volumes/-", {"name": "a"}, reason="volume a")
    patch.add("/metadata/name", "new", reason="rename")
    patch.add("/metadata/nothing", None, reason="a null is a value")
    patch.remove("/spec/nodeName", reason="gone")
    assert patch.reasons == ["volumes", "volume a", "rename", "a null is a value", "gone"]
    document = json.loads(encode_json(patch.operations))
    assert document[-1] == {"op": "remove", "path": "/spec/nodeName"}
    before = {"metadata": {"name": "old"}, "spec": {"nodeName": "n"}}
    assert jsonpatch.apply_patch(before, document) == {
        "metadata": {"name": "new", "nothing": None},
        "spec": {"volumes": [{"name": "a"}]},
    }


def test_a_parent_is_created_once_and_only_where_it_is_missing() -> None:
    patch = Patch()
    patch.ensure("/spec/volumes", [], present=False, reason="first")
    patch.ensure("/spec/volumes", [], present=False, reason="second")
    patch.ensure("/spec/nodeSelector", {}, present=True, reason="there already")
    assert json.loads(encode_json(patch.operations)) == [{"op": "add", "path": "/spec/volumes", "value": []}]
