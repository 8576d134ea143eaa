"""The codes of findings: declared once, used, in their check, and explained on the page that the doctor names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from string import Formatter

import pytest

from app.doctor.catalog import CHECK_NUMBERS, FINDINGS, PAGE, Declared, joined, read_findings, section_of, section_text
from app.doctor.examining import CHECKS, PREFLIGHT
from app.doctor.model import Severity
from app.errors import UsageError
from app.registry import WINGS
from app.wiring import Wing, resolve
from tests.support.paths import ROOT

_CODE = re.compile(r"BERTH\d{4}")
APP = ROOT / "app"
TEXTS = ("message", "consequence", "command")
_TEXTS = {"severities": "info", "title": "A title"}


def trees() -> Iterator[ast.AST]:
    """Of the doctor, and of the checks and judges of wings."""
    for pattern in ("doctor/*.py", "*/checks.py", "*/checks/*.py", "*/why.py", "*/why/*.py"):
        yield from (ast.parse(path.read_text()) for path in APP.glob(pattern))


def literals(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _CODE.fullmatch(node.value):
            yield node.value


def calls() -> Iterator[tuple[str, str, ast.Call, set[str]]]:
    """Each call that makes a finding of a code that it names: the function, the code, the call, and keywords' names."""
    for tree in trees():
        for scope in ast.walk(tree):
            if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
                within = list(ast.walk(scope))
                for node in within:
                    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                        for code in [code for given in node.args[:2] for code in literals(given)]:
                            yield node.func.id, code, node, keywords(node, within)


def keywords(call: ast.Call, within: list[ast.AST]) -> set[str]:
    """The names that a call gives, those of dicts that its function writes out too."""
    found = {keyword.arg for keyword in call.keywords if keyword.arg}
    spread = {keyword.value.id for keyword in call.keywords if not keyword.arg and isinstance(keyword.value, ast.Name)}
    for node in within:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id in spread:
            found |= {key.value for one in ast.walk(node) if isinstance(one, ast.Dict) for key in one.keys}
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and target.value.id in spread:
            found.add(target.slice.value)
    return found


def test_each_declared_code_is_used() -> None:
    """TOML has no key twice."""
    assert {code for tree in trees() for code in literals(tree)} == set(FINDINGS)


@pytest.mark.parametrize("code", FINDINGS)
def test_each_code_is_explained(code: str) -> None:
    text = section_text(code)
    assert text.startswith(f"{code}: {FINDINGS[code].title}")
    assert "**Do**" in text
    assert "###" not in text


def test_no_part_of_a_check_runs_twice() -> None:
    for check in CHECKS:
        assert len(set(check.parts)) == len(check.parts), check.name


def test_what_is_no_code_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="there is no code 'BERTH401'; did you mean BERTH40"):
        section_text("BERTH401")


def test_a_code_has_the_number_of_its_check() -> None:
    assert set(CHECK_NUMBERS.values()) == {check.name for check in (*CHECKS, PREFLIGHT)}
    assert {code[5:7] for code in FINDINGS} == {"00", *CHECK_NUMBERS}
    assert all(_CODE.fullmatch(code) for code in FINDINGS)


@pytest.mark.parametrize("wing", WINGS, ids=lambda wing: wing.name)
def test_a_wing_declares_what_its_checks_find(wing: Wing) -> None:
    """And no other folder does."""
    content = read_findings(wing.name)
    assert set(content.pop("checks").values()) == {resolve(check).name for check in wing.checks}
    used = {
        code
        for pattern in ("checks.py", "checks/*.py", "why.py", "why/*.py")
        for path in (APP / wing.name).glob(pattern)
        for code in literals(ast.parse(path.read_text()))
    }
    assert {code for code in used if code[5:7] != "00"} == set(content)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"doctor": {"checks": {"01": "clock"}}, "a": {"checks": {"01": "time"}}},
            "findings.toml of a: codes with 01 are those of doctor: want other digits",
        ),
        (
            {"doctor": {"checks": {}}, "a": {"checks": {"00": "all"}}},
            "findings.toml of a: codes with 00 are those of doctor: want other digits",
        ),
        (
            {"doctor": {"checks": {}}, "a": {"checks": {"70": "a", "71": "b"}, "BERTH0001": {}}},
            "findings.toml of a: BERTH0001 is not of a check there: want digits of 70, 71",
        ),
        (
            {"a": {"checks": {"70": "a"}, "BERTH7001": _TEXTS}, "b": {"checks": {}, "BERTH7001": _TEXTS}},
            "findings.toml of b: BERTH7001 is not of a check there: want digits of none, for it has no checks",
        ),
    ],
)
def test_a_code_of_another_folder_is_an_error(files: dict[str, dict[str, object]], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        joined(files)


def test_a_code_is_used_with_the_severities_that_it_declares() -> None:
    known = {severity.name for severity in Severity if severity > Severity.ok}
    for code, declared in FINDINGS.items():
        assert declared.severities.split(), code
        assert set(declared.severities.split()) <= known, code
    for function, code, *_ in calls():
        assert function not in known or function in FINDINGS[code].severities.split(), code


def fields(declared: Declared, text: str) -> set[str]:
    """The values that the templates of a text have, in any case."""
    templates = [getattr(declared, text), *(texts.get(text, "") for texts in declared.when.values())]
    parsed = (name for template in templates for _, name, _, _ in Formatter().parse(template) if name)
    return {name.partition(".")[0] for name in parsed}


def test_a_finding_has_all_values_of_its_texts() -> None:
    for function, code, call, given in calls():
        if function in ("error", "warning", "info", "noted"):
            places = call.args[1 if function == "noted" else 0 :]
            texts = [text for text, place in zip(TEXTS, range(2, 5), strict=True) if len(places) <= place]
            wanted = {name for text in texts if text not in given for name in fields(FINDINGS[code], text)}
            assert wanted <= {*given, "it"}, (code, wanted - given)
            assert "message" not in texts or FINDINGS[code].message, code


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
