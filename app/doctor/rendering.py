"""Writes findings for people and for programs. Pure: findings in, styled lines out.

A line is text and a style ("" for none). The caller decides whether it prints styles.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal

from app.doctor.model import Finding, Severity
from app.doctor.objects import printable
from app.explain.rendering import Line

Form = Literal["text", "json"]

_STYLES = {Severity.error: "bold red", Severity.warning: "yellow", Severity.info: "cyan", Severity.ok: "green"}


def render(findings: Sequence[Finding], form: Form) -> Iterator[Line]:
    """The findings in the order given, which is the worst first; of each severity, one group a check."""
    if form == "json":
        document = {"summary": _counts(findings), "findings": [_object(finding) for finding in findings]}
        yield from map(Line, json.dumps(document, indent=2, ensure_ascii=False).split("\n"))
        return
    for (severity, check), group in groupby(findings, key=lambda finding: (finding.severity, finding.check)):
        yield Line(f"{severity.name.upper()}  {check}", _STYLES[severity])
        for finding in group:
            yield from _text(finding)
    counts = ", ".join(f"{count} {name}" for name, count in _counts(findings).items() if count)
    yield Line(counts or "nothing was checked")


def _text(finding: Finding) -> Iterator[Line]:
    what = f"{finding.subject}: {finding.message}" if finding.subject else finding.message
    yield Line(f"  {printable(what)}")
    if finding.consequence:
        yield Line(f"    consequence: {printable(finding.consequence)}")
    if finding.command:
        first, *rest = finding.command.splitlines()
        yield Line(f"    command: {first}", "bold")
        yield from (Line(f"             {line}", "bold") for line in rest)


def _counts(findings: Sequence[Finding]) -> dict[str, int]:
    return {severity.name: sum(finding.severity is severity for finding in findings) for severity in reversed(Severity)}


def _object(finding: Finding) -> dict[str, str]:
    return {
        "check": finding.check,
        "severity": finding.severity.name,
        "subject": finding.subject,
        "message": finding.message,
        "consequence": finding.consequence,
        "command": finding.command,
    }
