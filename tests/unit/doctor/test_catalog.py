"""The codes of findings: declared once, used, in their check, and explained on the page that the doctor names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from app.doctor.catalog import CHECK_NUMBERS, FINDINGS, PAGE, section_of
from app.doctor.checks import CHECKS
from app.doctor.model import Severity
from tests.support.paths import ROOT

_CODE = re.compile(r"BERTH\d{4}")
FOLDER = ROOT / "app" / "doctor"


def trees() -> Iterator[ast.AST]:
    yield from (ast.parse(path.read_text()) for path in FOLDER.glob("*.py") if path.name != "catalog.py")


def literals(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _CODE.fullmatch(node.value):
            yield node.value


def test_each_code_is_declared_once_and_used() -> None:
    declared = list(literals(ast.parse((FOLDER / "catalog.py").read_text())))
    assert len(declared) == len(set(declared))
    assert {code for tree in trees() for code in literals(tree)} == set(declared) == set(FINDINGS)


def test_a_code_has_the_number_of_its_check() -> None:
    assert set(CHECK_NUMBERS.values()) == {check.name for check in CHECKS}
    assert {code[5:7] for code in FINDINGS} == {"00", *CHECK_NUMBERS}
    assert all(_CODE.fullmatch(code) for code in FINDINGS)


def test_a_code_is_used_with_the_severities_that_it_declares() -> None:
    known = {severity.name for severity in Severity if severity > Severity.ok}
    for code, declared in FINDINGS.items():
        assert declared.severities.split(), code
        assert set(declared.severities.split()) <= known, code
    for tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in known and node.args:
                for code in literals(node.args[0]):
                    assert node.func.id in FINDINGS[code].severities.split(), code


@pytest.mark.parametrize("code", FINDINGS)
def test_each_code_has_its_section(code: str) -> None:
    """With the title of the catalog, why it happens, and what to do."""
    heading = f"\n### {code}\n\n{FINDINGS[code].title}.\n\n- **Why**: "
    page = (ROOT / PAGE).read_text()
    assert section_of(code) == f"docs/troubleshooting.md#{code.lower()}"
    assert page.count(heading) == 1
    section = page.partition(heading)[2].partition("\n### ")[0]
    assert "\n- **Do**: " in section


def test_no_section_for_a_code_that_there_is_not() -> None:
    assert re.findall(r"^### (BERTH\w+)$", (ROOT / PAGE).read_text(), re.MULTILINE) == list(FINDINGS)
