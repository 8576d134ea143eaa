"""Writes findings for people and for programs. Pure: findings in, styled lines out.

What follows from a finding is written below it, and only findings that follow from no other are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Literal
from xml.etree import ElementTree as ET

from app.doctor.catalog import section_of
from app.doctor.model import LEFT_OUT, NOT_APPLICABLE, Finding, Severity, follow_from, roots
from app.explain.rendering import STRUCTURED, Line, Plain, structured
from app.text import printable, several

Form = Literal[Plain, "junit"]

_STYLES = {Severity.error: "bold red", Severity.warning: "yellow", Severity.info: "cyan", Severity.ok: "green"}
_MEMBERS = ("subject", "message", "consequence", "command")
_HEADINGS = {NOT_APPLICABLE: "did not apply here", LEFT_OUT: "left out, for the whole cluster"}
_NOUNS = {Severity.error: "error", Severity.warning: "warning"}


def render(findings: Sequence[Finding], form: Form) -> Iterator[Line]:
    """The findings in the order given, which is the worst first; of each severity, one group a check.

    Names and messages come from the cluster: no line has a character that commands a terminal.
    """
    yield from (Line(printable(text), style) for text, style in _rendered(findings, form))


def _rendered(findings: Sequence[Finding], form: Form) -> Iterator[Line]:
    if form in STRUCTURED:
        document = {
            "summary": _counts(findings),
            "findings": [_object(finding, findings) for finding in roots(findings)],
        }
        yield from structured(document, form)
    elif form == "junit":
        yield from map(Line, _junit(findings).split("\n"))
    else:
        yield from _text(findings)


def _counts(findings: Sequence[Finding]) -> dict[str, int]:
    return {
        severity.name: sum(root.severity is severity for root in roots(findings)) for severity in reversed(Severity)
    }


def counted(counts: Mapping[Severity, int]) -> str:
    """How many findings of each severity there are, the worst first, without those that did not apply."""
    return ", ".join(
        several(count, noun) if (noun := _NOUNS.get(severity)) else f"{count} {severity.name}"
        for severity in reversed(Severity)
        if severity is not Severity.skipped and (count := counts.get(severity))
    )


def _object(finding: Finding, findings: Sequence[Finding]) -> dict[str, Any]:
    code = {"code": finding.code, "documentation": section_of(finding.code)} if finding.code else {}
    members = {name: getattr(finding, name) for name in _MEMBERS}
    below = [_object(other, findings) for other in follow_from(finding, findings)]
    return {"check": finding.check, "severity": finding.severity.name} | code | members | {"follows": below}


def _text(findings: Sequence[Finding]) -> Iterator[Line]:
    shown = [finding for finding in roots(findings) if finding.severity is not Severity.skipped]
    for (severity, check), group in groupby(shown, key=lambda finding: (finding.severity, finding.check)):
        yield Line(f"{severity.name.upper()}  {check}", _STYLES[severity])
        for alike in _alike(list(group), findings):
            yield from _lines(*alike)
            for depth, below in _below(alike[0], findings):
                yield Line(f"    {'  ' * depth}{below}")
    yield Line(counted(Counter(finding.severity for finding in shown)) or "nothing was found")
    skipped = [finding for finding in findings if finding.severity is Severity.skipped]
    for text in dict.fromkeys(finding.message for finding in skipped):
        names = [finding.check for finding in skipped if finding.message == text]
        yield Line(f"{_HEADINGS.get(text, text)}: {', '.join(names)}")


def _alike(group: Sequence[Finding], findings: Sequence[Finding]) -> list[list[Finding]]:
    """Findings of a code that have the same consequence together; one that others follow from stands alone."""
    blocks: dict[object, list[Finding]] = {}
    for index, finding in enumerate(group):
        alone = not finding.code or follow_from(finding, findings)
        blocks.setdefault(index if alone else (finding.code, finding.consequence), []).append(finding)
    return list(blocks.values())


def _below(finding: Finding, findings: Sequence[Finding], depth: int = 0) -> Iterator[tuple[int, str]]:
    """A line for each finding that follows, and how deep it is; what it is about is said where that changes."""
    for below in follow_from(finding, findings):
        named = below if below.subject != finding.subject else replace(below, subject="")
        yield depth, f"follows: {_headline(named)}"
        yield from _below(below, findings, depth + 1)


def _headline(finding: Finding) -> str:
    what = f"{finding.subject}: {finding.message}" if finding.subject else finding.message
    return f"[{finding.code}] {what}" if finding.code else what


def _lines(*findings: Finding) -> Iterator[Line]:
    """One finding, or some of a code: the same sentence once, with all objects that it is true of."""
    first, objects = findings[0], dict[str, list[str]]()
    for finding in findings:
        objects.setdefault(finding.message, []).append(finding.subject)
    for message, subjects in objects.items():
        yield Line(f"  {_headline(replace(first, subject=', '.join(filter(None, subjects)), message=message))}")
    if first.consequence:
        yield Line(f"    consequence: {first.consequence}")
    commands = dict.fromkeys(finding.command for finding in findings if finding.command)
    for index, line in enumerate("\n".join(commands).splitlines()):
        yield Line(f"    {'command:' if not index else '        '} {line}", "bold")
    if first.code:
        yield Line(f"    see: {section_of(first.code)}")


def _junit(findings: Sequence[Finding]) -> str:
    """A suite a check, and a case a finding: a failure where it is worse than information.

    A case has the same name in each run: code and subject, and a number where that is not the first of this name.
    """
    whole, names = ET.Element("testsuites", name="berth doctor"), Counter[tuple[str, str]]()
    for check in dict.fromkeys(finding.check for finding in findings):
        suite = ET.SubElement(whole, "testsuite", name=check)
        for finding in (root for root in roots(findings) if root.check == check):
            name = (
                " ".join(filter(None, (f"[{finding.code}]" if finding.code else "", finding.subject)))
                or finding.severity.name
            )
            names[check, name] += 1
            name += f" ({names[check, name]})" if names[check, name] > 1 else ""
            case = ET.SubElement(suite, "testcase", classname=check, name=name)
            if finding.severity is Severity.skipped:
                ET.SubElement(case, "skipped", message=finding.message)
            elif finding.severity > Severity.info:
                failure = ET.SubElement(case, "failure", type=finding.severity.name, message=finding.message)
                below = [f"    {'  ' * depth}{line}" for depth, line in _below(finding, findings)]
                failure.text = "\n".join([*(line.text for line in _lines(finding)), *below])
            else:
                ET.SubElement(case, "system-out").text = "\n".join(line.text for line in _lines(finding))
    for suite in [whole, *whole]:
        for name, tag in (("tests", "testcase"), ("failures", "failure"), ("skipped", "skipped")):
            suite.set(name, str(len(list(suite.iter(tag)))))
    ET.indent(whole)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(whole, encoding="unicode")
