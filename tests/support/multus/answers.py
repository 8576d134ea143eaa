"""The answers of Multus, as `python -m tests.support.multus` has written them; `go.mod` says which version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.wire import decode_json

ANSWERS = Path(__file__).parent / "answers.jsonl"


def answers() -> list[dict[str, Any]]:
    """One for each of `inputs.cases`, in its order; see `parse.go` for the members."""
    return [decode_json(line) for line in ANSWERS.read_bytes().splitlines()]
