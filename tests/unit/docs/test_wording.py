"""Texts that users see name who acts: the words below leave that open."""

from __future__ import annotations

import re

import pytest

from tests.support.paths import ROOT

_VAGUE = re.compile(r"\b(?:nobody|somebody|anybody|everybody|whoever|whomever)\b|(?<!{)\broads?\b(?!`)", re.IGNORECASE)
_SHOWN = (
    "app/*/findings.toml",
    "app/*/templates/*.html",
    "charts/berth/files/alerts.yaml",
    "charts/berth/values.yaml",
    "charts/berth/templates/NOTES.txt",
    "docs/reference/*.md",
    "docs/diagnosis.md",
    "docs/explain.md",
)
_INTERNAL = frozenset({"modules.md"})
"""Of docstrings, for those who change Berth."""


@pytest.mark.parametrize("pattern", _SHOWN)
def test_no_text_leaves_open_who_acts(pattern: str) -> None:
    paths = [path for path in ROOT.glob(pattern) if path.name not in _INTERNAL]
    assert paths
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if _VAGUE.search(line)
    ]
    assert not found
