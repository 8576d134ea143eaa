from __future__ import annotations

from typing import Any

import pytest

from app.devtools.sandbox.schemas.schema import apply_defaults, prune, unknown_fields
from app.devtools.sandbox.schemas.schemacheck import check_structural
from app.devtools.sandbox.schemas.schemavalues import validate, validate_update

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["mode"],
            "properties": {
                "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
                "count": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 5},
                "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5, "minLength": 2},
                "port": {"x-kubernetes-int-or-string": True},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "when": {"type": "string", "format": "date-time"},
                "maybe": {"type": "string", "nullable": True},
                "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set", "maxItems": 3},
                "rows": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["id"],
                    "items": {
                        "type": "object",
                        "required": ["id"],
                        "properties": {"id": {"type": "string"}, "size": {"type": "integer", "default": 7}},
                    },
                },
                "template": {"type": "object", "x-kubernetes-embedded-resource": True,
                             "properties": {"spec": {"type": "object"}}},
                "choice": {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string"}},
                           "oneOf": [{"required": ["x"]}, {"required": ["y"]}]},
            },
        },
    },
}  # fmt: skip


def spec(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "n"}, "spec": {"mode": "a", **fields}}


def messages(**fields: Any) -> list[str]:
    return [str(error) for error in validate(spec(**fields), SCHEMA)]


def test_pruning_keeps_type_meta_and_preserved_fields_only() -> None:
    obj = spec(junk=1, free={"any": {"thing": 1}}, labels={"k": "v"}, rows=[{"id": "1", "no": 1}])
    obj["status"] = {"x": 1}
    kept = prune(obj, SCHEMA)
    assert kept == spec(free={"any": {"thing": 1}}, labels={"k": "v"}, rows=[{"id": "1"}])
    assert unknown_fields(obj, SCHEMA) == ["spec.junk", "spec.rows[0].no", "status"]
    assert "junk" in obj["spec"], "the argument is left alone"


def test_embedded_resource_keeps_its_type_meta() -> None:
    template = {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "b"}}, "junk": 1}
    assert prune(spec(template=template), SCHEMA)["spec"]["template"] == {k: template[k] for k in list(template)[:3]}


def test_defaults_fill_absent_fields_at_any_depth() -> None:
    obj = {"spec": {"rows": [{"id": "1"}, {"id": "2", "size": 1}]}}
    done = apply_defaults(obj, SCHEMA)
    assert done["spec"] == {"mode": "a", "rows": [{"id": "1", "size": 7}, {"id": "2", "size": 1}]}
    assert apply_defaults({"spec": {"mode": None}}, SCHEMA)["spec"] == {"mode": "a"}
    assert obj == {"spec": {"rows": [{"id": "1"}, {"id": "2", "size": 1}]}}


def test_a_valid_object_has_no_errors() -> None:
    fields = {"count": 5, "name": "abc", "port": "http", "when": "2026-01-02T03:04:05.5Z", "maybe": None, "tags": ["a"]}
    assert messages(**fields, choice={"x": "1"}, rows=[{"id": "a"}, {"id": "b"}]) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"count": "3"}, 'spec.count: Invalid value: "string": spec.count in body must be of type integer: "string"'),
        ({"count": 0}, "spec.count: Invalid value: 0: spec.count in body should be greater than or equal to 1"),
        ({"count": 9}, "spec.count: Invalid value: 9: spec.count in body should be less than or equal to 5"),
        ({"mode": "z"}, 'spec.mode: Unsupported value: "z": supported values: "a", "b"'),
        ({"name": "ab1"}, "spec.name: Invalid value: \"ab1\": spec.name in body should match '^[a-z]+$'"),
        ({"name": "ab\n"}, "spec.name: Invalid value: \"ab\\n\": spec.name in body should match '^[a-z]+$'"),
        ({"name": "abcdef"}, "spec.name: Too long: may not be more than 5 bytes"),
        ({"name": "a"}, 'spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long'),
        ({"port": 1.5}, 'spec.port: Invalid value: "number": spec.port in body must be of type integer,string: "number"'),
        ({"when": "soon"}, 'spec.when: Invalid value: "soon": spec.when in body must be of type date-time: "soon"'),
        ({"tags": ["a", "a"]}, 'spec.tags[1]: Duplicate value: "a"'),
        ({"tags": ["a", "b", "c", "d"]}, "spec.tags: Too many: 4: must have at most 3 items"),
        ({"rows": [{"id": "a"}, {"id": "a"}]}, 'spec.rows[1]: Duplicate value: {"id":"a"}'),
        ({"rows": [{}]}, "spec.rows[0].id: Required value"),
        ({"labels": {"a": 1}}, 'spec.labels.a: Invalid value: "integer": spec.labels.a in body must be of type string: "integer"'),
        ({"choice": {"x": "1", "y": "2"}}, '<nil>: Invalid value: "": "spec.choice" must validate one and only one schema (oneOf). Found 2 valid alternatives'),
    ],
)  # fmt: skip
def test_faults_are_told_in_the_api_servers_words(fields: dict[str, Any], message: str) -> None:
    assert messages(**fields) == [message]


def test_a_schema_may_say_how_an_object_is_named() -> None:
    """The one thing that the API server lets a schema say of metadata."""
    named = {"metadata": {"type": "object", "properties": {"name": {"type": "string", "pattern": "^only$"}}}}
    schema = {**SCHEMA, "properties": {**SCHEMA["properties"], **named}}
    (fault,) = validate(spec(), schema)
    assert str(fault) == "metadata.name: Invalid value: \"n\": metadata.name in body should match '^only$'"
    assert validate({**spec(), "metadata": {"name": "only", "labels": {"a": "b"}}}, schema) == []


def test_a_failed_choice_tells_what_the_first_alternative_lacks() -> None:
    assert messages(choice={}) == [
        '<nil>: Invalid value: "": "spec.choice" must validate one and only one schema (oneOf). Found none valid',
        "spec.choice.x: Required value",
    ]


def test_a_null_that_may_not_be_counts_as_absent() -> None:
    fields = {"count": None, "maybe": None, "rows": [{"id": "1", "size": None}]}
    done = apply_defaults(spec(**fields), SCHEMA)["spec"]
    assert done == {"mode": "a", "maybe": None, "rows": [{"id": "1", "size": 7}]}


def test_causes_carry_reason_and_field() -> None:
    (error,) = validate({"spec": {}}, SCHEMA)
    assert error.cause == {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.mode"}


def test_an_update_is_not_blamed_for_what_it_leaves_alone() -> None:
    old, new = (
        spec(count=9, rows=[{"id": "a", "size": "x"}]),
        spec(count=9, name="ok", rows=[{"id": "b"}, {"id": "a", "size": "x"}]),
    )
    assert validate_update(new, old, SCHEMA) == []
    assert [e.field for e in validate_update(spec(count=8), old, SCHEMA)] == ["spec.count"]


def test_structural_schemas_pass_and_others_say_why() -> None:
    assert check_structural(SCHEMA) == []
    bad = {
        "type": "object",
        "properties": {
            "a": {},
            "b": {"type": "array"},
            "c": {
                "type": "object",
                "properties": {"x": {"type": "string"}},
                "additionalProperties": {"type": "string"},
            },
            "d": {"type": "string", "pattern": "("},
            "e": {"type": "string", "default": 3},
            "f": {"type": "string", "anyOf": [{"default": "x"}]},
            "g": {"type": "string", "x-kubernetes-int-or-string": True},
            "h": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"},
        },
    }
    assert [(e.field, e.type) for e in check_structural(bad)] == [
        ("properties[a].type", "Required"),
        ("properties[b].items", "Required"),
        ("properties[c].additionalProperties", "Forbidden"),
        ("properties[d].pattern", "Invalid"),
        ("properties[e].default", "TypeInvalid"),
        ("properties[f].anyOf[0].default", "Forbidden"),
        ("properties[g].type", "Invalid"),
        ("properties[h].x-kubernetes-list-map-keys", "Required"),
    ]
    assert "properties[f].anyOf[0].default: Forbidden: must be undefined to be structural" in map(
        str, check_structural(bad)
    )
    assert [str(e) for e in check_structural({})] == ["type: Required value: must not be empty at the root"]


def test_int_or_string_may_repeat_its_types_in_any_of() -> None:
    schema = {
        "type": "object",
        "properties": {"p": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}},
    }
    assert check_structural(schema) == []
    assert validate({"p": 1}, schema) == []
