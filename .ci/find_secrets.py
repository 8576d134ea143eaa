"""Looks for secrets in the files of the tree, without the network: `.ci/find_secrets.py [--accept]`.

What .secrets.baseline names (by hash) was looked at and is none: names of objects, keys of tests. `--accept` writes
that file anew. Exit status: 0 nothing new, 1 something that may be a secret.
"""

# ruff: noqa: INP001, T201  a program, in no package

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from detect_secrets.core import baseline
from detect_secrets.core.secrets_collection import SecretsCollection
from detect_secrets.settings import default_settings, get_settings

ROOT = Path(__file__).parents[1]
BASELINE = ROOT / ".secrets.baseline"


def main(arguments: list[str]) -> int:
    known = baseline.load(json.loads(BASELINE.read_text()), str(BASELINE)) if BASELINE.exists() else SecretsCollection()
    with default_settings():
        # Asking the service that a token is for would tell it to the network.
        get_settings().disable_filters("detect_secrets.filters.common.is_ignored_due_to_verification_policies")
        # Names are relative to the tree, lest the baseline be of one machine's directory.
        os.chdir(ROOT)
        found = SecretsCollection()
        found.scan_files(*_files())
        if "--accept" in arguments:
            BASELINE.write_text(json.dumps(baseline.format_for_output(found, is_slim_mode=True), indent=2) + "\n")
            return 0
    new = found - known
    for path, secret in new:
        print(f"{path}:{secret.line_number}: {secret.type}", file=sys.stderr)
    if new:
        print("If none of these is a secret: make secrets, and look at the difference.", file=sys.stderr)
    return 1 if new else 0


def _files() -> list[str]:
    """What is in the tree, committed or about to be. Lock files hold hashes alone, and drawings numbers."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    names = sorted(set(listed.split("\0")) - {"", BASELINE.name})
    return [name for name in names if not name.endswith((".lock", ".svg", "go.sum")) and (ROOT / name).is_file()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
