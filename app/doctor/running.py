"""Runs checks concurrently and independently: a check that fails does not keep the others from reporting."""

from __future__ import annotations

import asyncio
import re
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, Severity
from app.errors import ApiError, UsageError

_ASKED = re.compile(
    r"(?P<method>[A-Z]+) (?:/apis/(?P<group>[^/]+)|/api)/[^/]+(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[^/?: ]+)(?:/(?P<name>[^/?: ]+))?[^ ]*: HTTP 403"
)
"""The request that was refused, as errors of the client begin; what the API server says of it may have been cut."""
_VERBS = {"POST": "create", "PATCH": "patch", "WATCH": "watch"}


async def examine(cluster: Cluster, checks: Sequence[Check]) -> list[Finding]:
    """The findings of all checks, the worst first, else in the order of the checks."""
    found = await asyncio.gather(*(_run(cluster, check) for check in checks))
    once: dict[tuple[str, str], Finding] = {}
    for finding in (finding for findings in found for finding in findings):
        # A problem that several checks meet (a missing right) is reported once, by the first of them.
        once.setdefault((finding.subject, finding.message), finding)
    return sorted(once.values(), key=lambda finding: -finding.severity)


def pick(checks: Sequence[Check], only: Iterable[str]) -> list[Check]:
    """The checks of these names, all where none is named. Raises UsageError for a name that is none."""
    names = {check.name: check for check in checks}
    wanted = list(dict.fromkeys(only))
    for name in wanted:
        if name not in names:
            raise UsageError(f"--only: there is no check {name!r}: want one of {', '.join(names)}")
    return [names[name] for name in wanted] if wanted else list(checks)


def worst(findings: Iterable[Finding]) -> Severity:
    return max((finding.severity for finding in findings), default=Severity.ok)


def unchecked(check: str, error: ApiError, *, subject: str = "") -> Finding:
    """The finding that something could not be looked at; for a refusal, with the right that is missing."""
    asked = _ASKED.match(str(error)) if error.status == 403 else None
    if asked is None:
        text = f"not checked: the API server {'refused' if error.status else 'could not be asked'}: {error}"
        return Finding(check, Severity.warning, subject, text, "what is wrong here stays unseen")
    verb = _VERBS.get(asked["method"]) or ("get" if asked["name"] else "list")
    kind = f"{asked['plural']}.{asked['group']}" if asked["group"] else asked["plural"]
    namespace = asked["namespace"]
    where, scope = (f"in namespace {namespace}", f"-n {namespace}") if namespace else ("in the whole cluster", "-A")
    what = f"{kind}/{asked['name']}" if asked["name"] else kind
    return Finding(
        check,
        Severity.warning,
        subject or what,
        f"not checked: you have no right to {verb} {kind} {where}",
        "what is wrong here stays unseen; run the doctor as a user who has this right",
        f"kubectl auth can-i {verb} {what} {scope}",
    )


async def _run(cluster: Cluster, check: Check) -> list[Finding]:
    try:
        findings = await check.run(cluster)
    except ApiError as error:
        return [unchecked(check.name, error)]
    except Exception as error:  # noqa: BLE001  the wall of a check: one object that it cannot read must not hide the rest
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"not checked: an error of ours, {type(error).__name__} in {Path(where.filename).name}:{where.lineno}"
        return [Finding(check.name, Severity.warning, "", text, "what is wrong here stays unseen; please report it")]
    return [finding if finding.check else replace(finding, check=check.name) for finding in findings]
