"""Files of the chart: roles.json, over which its templates loop, claims-policy.yaml, and the roles in its schema."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from app.certs.permissions import unregistering
from app.claims.permissions import format_policy
from app.definitions import GROUPS
from app.doctor.reachability import READS
from app.permissions import declared
from app.placement.model import OWN_VOLUMES, volume_types
from app.registration import rules_of
from app.registry import (
    CONTROLLER,
    CONTROLLERS,
    REVIEWED,
    ROLES,
    SCOPES,
    arguments_of,
    condition_terms,
    egress_of,
    needs_of,
    settings_of,
    webhooks_of,
)
from app.settings.source import Flag, flag_names, flags_of, parsed_type
from app.tenancy.model import tenants_role
from app.users import USER_ROLES, UserRole
from app.wire import JSON
from app.wiring import Argument, Permission, Role, Scope, Webhook
from docs.generate.texts import Page

FILES = "charts/berth/files"
SCHEMA = "charts/berth/values.schema.json"
_WIDTH = 110
_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
_OF_PODS = {
    "replicas": "replicas",
    "resources": "resources",
    "nodeSelector": "texts",
    "tolerations": "objects",
    "affinity": "free",
    "podAnnotations": "texts",
    "podLabels": "texts",
    "extraArgs": "flags",
    "extraEnv": "environment",
}
"""The values that every role has, and their definitions in the schema; replicas are those of a Deployment."""


def chart_pages(root: Path) -> list[Page]:
    schema = json.loads((root / SCHEMA).read_text(encoding="utf-8"))
    return [
        Page(f"{FILES}/roles.json", _text(roles_file(ROLES)) + "\n"),
        Page(f"{FILES}/claims-policy.yaml", policy_file()),
        Page(SCHEMA, _text(with_roles(schema, ROLES)) + "\n"),
    ]


def roles_file(roles: Iterable[Role]) -> JSON:
    (unregister,) = unregistering()
    return {
        "roles": [_role(role) for role in roles],
        "webhooks": [_webhook(one) for one in webhooks_of()],
        "unregister": _rule(unregister.group, unregister.resources, unregister.verbs),
        "test": [_rule(read.group, read.resources, read.verbs) for read in READS],
        "users": [_user_role(role) for role in USER_ROLES],
        "tenantVolumes": {"own": sorted(OWN_VOLUMES), "allowable": volume_types()},
    }


def policy_file() -> str:
    """The spec of the policy about network data in statuses of claims, as YAML with long lines."""
    return yaml.safe_dump(format_policy(), sort_keys=False, allow_unicode=True, width=2**20)


def with_roles(schema: JSON, roles: Iterable[Role]) -> JSON:
    """The schema of the values with what follows from the roles; all else stays as it is written."""
    for role in roles:
        written = schema["properties"].setdefault(role.name, {"type": "object", "additionalProperties": False})
        properties = written.setdefault("properties", {} if role.chart.enabled else {"enabled": {"type": "boolean"}})
        of_pods = {name: one for name, one in _OF_PODS.items() if name != "replicas" or role.chart.kind == "Deployment"}
        properties |= {name: {"$ref": f"#/definitions/{definition}"} for name, definition in of_pods.items()}
        types = settings_of(role.name).model_json_schema()["properties"]
        args = {camel(one.field): types[one.field] for one in arguments_of(role) if not (one.source or one.text)}
        if args:
            above = properties.setdefault("args", {"type": "object", "additionalProperties": False, "properties": {}})
            above["properties"] |= {name: _schema(said, above["properties"].get(name)) for name, said in args.items()}
    return schema


def _schema(said: JSON, written: JSON | None) -> JSON:
    """The type of a setting, if that is all there is to it; texts and lists may have a narrower schema by hand.

    Names that a list may have are those of the setting.
    """
    if "enum" in said:
        return {"enum": said["enum"]}
    if said["type"] in {"integer", "number", "boolean"}:
        return {"type": said["type"]} | {bound: said[bound] for bound in _BOUNDS if bound in said}
    items = {"items": said["items"]} if "enum" in said.get("items", {}) else {}
    return (written or {key: said[key] for key in ("type", "items") if key in said}) | items


def _role(role: Role) -> JSON:
    chart, settings = role.chart, settings_of(role.name)
    flags = flags_of(settings)
    namespaces = {one.field: one.source for one in arguments_of(role)}
    rules = {scope: _rules(role, scope) for scope in SCOPES}
    return _without_empty(
        {
            "name": role.name,
            "kind": chart.kind,
            "enabled": chart.enabled or f"{role.name}.enabled",
            "arguments": [_argument(role, one, flags[one.field]) for one in arguments_of(role)],
            # The variable holds the namespace of the Pod.
            "namespaceVariable": "namespace" in flags
            and namespaces.get("namespace", "berth.namespace") == "berth.namespace",
            "ports": [{"name": port.name, "port": port.number, "service": port.service} for port in chart.ports],
            "tls": chart.tls,
            "volumes": chart.volumes,
            "host": chart.host,
            "namespace": chart.namespace,
            "template": chart.template,
            "nodeVariable": "node_name" in flags,
            "grace": [str(one) if isinstance(one, int) else _source(role, one) for one in chart.grace],
            "egress": egress_of(role),
            "notes": chart.notes,
            "first": chart.first,
            "next": [*chart.next, *_next_of_controllers(role)],
            "definitions": [
                _without_empty({"name": name, "when": _source(role, f"controllers={one}") if one else ""})
                for name, controllers in needs_of(role).items()
                if name in GROUPS
                for one in controllers or ("",)
            ],
            "rules": _without_empty(rules),
            "tenantsRole": tenants_role(role.name) if rules["tenants"] else "",
        }
    )


def _next_of_controllers(role: Role) -> list[str]:
    """The commands that come next, each where its controller runs."""
    when = '{{{{ if include "berth.isOn" (dict "root" . "when" "{}") }}}}{}{{{{ end }}}}'
    of_controllers = CONTROLLERS.values() if role is CONTROLLER else ()
    return [when.format(_source(role, f"controllers={one.name}"), text) for one in of_controllers for text in one.next]


def _argument(role: Role, one: Argument, flag: Flag) -> JSON:
    settings = settings_of(role.name)
    field, name = settings.model_fields[one.field], flag_names(one.field, flag)[0]
    switch = parsed_type(field, flag) is bool
    return _without_empty(
        {
            "flag": name,
            "text": one.text,
            "source": "" if one.text else _source(role, one.field, one),
            "when": one.when,
            "repeat": flag.repeatable,
            "switch": switch,
            # A switch that is off says so where the default is on.
            "off": f"--no-{name.removeprefix('--')}" if switch and (one.always or field.default) else "",
            "always": one.always and not switch,
        }
    )


def _source(role: Role, field: str, given: Argument | None = None) -> str:
    """Where the chart takes the value of a setting from. It asks of `field=item` for the item; commas join several."""
    if "," in field:
        return ",".join(_source(role, one) for one in field.split(","))
    name, equals, item = field.partition("=")
    given = given or next(one for one in arguments_of(role) if one.field == name)
    return (given.source or f"{role.name}.args.{camel(name)}") + equals + item


def _rules(role: Role, scope: Scope) -> list[JSON]:
    """The rules of a Role or ClusterRole, one for permissions that differ in their resources alone, or in names alone.

    A rule, or a name, with `when` is there where that source is on. A name is a text or has a source. `kinds` is the
    source of a list of PLURAL.GROUP, each of which gets the verbs.
    """
    by_verbs: dict[tuple[object, ...], list[Permission]] = {}
    for one in declared(role.name):
        if one.scope == scope:
            by_verbs.setdefault((one.group, one.verbs, one.names, one.when), []).append(one)
    by_resources: dict[str, JSON] = {}
    for alike in by_verbs.values():
        first = alike[0]
        rule = _rule(first.group, [resource for one in alike for resource in one.resources], first.verbs)
        when = _source(role, first.when) if first.when else ""
        if first.names:
            names = [_without_empty(_name(role, name) | {"when": when}) for name in first.names]
            by_resources.setdefault(repr(rule), rule | {"names": []})["names"] += names
        elif first.resources[0].startswith("{"):
            kinds = {"kinds": _source(role, first.resources[0].strip("{}")), "verbs": list(first.verbs)}
            by_resources[repr(kinds)] = kinds | ({"when": when} if when else {})
        else:
            by_resources[repr((rule, when))] = rule | ({"when": when} if when else {})
    return list(by_resources.values())


def _rule(group: str, resources: Iterable[str], verbs: Iterable[str]) -> JSON:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def _user_role(role: UserRole) -> JSON:
    rules = [_rule(permission.group, permission.resources, permission.verbs) for permission in role.permissions]
    return _without_empty({"name": role.name, "when": role.when, "labels": role.labels, "rules": rules})


def _name(role: Role, name: str) -> JSON:
    return {"source": _source(role, name.strip("{}"))} if name.startswith("{") else {"text": name}


def _webhook(one: Webhook) -> JSON:
    """A webhook as the templates take it: where and for what it is called, and by which sources it is on."""
    return _without_empty(
        {
            "name": one.name,
            "configuration": "Mutating" if REVIEWED[one.kind] == "mutate" else "Validating",
            "path": f"/{REVIEWED[one.kind]}",
            "values": one.values,
            "when": one.when,
            "proven": one.proven,
            "rules": [rule | {"scope": one.scope} for rule in rules_of(one.kind)],
            "namespaces": [_without_empty(asdict(requirement)) for requirement in one.namespaces],
            "objects": [_without_empty(asdict(requirement)) for requirement in one.objects],
            "conditions": [
                _without_empty(
                    {
                        "name": condition.name,
                        "when": condition.when,
                        "terms": [_without_empty(asdict(term)) for term in condition_terms(condition)],
                    }
                )
                for condition in one.conditions
            ],
        }
    )


def camel(field: str) -> str:
    first, *others = field.split("_")
    return first + "".join(map(str.capitalize, others))


def _without_empty(found: JSON) -> JSON:
    return {key: value for key, value in found.items() if value}


def _text(content: Any, margin: str = "") -> str:
    """JSON; what fits on a line stands on one."""
    line = json.dumps(content)
    if len(margin) + len(line) <= _WIDTH or not isinstance(content, dict | list | tuple):
        return line
    below = margin + "  "
    if isinstance(content, dict):
        items = [f"{json.dumps(key)}: {_text(value, below)}" for key, value in content.items()]
        return "{\n" + ",\n".join(below + item for item in items) + f"\n{margin}}}"
    return "[\n" + ",\n".join(below + _text(value, below) for value in content) + f"\n{margin}]"
