"""Validation of Secrets and ConfigMaps, in the API server's words: keys, size, and what a Secret's type wants. Pure.

`check_` functions take objects after decoding and defaults: a Secret's `stringData` is in `data` by then.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

import msgspec

from app.kinds.fielderrors import FieldError
from app.kinds.name_syntax import too_long
from app.wire import decode_json

if TYPE_CHECKING:
    from app.wire import JSON

_LIMIT = 1024 * 1024
_LIMIT_TEXT = f"may not be more than {_LIMIT} bytes"
_KEY = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII)
_KEY_LIMIT = 253
_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_REDACTED = "<secret contents redacted>"
_JSON_KEYS = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}
_ACCOUNT = "kubernetes.io/service-account.name"


def key_faults(key: str) -> list[str]:
    """What is wrong with a key of a Secret or ConfigMap."""
    faults = [too_long(_KEY_LIMIT).replace("bytes", "characters")] if len(key) > _KEY_LIMIT else []
    if not _KEY.fullmatch(key):
        faults.append(_KEY_TEXT)
    if key == ".":
        faults.append("must not be '.'")
    elif key == "..":
        faults.append("must not be '..'")
    elif key.startswith(".."):
        faults.append("must not start with '..'")
    return faults


def check_config_map(obj: JSON) -> list[FieldError]:
    """All faults of a ConfigMap, its metadata aside."""
    text, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    errors: list[FieldError] = []
    for key in text:
        errors += [FieldError(f"data[{key}]", "Invalid", fault, key) for fault in key_faults(key)]
        if key in binary:
            errors.append(FieldError(f"data[{key}]", "Invalid", "duplicate of key present in binaryData", key))
    for key in binary:
        errors += [FieldError(f"binaryData[{key}]", "Invalid", fault, key) for fault in key_faults(key)]
    size = sum(len(value.encode()) for value in text.values()) + sum(_length(value) for value in binary.values())
    return [*errors, FieldError("data", "TooLong", _LIMIT_TEXT)] if size > _LIMIT else errors


def check_secret(obj: JSON) -> list[FieldError]:
    """All faults of a Secret, its metadata's form aside."""
    data, kind = obj.get("data") or {}, obj.get("type") or "Opaque"
    errors = [FieldError(f"data[{key}]", "Invalid", fault, key) for key in data for fault in key_faults(key)]
    if sum(_length(value) for value in data.values()) > _LIMIT:
        errors.append(FieldError("data", "TooLong", _LIMIT_TEXT))
    match kind:
        case "kubernetes.io/service-account-token":
            if not (obj["metadata"].get("annotations") or {}).get(_ACCOUNT):
                errors.append(FieldError(f"metadata.annotations[{_ACCOUNT}]", "Required"))
        case "kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson":
            errors += _check_json(data, _JSON_KEYS[kind])
        case "kubernetes.io/basic-auth" if "username" not in data and "password" not in data:
            errors += [FieldError(f"data[{key}]", "Required") for key in ("username", "password")]
        case "kubernetes.io/ssh-auth" if not data.get("ssh-privatekey"):
            errors.append(FieldError("data[ssh-privatekey]", "Required"))
        case "kubernetes.io/tls":
            errors += [FieldError(f"data[{key}]", "Required") for key in ("tls.crt", "tls.key") if key not in data]
    return errors


def _check_json(data: JSON, key: str) -> list[FieldError]:
    if key not in data:
        return [FieldError(f"data[{key}]", "Required")]
    try:
        decode_json(base64.b64decode(data[key]))
    except (binascii.Error, msgspec.DecodeError, UnicodeError, RecursionError):
        return [FieldError(f"data[{key}]", "Invalid", "must be a JSON object", _REDACTED)]
    return []


def _length(encoded: str) -> int:
    """Bytes behind canonical base64."""
    return len(encoded) // 4 * 3 - encoded[-2:].count("=")
