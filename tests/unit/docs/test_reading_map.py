"""README says which folders to read for a purpose, and how many lines: as the modules import each other."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import grimp
import pytest

from app.registry import WINGS
from tests.support.paths import ROOT

README = (ROOT / "README.md").read_text()
SECTION = README.partition("\n## What to read in the code\n")[2].partition("\n## ")[0]
ROWS = [
    [cell.strip() for cell in row] for row in re.findall(r"^\|(.+)\|(.+)\|(.+)\|(.+)\|$", SECTION, re.MULTILINE)[2:]
]
FIRST_SCREEN = 50
"""Lines of README before the map."""
TOLERANCE = 1000
"""Lines: figures are rounded to so many."""
ABOVE = {"checks", "sections", "views", "why"}
"""What a wing has for `berth doctor`, `berth status`, `berth why` and `berth ui`: it is read with those."""
UNNAMED = 0.1
"""The most that is read in folders that a row does not name."""


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("app", exclude_type_checking_imports=True)


def file_of(module: str) -> Path:
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def number(figure: str) -> int:
    return int(figure.replace(",", ""))


def lines_below(folder: Path) -> int:
    return sum(path.read_text().count("\n") for path in folder.rglob("*.py"))


def lines_by_folder(graph: grimp.ImportGraph, starts: list[str]) -> Counter[str]:
    """Lines of these modules, or of all modules in these folders, and of what they import; "" is `app` itself."""
    modules = set[str]()
    for start in starts:
        name = start.removesuffix(".py").rstrip("/").replace("/", ".")
        roots = {name} | (graph.find_descendants(name) if start.endswith("/") else set())
        roots = {root for root in roots if not ABOVE & {*root.split(".")[2:]}}
        modules |= roots.union(*(graph.find_upstream_modules(root) for root in roots))
    lines = Counter[str]()
    for module in modules:
        path = file_of(module)
        folders = path.relative_to(ROOT / "app").parts[:-1]
        lines[folders[0] if folders else ""] += path.read_text().count("\n")
    return lines


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_the_map_is_that_of_the_imports(graph: grimp.ImportGraph, row: list[str]) -> None:
    _, starts, folders, figure = row
    lines = lines_by_folder(graph, re.findall(r"`(app/[^`]*)`", starts))
    named = set(re.findall(r"`(\w+)`", folders))
    assert abs(lines.total() - number(figure)) <= TOLERANCE, dict(lines)
    assert named <= lines.keys()
    unnamed = {folder: count for folder, count in lines.items() if folder and folder not in named}
    assert sum(unnamed.values()) <= UNNAMED * lines.total(), unnamed


def test_the_map_has_a_row_for_each_wing_and_for_what_looks_at_all_of_them() -> None:
    starts = "".join(row[1] for row in ROWS)
    for folder in (*(wing.name for wing in WINGS), "explain", "doctor", "status", "why", "ui"):
        assert f"`app/{folder}/" in starts, folder


def test_the_package_is_as_large_as_is_said() -> None:
    shown = re.search(r"`app` has about ([\d,]+) lines", SECTION)
    assert shown
    assert lines_below(ROOT / "app") == pytest.approx(number(shown[1]), rel=0.05)


def test_no_role_imports_the_sandbox_whose_size_is_said(graph: grimp.ImportGraph) -> None:
    shown = re.search(r"No role imports its\s([\d,]+) lines", SECTION)
    assert shown
    assert abs(lines_below(ROOT / "app/devtools") - number(shown[1])) <= TOLERANCE
    for module in {"app.devtools"} | graph.find_descendants("app.devtools"):
        for importer in graph.find_modules_that_directly_import(module):
            assert importer.startswith(("app.cli.", "app.devtools")), (importer, module)


def test_the_first_screen_ends_before_the_map() -> None:
    screen = README.partition("\n## ")[0]
    assert screen.count("\n") <= FIRST_SCREEN
    for part in ("```diff", "helm install", "make demo", "make test"):
        assert part in screen
