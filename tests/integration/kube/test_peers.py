"""The values of golden files are those of the peers' own code, where Go and its modules are there.

`python -m tests.integration.kube.test_peers` writes the files anew.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from app.wire import JSON
from tests.support.paths import ROOT
from tests.support.peers import run_peer

UNIT = ROOT / "tests" / "unit"
GOLDENS = {"kubectl": UNIT / "kube" / "kubectl_yaml.json", "pod-requests": UNIT / "pod_requests.json"}


def written(content: JSON) -> str:
    """The text of a golden file: a line for each reading."""
    lines = ",\n".join(f" {json.dumps(reading)}" for reading in content.pop("readings"))
    return f'{json.dumps(content)[:-1]}, "readings": [\n{lines}\n]}}\n'


def anew(peer: str, golden: Path) -> str:
    """The golden file with what the peer makes of its cases now."""
    content = json.loads(golden.read_text())
    given = [reading["text"] if peer == "kubectl" else stored(reading) for reading in content["readings"]]
    answers = json.loads(run_peer(peer, json.dumps(given)))
    content["readings"] = [{**reading, **answer} for reading, answer in zip(content["readings"], answers, strict=True)]
    return written(content)


def stored(reading: JSON) -> JSON:
    """The spec as the API server of the golden file stored it."""
    spec: JSON = copy.deepcopy(reading["given"])
    for container in [*spec["containers"], *spec.get("initContainers", [])]:
        resources = container.get("resources", {})
        if "limits" in resources:
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    return {**spec, "resources": reading["resources"]}


@pytest.mark.parametrize("peer", GOLDENS)
def test_goldens_are_what_the_peer_says(peer: str) -> None:
    assert anew(peer, GOLDENS[peer]) == GOLDENS[peer].read_text()


if __name__ == "__main__":
    for name, path in GOLDENS.items():
        path.write_text(anew(name, path))
