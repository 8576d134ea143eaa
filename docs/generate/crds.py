"""crds.md: every kind with its fields, out of the schemas; and the chart's copies of the definitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.definitions import GROUPS, read_definitions, read_texts
from app.registry import CLUSTERS
from app.wire import JSON
from docs.generate.texts import Page, code, codes, page, prose, table

_LIMITS = {
    "enum": "one of",
    "pattern": "matches",
    "format": "format",
    "minLength": "characters at least",
    "maxLength": "characters at most",
    "minimum": "at least",
    "maximum": "at most",
    "minItems": "items at least",
    "maxItems": "items at most",
    "minProperties": "members at least",
    "maxProperties": "members at most",
    "default": "default",
}


def crds_page() -> Page:
    intro = "`berth crds` prints the definitions; the chart brings those that its roles need."
    blocks = [intro]
    for cluster, kinds in GROUPS.items():
        blocks.append(f"## {CLUSTERS[cluster]}")
        blocks += [_kind(definition) for definition in read_definitions(kinds)]
    return page("docs/reference/crds.md", "Custom resources", *blocks)


def chart_definitions() -> list[Page]:
    """The files of the chart: what `berth crds` prints, byte for byte."""
    return [
        Page(f"charts/berth/files/crds/{name}.yaml", "\n---\n".join(t.strip() for t in read_texts(kinds)) + "\n")
        for name, kinds in GROUPS.items()
    ]


def _kind(definition: JSON) -> str:
    spec = definition["spec"]
    names = spec["names"]
    blocks = [f"### {names['kind']}"]
    for version in spec["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        also = codes(names.get("shortNames", ()))
        facts = f"{code(spec['group'] + '/' + version['name'])}, {code(names['plural'])}"
        facts += f" (also {also})" if also else ""
        facts += f", {'in a namespace' if spec['scope'] == 'Namespaced' else 'of the whole cluster'}"
        blocks += [facts + ".", prose(schema.get("description", ""))]
        rows = [row for row in _fields("", schema) if row[0] not in {"`apiVersion`", "`kind`", "`metadata`"}]
        blocks.append(table(("Field", "Type", "Text"), rows))
        blocks += _rules(schema)
    return "\n\n".join(block for block in blocks if block)


def _fields(path: str, schema: JSON) -> Iterator[tuple[str, str, str]]:
    required = set(schema.get("required", ()))
    for name, below in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        said = [prose(below.get("description", "")), _limits(below), _rule_lines(below)]
        kind = _type(below) + (", required" if name in required else "")
        yield code(here), kind, " ".join(text for text in said if text)
        yield from _fields(here, below)
        items: JSON = below.get("items", {})
        yield from _fields(f"{here}[]", items)
        values = below.get("additionalProperties")
        if isinstance(values, dict):
            yield from _fields(f"{here}.*", values)


def _type(schema: JSON) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        return f"map of {_type(values)}"
    kind = str(schema.get("type", "any"))
    return f"{kind}, open" if schema.get("x-kubernetes-preserve-unknown-fields") else kind


def _limits(schema: JSON) -> str:
    found = [f"{words} {_value(schema[name])}" for name, words in _LIMITS.items() if name in schema]
    return f"({'; '.join(found)})" if found else ""


def _value(value: Any) -> str:
    return codes(str(item) or '""' for item in value) if isinstance(value, list) else code(str(value))


def _rule_lines(schema: JSON) -> str:
    rules = schema.get("x-kubernetes-validations", ())
    return " ".join(f"Rule: {prose(rule.get('message', rule['rule']))}." for rule in rules)


def _rules(schema: JSON) -> list[str]:
    said = _rule_lines(schema)
    return [said] if said else []
