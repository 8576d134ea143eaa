"""The type of decoded Kubernetes objects, the one place that uses `Any`, and the shared JSON and YAML codecs.

Kubernetes objects stay plain dictionaries from end to end (models drop fields they do not know).
"""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

JSON = dict[str, Any]
"""One decoded Kubernetes object."""

decode_json = msgspec.json.Decoder().decode
encode_json = msgspec.json.Encoder().encode
encode_sorted = msgspec.json.Encoder(order="sorted").encode
_YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""That of libyaml takes a tenth of the time; PyYAML may be built without it."""


def load_yaml(text: str | bytes) -> Any:
    """The document of this text, None where there is none. Raises `yaml.YAMLError`, or ValueError for odd values."""
    return yaml.load(text, Loader=_YAML_LOADER)  # noqa: S506  a safe one
