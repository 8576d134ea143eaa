"""What an API server makes of a patch that was planned."""

from __future__ import annotations

import json
from typing import Any

import jsonpatch

from app.admission.patch import Patch
from app.wire import encode_json


def patched(obj: Any, patch: Patch) -> Any:
    """A new object: `obj` after the JSON that is sent for the patch."""
    return jsonpatch.apply_patch(obj, json.loads(encode_json(patch.operations)))
