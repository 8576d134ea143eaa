"""Validation of values against structural schemas, with the API server's messages and its ratcheting on update.

Pure. An update is validated beside the old value: what did not change is not blamed. `check_value` sees every node once
together with its old value, so rules over values (CEL) have their place beside `_check_composition`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isclose
from typing import Any

from app.cel.libraries import compiled_pattern
from app.devtools.sandbox.schemas.formats import is_format, type_name
from app.kinds.fielderrors import FieldError, child
from app.wire import JSON, encode_json

_ABSENT = object()
_NO_FIELD = "<nil>"
"""What the API server gives as the field of a composition's fault."""
_TYPE_META = frozenset({"apiVersion", "kind", "metadata"})
_Check = Callable[[Any, JSON, str], list[FieldError]]


def validate(obj: JSON, schema: JSON) -> list[FieldError]:
    """All faults of `obj`, in the order of its fields; of its metadata what the schema says, of embedded ones none."""
    return check_value(obj, schema, "", _ABSENT)


def validate_update(new: JSON, old: JSON, schema: JSON) -> list[FieldError]:
    """The faults of `new` outside of values that are unchanged from `old`."""
    return check_value(new, schema, "", old)


def check_value(value: Any, schema: JSON, path: str, old: Any) -> list[FieldError]:
    """The faults of one value and all below it; `old` is its former value, if there was one."""
    if old is not _ABSENT and old == value:
        return []
    if value is None and schema.get("nullable"):
        return []
    mismatch = _check_type(value, schema, path)
    if mismatch is not None:
        return [mismatch]
    errors = _check_enum(value, schema, path)
    if isinstance(value, str):
        errors += _check_string(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        errors += _check_number(value, schema, path)
    elif isinstance(value, list):
        errors += _check_list(value, schema, path, old)
    elif isinstance(value, dict):
        errors += _check_object(value, schema, path, old)
    return errors + _check_composition(value, schema, path)


def _in_body(path: str, text: str) -> str:
    return f"{path} in body {text}"


def _check_type(value: Any, schema: JSON, path: str) -> FieldError | None:
    actual = type_name(value)
    wanted = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        fits = actual in ("integer", "string")
        wanted = "integer,string"
    else:
        whole = isinstance(value, float) and value.is_integer()
        fits = not wanted or actual == wanted or (wanted == "number" and actual == "integer")
        fits = fits or (wanted == "integer" and whole)
    if fits:
        return None
    return FieldError(path, "TypeInvalid", _in_body(path, f'must be of type {wanted}: "{actual}"'), actual)


def _check_enum(value: Any, schema: JSON, path: str) -> list[FieldError]:
    allowed = schema.get("enum")
    if allowed is None or any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in allowed):
        return []
    values = ", ".join(
        encode_json(one if isinstance(one, str) else encode_json(one).decode()).decode() for one in allowed
    )
    return [FieldError(path, "NotSupported", f"supported values: {values}", value)]


def _check_string(value: str, schema: JSON, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if "maxLength" in schema and len(value) > schema["maxLength"]:
        errors.append(FieldError(path, "TooLong", f"may not be more than {schema['maxLength']} bytes", value))
    if "minLength" in schema and len(value) < schema["minLength"]:
        text = _in_body(path, f"should be at least {schema['minLength']} chars long")
        errors.append(FieldError(path, "Invalid", text, value))
    pattern = schema.get("pattern")
    if pattern and not compiled_pattern(pattern).search(value):
        errors.append(FieldError(path, "Invalid", _in_body(path, f"should match '{pattern}'"), value))
    if not is_format(value, schema.get("format", "")):
        text = _in_body(path, f"must be of type {schema['format']}: {encode_json(value).decode()}")
        errors.append(FieldError(path, "TypeInvalid", text, value))
    return errors


def _check_number(value: float, schema: JSON, path: str) -> list[FieldError]:
    faults: list[str] = []
    low, high, step = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    if low is not None and (value < low or (value == low and schema.get("exclusiveMinimum"))):
        faults.append(f"should be greater than {'' if schema.get('exclusiveMinimum') else 'or equal to '}{low}")
    if high is not None and (value > high or (value == high and schema.get("exclusiveMaximum"))):
        faults.append(f"should be less than {'' if schema.get('exclusiveMaximum') else 'or equal to '}{high}")
    if step and not isclose(value / step, round(value / step), abs_tol=1e-9):
        faults.append(f"should be a multiple of {step}")
    bits = {"int32": 31, "int64": 63}.get(schema.get("format", ""))
    if bits is not None and not -(2**bits) <= value < 2**bits:
        faults.append(f"must be of type {schema['format']}: {value}")
    return [FieldError(path, "Invalid", _in_body(path, fault), value) for fault in faults]


def _count(number: int) -> str:
    return "1 item" if number == 1 else f"{number} items"


def _check_list(value: list[Any], schema: JSON, path: str, old: Any) -> list[FieldError]:
    errors: list[FieldError] = []
    if "maxItems" in schema and len(value) > schema["maxItems"]:
        errors.append(FieldError(path, "TooMany", f"must have at most {_count(schema['maxItems'])}", len(value)))
    if "minItems" in schema and len(value) < schema["minItems"]:
        errors.append(
            FieldError(path, "Invalid", _in_body(path, f"should have at least {schema['minItems']} items"), len(value))
        )
    identity = _identity(schema)
    seen: list[Any] = []
    before: list[tuple[Any, Any]] = []
    if identity is not None and isinstance(old, list):
        before = [(identity(element), element) for element in old]
    items = schema.get("items") or {}
    for index, element in enumerate(value):
        where = f"{path}[{index}]"
        former: Any = _ABSENT
        if identity is not None:
            key = identity(element)
            if key in seen:
                errors.append(FieldError(where, "Duplicate", "", key))
            seen.append(key)
            former = next((then for known, then in before if known == key), _ABSENT)
        errors += check_value(element, items, where, former)
    return errors


def _identity(schema: JSON) -> Callable[[Any], Any] | None:
    """What makes an element unique: itself in a set, its key fields in a map, nothing in an atomic list."""
    list_type = schema.get("x-kubernetes-list-type")
    if list_type == "set":
        return lambda element: element
    if list_type != "map":
        return None
    keys = schema.get("x-kubernetes-list-map-keys") or []
    return lambda element: {key: element.get(key) for key in keys} if isinstance(element, dict) else element


def _check_object(value: JSON, schema: JSON, path: str, old: Any) -> list[FieldError]:
    errors: list[FieldError] = []
    if "maxProperties" in schema and len(value) > schema["maxProperties"]:
        errors.append(FieldError(path, "TooMany", f"must have at most {_count(schema['maxProperties'])}", len(value)))
    if "minProperties" in schema and len(value) < schema["minProperties"]:
        text = _in_body(path, f"should have at least {schema['minProperties']} properties")
        errors.append(FieldError(path, "Invalid", text, len(value)))
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    errors += [FieldError(child(path, name), "Required") for name in schema.get("required") or [] if name not in value]
    properties: JSON = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    for name, member in value.items():
        typical = name in _TYPE_META and (not path or embedded)
        if typical and (embedded or name != "metadata"):
            continue
        # A schema may say how an object may be named, and no more of its metadata.
        inner = properties.get(name, extra if isinstance(extra, dict) and not typical else None)
        if inner is not None:
            former = old.get(name, _ABSENT) if isinstance(old, dict) else _ABSENT
            errors += check_value(member, inner, child(path, name), former)
    return errors


def _check_composition(value: Any, schema: JSON, path: str) -> list[FieldError]:
    """allOf, anyOf, oneOf and not, which in a structural schema only judge values."""

    def holds(part: JSON) -> bool:
        return not check_value(value, part, path, _ABSENT)

    errors: list[FieldError] = []
    quoted = encode_json(path).decode()
    for part in schema.get("allOf") or []:
        errors += check_value(value, part, path, _ABSENT)
    any_of, one_of = schema.get("anyOf") or [], schema.get("oneOf") or []
    if any_of and not any(holds(part) for part in any_of):
        errors.append(FieldError(_NO_FIELD, "Invalid", f"{quoted} must validate at least one schema (anyOf)", ""))
        errors += check_value(value, any_of[0], path, _ABSENT)
    if one_of:
        count = sum(holds(part) for part in one_of)
        if count != 1:
            found = "Found none valid" if count == 0 else f"Found {count} valid alternatives"
            text = f"{quoted} must validate one and only one schema (oneOf). {found}"
            errors.append(FieldError(_NO_FIELD, "Invalid", text, ""))
            errors += [] if count else check_value(value, one_of[0], path, _ABSENT)
    if schema.get("not") and holds(schema["not"]):
        errors.append(FieldError(_NO_FIELD, "Invalid", f"{quoted} must not validate the schema (not)", ""))
    return errors
