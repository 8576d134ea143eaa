"""YAML whose merge keys copy: a few hundred bytes must not stand for any number of pairs."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from app import yaml_documents
from app.kube.configuration import yaml_in
from app.yaml_documents import YamlError, load_yaml


def doubling(levels: int) -> str:
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 9)}]}}" for level in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize("parser", [yaml.CSafeLoader, yaml.SafeLoader], ids=["libyaml", "PyYAML"])
def test_merge_keys_are_bounded(parser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_documents, "_PARSER", parser)
    assert load_yaml(doubling(20))["a19"] == {"x": 1}
    keys = "a: &a {" + ", ".join(f"k{number}: 1" for number in range(300)) + "}\n"
    with pytest.raises(YamlError, match="aliases make the document many times larger"):
        load_yaml(keys + "b: {" + ", ".join(["<<: *a"] * 300) + "}")
    assert load_yaml("a: &a {x: 1}\nb: {<<: *a, w: 2}\nc: {<<: [*a, {z: 3}]}") == {
        "a": {"x": 1},
        "b": {"x": 1, "w": 2},
        "c": {"x": 1, "z": 3},
    }


@pytest.mark.parametrize("text", ["a: {<<: [1]}", "a: &a {x: 1, <<: *a}"])
def test_a_configuration_with_such_keys_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^data\[key\]: this is not YAML: "):
        yaml_in(text, "key")
