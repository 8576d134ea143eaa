"""What peers make of the same inputs, by their own code: `python -m tests.peers [--check] [NAME …]` (Go, and its proxy).

Each has a folder with a Go program whose modules are pinned, and a file of answers with which tests compare.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
_UNIT = FOLDER.parent / "unit"
ANSWERS = {
    "kubectl": _UNIT / "kube" / "kubectl_yaml.json",
    "kueue": _UNIT / "appwrappers" / "goldens" / "kueue.json",
    "multus": _UNIT / "networks" / "multus.jsonl",
    "pod-requests": _UNIT / "pod_requests.json",
}
"""By peer: where its answers are kept."""
