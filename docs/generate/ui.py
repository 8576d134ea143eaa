"""ui.md: the views of `berth ui`, and the members of the JSON of each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from app.ui.catalog import VIEWS
from app.ui.view import View, schema_of
from docs.generate.texts import Page, code, page, prose, table

_INTRO = """\
`berth ui` answers `/api/NAME` with the model of a view, of which the page is written too. `/api` lists the views and
the clusters, and `/api/schema` has a JSON schema for each view. Members may be added; those here keep their names and
meanings. The word `cluster` of the query names a cluster, if there are several."""
_NAME = re.compile(r"[^/]+$")


def ui_page() -> Page:
    blocks = [_INTRO]
    for view in VIEWS:
        blocks += [f"## {view.name}", prose(view.text)]
        if view.parameters:
            blocks.append(
                table(
                    ("Word of the query", "Meaning"),
                    ((code(parameter.name), prose(parameter.text)) for parameter in view.parameters),
                )
            )
        blocks.append(table(("Member", "Type"), ((code(name), text) for name, text in _members(view))))
    return page("docs/reference/ui.md", "What berth ui answers", *blocks)


def _members(view: View) -> Iterator[tuple[str, str]]:
    schema = schema_of(view.model)
    yield from _of(schema, schema["$defs"], "")


def _of(schema: dict[str, Any], definitions: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """The members of an object, and of those below it."""
    target = _resolved(schema, definitions)
    for name, member in target.get("properties", {}).items():
        place = f"{path}{name}"
        yield place, _type(member, definitions)
        below, mark = _below(member)
        if below is not None:
            yield from _of(below, definitions, f"{place}{mark}.")


def _below(member: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """What has further members: the object itself, or each of a list or of a mapping."""
    for choice in member.get("anyOf", [member]):
        if "items" in choice and _is_object(choice["items"]):
            return choice["items"], "[]"
        if isinstance(choice.get("additionalProperties"), dict) and _is_object(choice["additionalProperties"]):
            return choice["additionalProperties"], ".NAME"
        if "$ref" in choice:
            return choice, ""
    return None, ""


def _is_object(schema: dict[str, Any]) -> bool:
    return "$ref" in schema


def _type(member: dict[str, Any], definitions: dict[str, Any]) -> str:
    if "anyOf" in member:
        return " or ".join(_type(choice, definitions) for choice in member["anyOf"])
    if "$ref" in member:
        return f"object: {prose(_resolved(member, definitions).get('description', ''))}".rstrip(": ")
    if member.get("type") == "array":
        return f"list of {_type(member['items'], definitions)}"
    if member.get("type") == "object" and isinstance(member.get("additionalProperties"), dict):
        return f"mapping of {_type(member['additionalProperties'], definitions)}"
    return str(member.get("type"))


def _resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    name = _NAME.search(reference)
    found: dict[str, Any] = definitions[name[0]] if name else {}
    return found
