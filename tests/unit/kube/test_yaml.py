"""YAML whose merge keys copy: a few hundred bytes must not stand for any number of pairs."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from app.kube.configuration import yaml_in
from app.kube.documents import load_yaml as load_as_kubernetes
from app.wire import load_yaml


def doubling(levels: int) -> str:
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 9)}]}}" for level in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize("load", [load_yaml, load_as_kubernetes])
@pytest.mark.parametrize("padding", ["", f"\n# {'[' * 600}"], ids=["libyaml", "PyYAML"])
def test_merge_keys_are_bounded(load: Any, padding: str) -> None:
    with pytest.raises(yaml.YAMLError, match="more than 10000 pairs are merged"):
        load(doubling(20) + padding)
    assert load("a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: {<<: [*a, {z: 3}]}" + padding) == {
        "a": {"x": 1},
        "b": {"x": 1, "y": 2},
        "c": {"x": 1, "z": 3},
    }


@pytest.mark.parametrize("text", [doubling(20), "a: &a {x: 1, <<: *a}"])
def test_a_configuration_with_such_keys_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^data\[key\]: this is not YAML: "):
        yaml_in(text, "key")
