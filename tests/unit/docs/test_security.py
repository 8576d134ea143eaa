"""What docs/security.md says of roles and of tests: no role without a row, no test that does not exist."""

from __future__ import annotations

import re

from app.registry import BY_NAME, CONTROLLER, CONTROLLERS
from tests.support.paths import ROOT

PAGE = (ROOT / "docs/security.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its head."""
    lines = PAGE.partition(f"\n{heading}\n")[2].split("\n\n|", 1)[1].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_a_stolen_token_has_a_row_for_each_role_and_controller() -> None:
    accounts = {account for account, _ in rows("### What a stolen token of each role can become")}
    roles = {f"`{name}`" for name in BY_NAME if name != CONTROLLER.name}
    assert accounts == roles | {f"`controller`: `{name}`" for name in CONTROLLERS}


def test_the_tests_of_the_classes_exist() -> None:
    table = rows("## Classes of attacks")
    assert len(table) == 18
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    defined = set(re.findall(r"^(?:async )?def (test_\w+)", sources, re.MULTILINE))
    for name, why, tests in table:
        named = re.findall(r"`(test_\w+)`", tests)
        assert why, name
        assert named, name
        assert set(named) <= defined, name
