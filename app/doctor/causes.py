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

    def resolve(one: Finding, below: tuple[Finding, ...] = ()) -> Finding:
        if one not in resolved:
            cause = next(
                (
                    other
                    for topic in one.because
                    for other in findings
                    if topic in other.explains and other.severity >= one.severity and other not in (one, *below)
                ),
                None,
            )
            resolved[one] = one if cause is None else replace(one, cause=resolve(cause, (one, *below)))
        return resolved[one]

    return [resolve(finding) for finding in findings]


def roots(findings: Sequence[Finding]) -> list[Finding]:
    """The findings that stand for themselves. They are what is counted."""
    return [finding for finding in findings if finding.cause is None]


def follow_from(cause: Finding, findings: Sequence[Finding]) -> list[Finding]:
    """What follows from a finding, at once."""
    return [finding for finding in findings if finding.cause == cause]
