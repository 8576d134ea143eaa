"""permissions.md: what each role may do, out of `app.permissions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app import permissions
from app.permissions import Permission
from docs.generate.texts import Page, codes, page, prose, table

_WHERE = {
    "cluster": "everywhere",
    "release": "namespace of the release",
    "system": "namespace `universe`",
    "tenants": "each tenant's namespace",
}
_INTRO = """\
What the chart grants to each role's ServiceAccount, and what `berth doctor` asks the API server for. No role has `*`,
and none reads Secrets everywhere."""


def permissions_page() -> Page:
    blocks = [_INTRO]
    for role, variants in role_permissions().items():
        blocks += [f"## {role}", *_role(role, variants)]
    return page("docs/reference/permissions.md", "Permissions of the roles", *blocks)


def role_permissions() -> dict[str, dict[str, Sequence[Permission]]]:
    """By role: its permissions by when it has them; "" is always."""
    webhook = permissions.webhook(events=False)
    return {
        "webhook": {
            "": webhook,
            "with `--confine-tenants`": _more(permissions.webhook(confine_tenants=True, events=False), webhook),
            "with `--events`": _more(permissions.webhook(), webhook),
        },
        "controller": {"": permissions.controller()},
        "gateway": {"": permissions.gateway()},
        "agent": {"": permissions.agent()},
        "certificates": {
            "for the webhook": permissions.certificates(),
            "for the gateway": permissions.certificates(webhook=False, gateway=True),
        },
    }


def _more(some: Sequence[Permission], than: Sequence[Permission]) -> list[Permission]:
    return [permission for permission in some if permission not in than]


def _role(role: str, variants: Mapping[str, Sequence[Permission]]) -> list[str]:
    rows = [_row(permission, when) for when, some in variants.items() for permission in some]
    said = getattr(permissions, role).__doc__ or ""
    return [prose(said), table(("Where", "Group", "Resources", "Verbs", "Names", "When"), rows)]


def _row(permission: Permission, when: str) -> tuple[str, ...]:
    group = codes([permission.group]) if permission.group else "core"
    named = codes(permission.names)
    return (
        _WHERE[permission.scope],
        group,
        codes(permission.resources),
        codes(permission.verbs),
        named or "all",
        when or "always",
    )
