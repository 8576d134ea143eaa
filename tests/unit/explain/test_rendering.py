"""A field's path reads as people write it."""

from __future__ import annotations

import pytest

from app.admission.patch import Operation
from app.explain.rendering import field_of

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
