"""Objects as they travel: the one place where `Any` stands, and the JSON codec that every room uses.

Kubernetes objects stay plain dictionaries from end to end (models drop fields they do not know).
"""

from __future__ import annotations

from typing import Any

import msgspec

JSON = dict[str, Any]
"""One decoded Kubernetes object."""

decode_json = msgspec.json.Decoder().decode
encode_json = msgspec.json.Encoder().encode
