"""Writes findings for people and for programs. Pure: findings in, styled lines out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal

from app.doctor.model import Finding, Severity, printable
from app.explain.rendering import Line

Form = Literal["text", "json"]

_STYLES = {Severity.error: "bold red", Severity.warning: "yellow", Severity.info: "cyan", Severity.ok: "green"}
_MEMBERS = ("subject", "message", "consequence", "command")


def render(findings: Sequence[Finding], form: Form) -> Iterator[Line]:
    """The findings in the order given, which is the worst first; of each severity, one group a check."""
    counts = {one.name: sum(finding.severity is one for finding in findings) for one in reversed(Severity)}
    if form == "json":
        objects = [
            {"check": one.check, "severity": one.severity.name} | {name: getattr(one, name) for name in _MEMBERS}
            for one in findings
        ]
        document = {"summary": counts, "findings": objects}
        yield from map(Line, json.dumps(document, indent=2, ensure_ascii=False).split("\n"))
        return
    for (severity, check), group in groupby(findings, key=lambda finding: (finding.severity, finding.check)):
        yield Line(f"{severity.name.upper()}  {check}", _STYLES[severity])
        for finding in group:
            yield from _text(finding)
    yield Line(", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing was checked")


def _text(finding: Finding) -> Iterator[Line]:
    what = f"{finding.subject}: {finding.message}" if finding.subject else finding.message
    yield Line(f"  {printable(what)}")
    if finding.consequence:
        yield Line(f"    consequence: {printable(finding.consequence)}")
    if finding.command:
        first, *rest = finding.command.splitlines()
        yield Line(f"    command: {first}", "bold")
        yield from (Line(f"             {line}", "bold") for line in rest)
