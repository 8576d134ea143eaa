"""Tenants on a terminal."""

from __future__ import annotations

from app.cli.tenant_commands import render_tenants
from tests.support.tenants import tenant


def test_what_others_said_does_not_command_the_terminal() -> None:
    status = {"result": "error", "message": "\x1b[31mred\nname", "observedGeneration": 1}
    failed = tenant("tenant1") | {"status": status}
    shown = render_tenants([failed], "text")
    assert len(shown.splitlines()) == 2
    assert "error: \\u001b[31mred\\u000aname" in shown
