"""Which owner reference names the controller of an object."""

from __future__ import annotations

from typing import Any

import pytest

from app.kube.resources import DEPLOYMENTS, PODS, controller_of, controller_reference

OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}


def test_a_reference_is_found_as_it_was_made() -> None:
    made = controller_reference(DEPLOYMENTS, "d", "1")
    assert made == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "1", "controller": True}
    assert controller_of({"ownerReferences": [OWNER, made]}) is made
    assert controller_reference(PODS, "p", "u") == OWNER | {"controller": True}


@pytest.mark.parametrize(
    "owners", [None, [], "x", {"controller": True}, ["controller"], [None], [OWNER], [OWNER | {"controller": False}]]
)
def test_an_object_without_a_controller(owners: Any) -> None:
    assert controller_of({}) == {}
    assert controller_of({"ownerReferences": owners}) == {}
