"""Components of which no object can be made: the AppWrapper ends as Failed, with a condition that names the field."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from app.appwrappers.controller.phases import next_step
from app.appwrappers.controller.stored import stored_app_wrapper
from app.appwrappers.options import OperatorConfig, read_options
from app.kube.conditions import condition
from tests.support.appwrappers import pod, result_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMELESS = {"apiVersion": "v1", "kind": "Pod", "spec": {}}


@pytest.mark.parametrize("phase", ["", "Suspended", "Resetting"])
@pytest.mark.parametrize(
    ("components", "problem"),
    [
        ([{"template": NAMELESS}], "[0].template.metadata: want an object, with a name or a generateName"),
        ([{"template": pod()}, {"template": {**NAMELESS, "metadata": None}}], "[1].template.metadata: want an object"),
        ([{"template": {**NAMELESS, "metadata": {"name": [1]}}}], "[0].template.metadata.name: want text"),
        ([{"template": {"metadata": {}}}], "[0].template: want an object with apiVersion and kind"),
        ([None], "[0].template: want an object with apiVersion and kind"),
        ([{"template": pod(), "podSets": [{}]}], "[0].podSets: want a list of objects with path"),
        (7, "[0].template: want an object with apiVersion and kind"),
    ],
)
def test_the_condition_names_the_field(phase: str, components: Any, problem: str) -> None:
    metadata = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1", "finalizers": []}
    obj = {"metadata": metadata, "spec": {"components": components}, "status": {"phase": phase} if phase else {}}
    options = read_options({}, OperatorConfig().fault_tolerance)
    step = result_of(next_step(stored_app_wrapper(obj), options, NOW))
    assert step.status["phase"] == "Failed"
    found = condition(step.status, "Unhealthy")
    assert (found["status"], found["reason"]) == ("True", "InvalidComponent")
    assert found["message"].startswith(f"spec.components{problem}")
