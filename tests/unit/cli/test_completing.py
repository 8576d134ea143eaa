"""What the shell offers for names that Berth knows."""

from __future__ import annotations

import json

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
        ("berth certs install --failure-policy ", ["Ignore", "Fail"]),
        ("berth webhook --tls-min-version VersionTLS13", ["VersionTLS13"]),
        ("berth demo --log-level w", ["warning"]),
        ("berth status -o ", ["text", "json", "yaml", "wide"]),
        ("berth why -o ", ["text", "json", "yaml"]),
        ("berth doctor -o ", ["text", "json", "yaml", "junit"]),
    ],
)
def test_names_are_offered(line, offered) -> None:
    assert completed(line) == offered


@pytest.mark.parametrize("command", ["status", "doctor", "why", "explain", "tenant list", "certs unregister"])
def test_contexts_of_the_kubeconfig_are_offered(command, tmp_path, monkeypatch) -> None:
    """No cluster is asked."""
    for name, contexts in (("one", ["icp", "tenant1"]), ("two", ["other"])):
        body = {"contexts": [{"name": context, "context": {"cluster": "c"}} for context in contexts]}
        (tmp_path / name).write_text(json.dumps(body))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "one"))
    assert completed(f"berth {command} --context ") == ["icp", "tenant1"]
    assert completed(f"berth {command} --kubeconfig {tmp_path / 'two'} --context ") == ["other"]
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    assert completed(f"berth {command} --context ") == []


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
