"""What a check is and what it finds: the interface between the checks and the code that runs them."""

from __future__ import annotations

import re
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from app.doctor.catalog import FINDINGS, command_line, filled
from app.errors import ApiError
from app.kube.resources import Resource
from app.text import several
from app.wire import JSON

if TYPE_CHECKING:
    from app.doctor.cluster import Cluster

T = TypeVar("T")
_ASKED = re.compile(
    r"(?P<method>[A-Z]+) (?:/apis/(?P<group>[^/]+)|/api)/[^/]+(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[^/?: ]+)(?:/(?P<name>[^/?: ]+))?[^ ]*: HTTP 403"
)
"""The request that was refused, as errors of the client begin; what the API server says of it may have been cut."""
What = Literal["role", "rights", "kinds", "files", "link", "start", "companions"]
NO_RIGHT, NOT_ALLOWED = "BERTH0001", "not checked: you have no right to "
"""The code of a right that the doctor lacks, and how the message begins; the right follows."""
NOT_APPLICABLE = "did not apply: what it is about is not installed, or there is none of it"
LEFT_OUT = "left out with a namespace: it is about the whole cluster"
"""Why a check found nothing at all."""
_VERBS = {"POST": "create", "PATCH": "patch", "WATCH": "watch"}


class Named(Protocol):
    """What a finding can be about."""

    @property
    def subject(self) -> str:
        """`Kind namespace/name`."""


class Severity(IntEnum):
    """In order: nothing to check here; what is as it should be; what to know; what will hurt; what hurts now."""

    skipped = -1
    ok = 0
    info = 1
    warning = 2
    error = 3

    @property
    def exit_status(self) -> int:
        """Of a command that shows nothing worse."""
        return {Severity.warning: 3, Severity.error: 4}.get(self, 0)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check saw.

    `subject` is what it is about, as `Kind namespace/name`; `message` is one sentence without the subject. A finding
    worse than ok has a `code` of the catalog. A finding worse than info has a `consequence` (what does or will go
    wrong) and, if a command can fix it, a `command` that can be pasted into a shell. `check` is the name of the check;
    a check leaves it empty. A finding with `unless` is dropped where its check finds something of that severity, or
    worse.

    `explains` are topics: what goes wrong in them may follow from this finding. `because` are the topics of what this
    finding may follow from, the nearest first. `cause` is the finding that explains one of them, as `examine` sets it;
    None where it stands for itself. `topic` makes topics.
    """

    check: str
    severity: Severity
    subject: str
    message: str
    consequence: str = ""
    command: str = ""
    code: str = ""
    explains: tuple[str, ...] = ()
    because: tuple[str, ...] = ()
    cause: Finding | None = None
    unless: Severity | None = None


def topic(what: What, *names: str) -> str:
    """What follows where that fails.

    Of a role: it does not work (`role`), may not do what it needs (`rights`), a kind that it reads is not defined
    (`kinds`), its Secret cannot be used (`files`), who it calls refuses it, or is not reached (`link`). Or a Pod does
    not start (`start`), a companion of a rule does not run (`companions`); these have a namespace and a name.
    """
    return f"{what} of {'/'.join(names)}"


def depends_on(role: str) -> tuple[str, ...]:
    """The topics of what follows where a role does not act."""
    return topic("role", role), topic("rights", role)


REGISTERED = "registrations for Pods"
"""What follows where no webhook of Berth is registered for Pods."""
CALLS = "calls to the webhook"
"""What follows where an API server cannot call Berth."""


def noted(
    severity: Severity,
    code: str,
    about: str | Named,
    message: str = "",
    consequence: str = "",
    command: str = "",
    *,
    case: str = "",
    explains: tuple[str, ...] = (),
    because: tuple[str, ...] = (),
    **values: object,
) -> Finding:
    """A finding of the catalog. Texts that are not given are those from there, for this case, with the values."""
    texts, known = FINDINGS[code].texts(case), {"it": about, **values}
    subject = about if isinstance(about, str) else about.subject
    message = message or filled(texts["message"], known)
    consequence = consequence or filled(texts["consequence"], known)
    command = command or command_line(texts["command"], known)
    return Finding("", severity, subject, message, consequence, command, code, explains, because)


error = partial(noted, Severity.error)
warning = partial(noted, Severity.warning)
info = partial(noted, Severity.info)
ok = partial(Finding, "", Severity.ok)
all_well = partial(Finding, "", Severity.ok, unless=Severity.info)

Part = Callable[["Cluster"], AsyncIterator[Finding]]


@dataclass(frozen=True, slots=True)
class Check:
    """One question, by parts that are run one after the other. `name` is the word by which the user picks it.

    Where the API server does not know the kind that it is `about`, if there is one, `otherwise` is run in their place.
    `of_users` are the parts that speak of the objects of users: they are run in place of all others where the cluster
    has a scope, and get along with rights in that namespace. A check without them is about the whole cluster.
    A part reads, asks (access reviews) and tries (dry runs), and changes nothing. An ApiError that ends it becomes a
    finding: what could not be checked, and which right is missing.
    """

    name: str
    parts: tuple[Part, ...]
    about: Resource | None = None
    otherwise: Part | None = None
    of_users: tuple[Part, ...] = ()


def worst(findings: Iterable[Finding]) -> Severity:
    return max((finding.severity for finding in findings), default=Severity.ok)


def sound(count: int, noun: str, *, subject: str = "", unless: Severity = Severity.info) -> Finding:
    """That so many objects were checked. It is said where there is nothing to complain about."""
    return all_well(subject, f"{several(count, noun)} checked: no problem found", unless=unless)


async def of_each(
    objects: AsyncIterator[JSON],
    judge: Callable[[JSON], Finding | Awaitable[Finding | None] | None],
    *,
    most: int,
    noun: str,
) -> AsyncIterator[Finding]:
    """What `judge` finds: the first `most`, and for each severity one that says how many more there are.

    Where it finds nothing: how many objects there are (`noun`).
    """
    count, shown, beyond = 0, 0, Counter[Severity]()
    async for obj in objects:
        count += 1
        judgement = judge(obj)
        finding = await judgement if isinstance(judgement, Awaitable) else judgement
        if finding is not None and shown < most:
            shown += 1
            yield finding
        elif finding is not None:
            beyond[finding.severity] += 1
    for severity, more in sorted(beyond.items()):
        yield more_of(severity, several(more, f"more {noun}"))
    if count:
        yield sound(count, noun)


def more_of(severity: Severity, what: str) -> Finding:
    """The finding that stands for those that are not shown."""
    text = f"{what} with similar findings: fix the above, then run the doctor again"
    return noted(severity, "BERTH0004", "", text)


async def or_default(read: Awaitable[T], default: T) -> T:
    """What is read; `default` where the API server refuses, which the check of these objects reports."""
    try:
        return await read
    except ApiError:
        return default


async def guarded(findings: AsyncIterator[Finding]) -> AsyncIterator[Finding]:
    """The findings of a piece of a part; where the API server refuses, that it was not checked."""
    try:
        async for finding in findings:
            yield finding
    except ApiError as refusal:
        yield unchecked(refusal)


def unchecked(error: ApiError, *, subject: str = "") -> Finding:
    """The finding that something could not be looked at; for a refusal, with the right that is missing."""
    asked = _ASKED.match(str(error)) if error.status == 403 else None
    if asked is None:
        text = f"not checked: the API server {'refused' if error.status else 'could not be asked'}: {error}"
        return warning("BERTH0002", subject, text)
    verb = _VERBS.get(asked["method"]) or ("get" if asked["name"] else "list")
    kind = f"{asked['plural']}.{asked['group']}" if asked["group"] else asked["plural"]
    namespace = asked["namespace"]
    where, scope = (f"in namespace {namespace}", f"-n {namespace}") if namespace else ("in the whole cluster", "-A")
    what = f"{kind}/{asked['name']}" if asked["name"] else kind
    command = f"kubectl auth can-i {verb} {what} {scope}"
    return warning(NO_RIGHT, subject or what, f"{NOT_ALLOWED}{verb} {kind} {where}", command=command)


def is_right_beyond(message: str, namespace: str) -> bool:
    """Whether a message of `unchecked` says that a right is missing elsewhere than in this namespace."""
    return message.startswith(NOT_ALLOWED) and not message.endswith(f"in namespace {namespace}")


def internal(error: Exception) -> str:
    """Where in the code an error arose that is none of the API server's. It quotes nothing of the object."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"an internal error, {type(error).__name__} in {Path(where.filename).name}:{where.lineno}"


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
