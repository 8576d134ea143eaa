"""The page about status, why, doctor and explain, typed in the sandbox: what it shows is what they print."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.pages import Shell, commands_of, prints, shown_of
from tests.e2e.users import Kubectl

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")]
PAGE, SECTION = "docs/diagnosis.md", "One problem, found and fixed"


def test_the_page_shows_what_is_printed(sandbox: Path, tmp_path: Path) -> None:
    """With the statuses of its exits; `berth doctor` after the fix ends with 0."""
    shell, kubeconfig = Shell.at(tmp_path), sandbox / "tenant1.kubeconfig"
    typed = shown_of(PAGE, SECTION)
    assert [commands.split()[:2] for commands, shown in typed if shown] == [
        ["berth", command] for command in ("status", "why", "doctor", "explain")
    ]
    try:
        for commands, shown in typed:
            printed = shell.type(commands, kubeconfig=kubeconfig)
            assert not shown or prints(shown, printed), printed
    finally:
        Kubectl(kubeconfig).run("delete", "appwrapper/sample", "--ignore-not-found")


def test_the_manifests_of_the_page_about_explain_are_explained(sandbox: Path, tmp_path: Path) -> None:
    shell = Shell.at(tmp_path)
    page = commands_of("docs/explain.md", "What would happen to my manifests")
    printed = "".join(shell.type(commands, kubeconfig=sandbox / "tenant1.kubeconfig") for commands in page)
    assert "1 injected, 0 refused; 0 errors" in printed
    assert "WorkloadRule universe/tenant1-rule1" in printed


def test_a_command_that_prints_something_else_is_found() -> None:
    assert prints("a …\n…b\n", "a 1\n2\nb\n")
    assert not prints("a …\n…b\n", "a 1\nc\n")
