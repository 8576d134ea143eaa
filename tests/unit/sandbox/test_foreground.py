"""What the sandbox prints when it is up."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from app.devtools.clusters.foreground import INSTALL, _describe_bare


def test_bare_clusters_say_what_to_type_and_where_ports_of_nodes_are(tmp_path: Path) -> None:
    text, home = io.StringIO(), SimpleNamespace(kubeconfig=tmp_path / "tenant1.kubeconfig")
    given: Any = home
    _describe_bare(Console(file=text, width=200), given)
    lines = [line.strip() for line in text.getvalue().splitlines()]
    assert lines[-6:-4] == [f"export KUBECONFIG={tmp_path / 'kubeconfig'}", INSTALL]
    assert "Ports of nodes are at 127.0.0.1 here: write it in place of the addresses in examples/helm." in lines
