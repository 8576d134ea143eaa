"""What `berth tenant` shows: tenants, and errors of their own class."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli.tenant_commands import in_infra, render_tenants
from app.errors import BadReview
from app.kube.client import KubeClient
from tests.support.fake_apiserver import write_kubeconfig
from tests.support.tenants import tenant


def test_what_others_said_does_not_command_the_terminal() -> None:
    status = {"result": "error", "message": "\x1b[31mred\nname", "observedGeneration": 1}
    failed = tenant("tenant1") | {"status": status}
    shown = render_tenants([failed], "text")
    assert len(shown.splitlines()) == 2
    assert "error: \\u001b[31mred\\u000aname" in shown


def test_an_error_names_the_cluster_in_its_commands_and_keeps_its_class(tmp_path: Path) -> None:
    kubeconfig = str(write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1"))

    async def fail(_client: KubeClient) -> None:
        raise BadReview("see `kubectl get tenants`", status=413)

    with pytest.raises(BadReview) as told:
        in_infra(fail, kubeconfig, None)
    assert str(told.value) == f"see `kubectl --kubeconfig {kubeconfig} get tenants`"
    assert told.value.status == 413
