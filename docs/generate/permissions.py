"""permissions.md: what each role may do, out of `app.permissions`."""

from __future__ import annotations

from app.permissions import declared, defaults, expanded
from app.registry import ROLES, settings_of
from app.settings.source import flag_names, flags_of
from app.wiring import Permission, Role
from docs.generate.texts import Page, code, codes, page, prose, table

_WHERE = {
    "cluster": "everywhere",
    "release": "namespace of the release",
    "system": "namespace `universe`",
    "tenants": "each tenant's namespace",
    "rmd": "namespace of RMD's daemons",
}
_INTRO = """\
What the chart grants to each role's ServiceAccount, and what `berth doctor` asks the API server for. No role has `*`,
and none reads Secrets everywhere. What users get is in [security](../security.md#rights-of-users)."""


def permissions_page() -> Page:
    blocks = [_INTRO]
    for role in ROLES:
        rows = [_row(role, permission) for permission in declared(role.name)]
        head = ("Where", "Group", "Resources", "Verbs", "Names", "When")
        blocks += [f"## {role.name}", prose(role.summary), table(head, rows)]
    return page("docs/reference/permissions.md", "Permissions of the roles", *blocks)


def _row(role: Role, permission: Permission) -> tuple[str, ...]:
    names = expanded(permission.names, defaults(role.name))
    resources = expanded(permission.resources, defaults(role.name))
    return (
        _WHERE[permission.scope],
        codes([permission.group]) if permission.group else "core" if resources == permission.resources else "as named",
        codes(resources),
        codes(permission.verbs),
        codes(names) or "all",
        "with " + " and ".join(code(_flag(role, one)) for one in permission.when.split(","))
        if permission.when
        else "always",
    )


def _flag(role: Role, when: str) -> str:
    field, equals, item = when.partition("=")
    return flag_names(field, flags_of(settings_of(role.name))[field])[0] + equals.replace("=", " ") + item
