"""What the shell offers for names that Berth knows."""

from __future__ import annotations

import pytest

from app.doctor.examining import CHECKS
from app.registry import ROLES
from tests.support.completion import completed, printed


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("berth cert", ["certificates", "certs"]),
        ("berth tenant host ", ["add", "remove"]),
        ("berth doctor --only ", [check.name for check in CHECKS]),
        ("berth doctor --only clo", ["clock"]),
        ("berth doctor --role ", [role.name for role in ROLES]),
        ("berth webhook --log-level ", ["debug", "info", "warning", "error"]),
        ("berth crds t", ["tenant"]),
    ],
)
def test_names_are_offered(line, offered) -> None:
    assert completed(line) == offered


@pytest.mark.parametrize(
    "line",
    [
        "berth explain -f exa",
        "berth webhook --tls-cert-file exa",
        "berth tenant list --kubeconfig exa",
        "berth tenant add x --ca-cert exa",
    ],
)
def test_where_a_file_is_meant_the_shell_offers_files(line) -> None:
    """It does so where nothing is offered: bash by itself, as its script says `-o default`, and zsh because of `_files`."""
    assert completed(line) == []
    assert printed(_BERTH_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS=line) == "_files\n"
