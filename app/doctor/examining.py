"""All checks, in the order in which a person would look: at every cluster first, then at what each wing needs.

Checks run concurrently and independently: one that fails does not keep the others from reporting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from app.doctor import certificate, definitions, deployments, permissions, preflight, reachability, registrations
from app.doctor.aiming import Aim
from app.doctor.catalog import CHECK_NUMBERS, FINDINGS
from app.doctor.cluster import Cluster
from app.doctor.model import (
    LEFT_OUT,
    NO_RIGHT,
    NOT_ALLOWED,
    NOT_APPLICABLE,
    Check,
    Finding,
    Severity,
    internal,
    is_right_beyond,
    unchecked,
    warning,
    with_causes,
    worst,
)
from app.doctor.rights import commands_of, missing_rights
from app.errors import ApiError, UsageError
from app.registry import WINGS
from app.wiring import resolve

CHECKS: tuple[Check, ...] = (
    deployments.CLOCK_CHECK,
    definitions.CHECK,
    deployments.CHECK,
    deployments.LEASES_CHECK,
    registrations.CHECK,
    certificate.CHECK,
    reachability.CHECK,
    permissions.CHECK,
    *(resolve(check) for wing in WINGS for check in wing.checks),
)
PREFLIGHT = preflight.CHECK
"""What is asked before an installation, in place of all others."""


_ONE_NAMESPACE = "or see what is wrong in your namespace alone with berth doctor --mine"


async def examine(
    cluster: Cluster, checks: Sequence[Check], shown: Callable[[Finding], bool] = lambda _: True
) -> list[Finding]:
    """The findings of all checks that are `shown`, with their causes: the worst first, else in the order of the checks.

    A check that finds nothing at all says that it did not apply; in a cluster with a scope, one that is about the whole
    cluster says so. All rights that are missing are one finding.
    """
    found = await asyncio.gather(*(run(cluster, check) for check in checks))
    once: dict[tuple[str, str, str], Finding] = {}
    for check, findings in zip(checks, found, strict=True):
        for finding in findings:
            # A problem that several checks meet (a missing right) is reported once, by the first of them.
            once.setdefault((finding.subject, finding.message, ""), finding)
        if not findings:
            why = LEFT_OUT if cluster.scope and not check.of_users else NOT_APPLICABLE
            once["", "", check.name] = Finding(check.name, Severity.skipped, "", why)
    wanted = _within(cluster.scope, [finding for finding in once.values() if shown(finding)])
    kept = [_aimed(cluster.aim, finding) for finding in _together(wanted)]
    return sorted(with_causes(kept), key=lambda finding: -finding.severity)


def _aimed(aim: Aim, finding: Finding) -> Finding:
    message, consequence = aim.prose(finding.message), aim.prose(finding.consequence)
    return replace(finding, message=message, consequence=consequence, command=aim.command(finding.command))


def _within(scope: str, findings: list[Finding]) -> list[Finding]:
    """With a scope, a right that is missing elsewhere is no fault: one has it who asks about the whole cluster.

    Without a scope, a user who has no rights in the whole cluster is told about the scope.
    """
    if not scope:
        return [
            replace(finding, consequence=f"{finding.consequence}, {_ONE_NAMESPACE}")
            if finding.code == NO_RIGHT and finding.message.endswith("in the whole cluster")
            else finding
            for finding in findings
        ]
    return [
        replace(finding, severity=Severity.info, consequence="", command="")
        if is_right_beyond(finding.message, scope)
        else finding
        for finding in findings
    ]


def _together(findings: list[Finding]) -> list[Finding]:
    """The rights that the doctor lacks as one finding, in the place of the first."""
    lacking = [finding for finding in findings if finding.code == NO_RIGHT]
    if len(lacking) < 2:
        return findings
    lacking.sort(key=lambda finding: -finding.severity)
    rights = missing_rights(finding.message for finding in lacking)
    command = commands_of(finding.command for finding in lacking)
    whole = replace(lacking[0], subject="", message=f"{NOT_ALLOWED}{rights}", command=command)
    return [
        whole if finding is lacking[0] else finding
        for finding in findings
        if finding is lacking[0] or finding.code != NO_RIGHT
    ]


async def run(cluster: Cluster, check: Check) -> list[Finding]:
    """The findings of one check in their order, each once."""
    findings: list[Finding] = []
    parts, otherwise = (check.of_users, None) if cluster.scope else (check.parts, check.otherwise)
    for index, usual in enumerate(parts):
        try:
            served = check.about is None or await cluster.serves(check.about)
            part = usual if served else otherwise
            if part is None or (index and not served):
                continue
            async for finding in part(cluster):
                findings.append(finding)  # noqa: PERF401  what is found before an error counts
        except ApiError as error:
            findings.append(unchecked(error))
        except Exception as error:  # noqa: BLE001  the wall of a check: one object that it cannot read must not hide the rest
            findings.append(warning("BERTH0003", "", f"not checked: {internal(error)}"))
    highest = worst(finding for finding in findings if finding.unless is None)
    kept = (finding for finding in findings if finding.unless is None or highest < finding.unless)
    return list(dict.fromkeys(replace(finding, check=check.name, unless=None) for finding in kept))


def pick(checks: Sequence[Check], only: Collection[str], ignore: Collection[str] = ()) -> list[Check]:
    """The checks that are named, or that have a code that is named: all where none is; without those to `ignore`.

    Raises UsageError for what is neither a check nor a code, and where no check is left.
    """
    names = {check.name: check for check in checks}
    for flag, words in (("--only", only), ("--ignore", ignore)):
        for word in words:
            if word not in names and word not in FINDINGS:
                choices = ", ".join(names)
                raise UsageError(
                    f"{flag}: there is no check or code {word!r}: want a code (BERTH0305) or one of {choices}"
                )
    chosen = dict.fromkeys(name for word in only for name in ([word] if word in names else _with_code(word, names)))
    picked = [names[name] for name in (chosen or names) if name in names and name not in ignore]
    if not picked:
        raise UsageError("--ignore leaves out every check that is to be shown: name fewer")
    return picked


def _with_code(code: str, names: Collection[str]) -> Collection[str]:
    """The checks that may have a finding of this code."""
    name = CHECK_NUMBERS.get(code[5:7])
    return names if name is None else (name,)


def shown_of(only: Collection[str], ignore: Collection[str]) -> Callable[[Finding], bool]:
    """Whether a finding is wanted, by the checks and codes to show and those to ignore."""

    def shown(finding: Finding) -> bool:
        named = {finding.check, finding.code}
        return not named & set(ignore) and (not only or bool(named & set(only)))

    return shown
