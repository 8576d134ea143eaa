"""The controller that docs/adding-a-wing.md shows is the tested one, whole, and short."""

from __future__ import annotations

import re

from tests.support.paths import ROOT

ECHO = ROOT / "tests/integration/wing/echo"
LINES = 150
"""The most that a controller of two kinds, with a status and permissions, may take."""
SECTION = (ROOT / "docs/adding-a-wing.md").read_text().partition("\n## A whole controller\n")[2]
BLOCKS = re.findall(r"^```(?:python)?\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE)


def test_the_controller_of_the_page_is_that_of_the_tests() -> None:
    *parts, whole = BLOCKS
    assert whole == (ECHO / "choirs.py").read_text()
    (entry, *needs) = parts
    assert entry in (ECHO / "wing.py").read_text()
    assert len(needs) == 2
    for block in needs:
        assert f"\n{block}" in (ECHO / "needs.py").read_text()


def test_a_controller_of_two_kinds_is_short() -> None:
    assert sum(block.count("\n") for block in BLOCKS) <= LINES
