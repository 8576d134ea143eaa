"""A field's path reads as people write it."""

from __future__ import annotations

import pytest
import yaml

from app.admission.patch import Operation
from app.explain.rendering import dump, field_of

POD = {
    "spec": {
        "containers": [{"name": "web", "env": [{"name": "A"}], "args": ["x"]}],
        "volumes": [{"name": "v"}],
    }
}


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (
            "/spec/containers/0/resources/limits/example.com~1foo",
            "2",
            "spec.containers[web].resources.limits[example.com/foo]",
        ),
        ("/spec/volumes/-", {"name": "podnetinfo"}, "spec.volumes[podnetinfo]"),
        ("/spec/containers/0/args/-", "y", "spec.containers[web].args[+]"),
        ("/spec/containers/0/args/0", "y", "spec.containers[web].args[0]"),
        ("/spec/containers/7/args", "y", "spec.containers[7].args"),
        ("/metadata/annotations/a~0b", "y", "metadata.annotations[a~b]"),
    ],
)
def test_paths(path, value, expected) -> None:
    assert field_of(Operation("add", path, value), POD) == expected


def test_yaml_with_text_that_commands_a_terminal_is_escaped_and_means_the_same() -> None:
    obj = {"a": "left\u202eright", "b": "ä"}
    assert "ä" in dump({"b": "ä"})
    assert dump(obj).replace("\n", "").isprintable()
    assert yaml.safe_load(dump(obj)) == obj
