"""The values of golden files are those of the peers' own code, where Go and its modules are there.

`python -m tests.integration.kube.test_peers` writes the files anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.peers import run_peer

GOLDENS = {"kubectl": ROOT / "tests" / "unit" / "kube" / "kubectl_yaml.json"}


def anew(peer: str, golden: Path) -> str:
    """The golden file with what the peer makes of its cases now."""
    content = json.loads(golden.read_text())
    texts = [reading["text"] for reading in content["readings"]]
    content["readings"] = json.loads(run_peer(peer, json.dumps(texts)))
    return json.dumps(content, indent=1) + "\n"


@pytest.mark.parametrize("peer", GOLDENS)
def test_goldens_are_what_the_peer_says(peer: str) -> None:
    assert anew(peer, GOLDENS[peer]) == GOLDENS[peer].read_text()


if __name__ == "__main__":
    for name, path in GOLDENS.items():
        path.write_text(anew(name, path))
