"""Finds of each finding the one that it follows from. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.doctor.model import Finding


def with_causes(findings: Sequence[Finding]) -> list[Finding]:
    """The findings in their order, each with its cause.

    A cause is at least as severe as what follows from it: who sees the causes alone misses nothing worse.
    """
    resolved: dict[Finding, Finding] = {}

    def resolve(finding: Finding, below: tuple[Finding, ...] = ()) -> Finding:
        if finding not in resolved:
            cause = next(
                (
                    other
                    for topic in finding.because
                    for other in findings
                    if topic in other.explains and other.severity >= finding.severity and other not in (finding, *below)
                ),
                None,
            )
            resolved[finding] = finding if cause is None else replace(finding, cause=resolve(cause, (finding, *below)))
        return resolved[finding]

    return [resolve(finding) for finding in findings]


def roots(findings: Sequence[Finding]) -> list[Finding]:
    """The findings that stand for themselves. They are what is counted."""
    return [finding for finding in findings if finding.cause is None]


def follow_from(cause: Finding, findings: Sequence[Finding]) -> list[Finding]:
    """What follows from a finding, at once."""
    return [finding for finding in findings if finding.cause == cause]
