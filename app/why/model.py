"""What a verdict on an object is, and what a judge may ask to reach it. Pure.

A judge is a generator over one object. It yields questions (other objects, their verdicts) and is sent the answers,
which are its links; it returns a verdict. So the same judge works over a cluster, over files and over a page's caches.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Generator, Hashable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import IntEnum
from typing import Any, TypeVar

from app.doctor import commands
from app.doctor.catalog import listed as shown
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, Severity
from app.doctor.objects import Object
from app.kube.resources import Resource
from app.text import closest
from app.wire import JSON

T = TypeVar("T")


class State(IntEnum):
    """In order: as it should be; waits for what comes by itself; goes on only after a change; does not work."""

    fine = 0
    waits = 1
    stuck = 2
    broken = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """What there is to say of one object.

    `text` ends the sentence that begins with the subject, and `since` is when it began. `asks` is what the object
    needs, `because` are causes, the nearest first and each one clause, `so` is what follows from it. `fix` are commands
    that end it, `next` is what happens by itself, or is to be done by hand; without both there is nothing to do.
    `codes` are those of the doctor's findings, the first for the object itself. `more` is the command that shows the
    rest: one that was given as `fix` and changes nothing is that. Beside a `fix` that deletes, `next` says so.
    """

    state: State
    text: str
    since: datetime | None = None
    asks: str = ""
    because: tuple[str, ...] = ()
    so: str = ""
    fix: str = ""
    next: str = ""
    codes: tuple[str, ...] = ()
    more: str = ""

    def __post_init__(self) -> None:
        lines = self.fix.split("\n") if self.fix else []
        if showing := [line for line in lines if commands.shows_only(line)]:
            # Such as a describe of the doctor, which has one command for each finding.
            object.__setattr__(self, "fix", "\n".join(line for line in lines if line not in showing))
            object.__setattr__(self, "more", showing[0])
        if commands.deletes(self.fix) and "delete" not in self.next:
            warned = "the command deletes what it names"
            object.__setattr__(self, "next", f"{warned}: {self.next}" if self.next else warned)

    def after(self, cause: Verdict, *, of: str = "") -> Verdict:
        """The same, with the causes of another verdict behind its own, and the commands of that where it has no fix.

        `of` is the subject of the other one, where its text is a cause too.
        """
        texts = (f"{of}: {cause.text}", *cause.because) if of else cause.because
        because = tuple(dict.fromkeys((*self.because, *texts)))
        codes, more = tuple(dict.fromkeys((*self.codes, *cause.codes))), self.more if self.fix else cause.more
        fix, next_step = self.fix or cause.fix, self.next or cause.next
        return replace(self, because=because, codes=codes, fix=fix, next=next_step, more=more or self.more)


def fine(text: str, **parts: Any) -> Verdict:
    return Verdict(State.fine, text, **parts)


def waits(text: str, **parts: Any) -> Verdict:
    return Verdict(State.waits, text, **parts)


def stuck(text: str, **parts: Any) -> Verdict:
    return Verdict(State.stuck, text, **parts)


def broken(text: str, **parts: Any) -> Verdict:
    return Verdict(State.broken, text, **parts)


STATES = {Severity.error: State.broken, Severity.warning: State.stuck, Severity.info: State.waits}
"""The state of an object by the worst finding of the doctor on it."""


def of_findings(text: str, findings: tuple[Finding, ...] | list[Finding]) -> Verdict | None:
    """The verdict that findings of the doctor on one object are; None where there is none worse than ok."""
    bad = [finding for finding in findings if finding.severity > Severity.ok]
    if not bad:
        return None
    first = max(bad, key=lambda finding: finding.severity)
    return Verdict(
        STATES[first.severity],
        text,
        because=tuple(finding.message for finding in bad),
        so=first.consequence if first.severity > Severity.info else "",
        fix=next((finding.command for finding in bad if finding.command), ""),
        codes=tuple(dict.fromkeys(finding.code for finding in bad)),
    )


def combined(verdicts: list[Verdict]) -> Verdict:
    """One verdict of those of several judges on the same object, the first of which says how the object is.

    Of what is equally bad, the causes of later judges come first: they know what the object is for.
    """
    first, *others = verdicts
    worst = max(verdict.state for verdict in verdicts)
    ranked = sorted([*others, first], key=lambda verdict: -verdict.state)
    texts = dict.fromkeys(verdict.text for verdict in verdicts if verdict.text)
    return Verdict(
        worst,
        "; ".join(texts),
        first.since or next((verdict.since for verdict in ranked if verdict.since), None),
        "; ".join(dict.fromkeys(verdict.asks for verdict in verdicts if verdict.asks)),
        tuple(dict.fromkeys(cause for verdict in ranked for cause in verdict.because)),
        next((verdict.so for verdict in ranked if verdict.so), ""),
        next((verdict.fix for verdict in ranked if verdict.fix), ""),
        next((verdict.next for verdict in ranked if verdict.next), ""),
        tuple(dict.fromkeys(code for verdict in ranked for code in verdict.codes)),
        next((verdict.more for verdict in verdicts if verdict.more), ""),
    )


class Unread(Exception):
    """What was asked for could not be read. The text says what, and which right is missing."""


@dataclass(frozen=True, slots=True)
class Get:
    """One object; None where there is none."""

    resource: Resource
    name: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class List:
    """All objects of a kind, of one namespace or with this label or owner; none of a kind that is not served."""

    resource: Resource
    namespace: str = ""
    label: tuple[str, str] | None = None
    owner: str = ""
    """The UID of one of the owners."""


@dataclass(frozen=True, slots=True)
class Events:
    """The Events of one object, the newest first."""

    of: Object


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on another object; None where there is none, or where it led here.

    With `obj` it is one that does not exist, such as the Pod that a template makes.
    """

    resource: Resource
    name: str
    namespace: str = ""
    obj: JSON | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Read:
    """What `read` returns: settings in force, registrations, what nodes offer. Those of one `key` are read once."""

    read: Callable[[Cluster], Awaitable[Any]] = field(compare=False)
    key: Hashable = None


@dataclass(frozen=True, slots=True)
class Once:
    """What `asking` returns, for all judges with the same key: what is counted over many objects is counted once."""

    asking: Callable[[], Asking[Any]] = field(compare=False)
    key: Hashable = None


Question = Get | List | Events | Judged | Read | Once
Asking = Generator[Question, Any, T]
"""Asks, and returns a T. Where an answer cannot be read, Unread is raised at the question."""
Judge = Callable[[Object, datetime], Asking[Verdict | None]]
"""The verdict on an object at a time; None where it is not about what the judge knows."""


def get(resource: Resource, name: str, namespace: str = "") -> Asking[Object | None]:
    obj: Object | None = yield Get(resource, name, namespace)
    return obj


def listed(
    resource: Resource, namespace: str = "", *, label: tuple[str, str] | None = None, owner: str | None = None
) -> Asking[list[Object]]:
    """With `owner` those of this UID; one that does not exist yet, which has none, owns nothing."""
    if owner == "":
        return []
    objects: list[Object] = yield List(resource, namespace, label, owner or "")
    return objects


def events_of(it: Object) -> Asking[list[JSON]]:
    events: list[JSON] = yield Events(it)
    return events


def told(it: Object, reasons: Container[str]) -> Asking[str]:
    """What the newest Event of an object with one of these reasons says; "" for none, or where none may be read."""
    events = yield from or_else(events_of(it), [])
    event: JSON = next((event for event in events if event.get("reason") in reasons), {})
    return plain(event.get("message") or event.get("reason") or "")


def judged(resource: Resource, name: str, namespace: str = "", *, obj: JSON | None = None) -> Asking[Verdict | None]:
    verdict: Verdict | None = yield Judged(resource, name, namespace, obj)
    return verdict


def read(work: Callable[[Cluster], Awaitable[T]], *, key: Hashable = None) -> Asking[T]:
    """What `work` returns; once for all judges with the same key, by default the function itself."""
    answer: T = yield Read(work, work if key is None else key)
    return answer


def once(key: Hashable, asking: Callable[[], Asking[T]]) -> Asking[T]:
    """What `asking` returns; it is followed once for all judges with this key."""
    answer: T = yield Once(asking, key)
    return answer


def or_else(asking: Asking[T], default: T) -> Asking[T]:
    """The answer; the default where it cannot be read. That it was not read is shown with the verdict."""
    try:
        return (yield from asking)
    except Unread:
        return default


def absence(resource: Resource, name: str, namespace: str = "") -> Asking[tuple[str, str]]:
    """The clause that an object is missing, with the one that was probably meant; and the name of that one, or ""."""
    where = f" in {namespace}" if namespace else ""
    clause = f"there is no {resource.kind} {name}{where}"
    others = yield from or_else(listed(resource, namespace), None)
    if others is None:
        return clause, ""
    names = sorted(other.name for other in others)
    if near := closest(name, names):
        return f"{clause}; there is {near}", near
    if names:
        return f"{clause}; there {'is' if len(names) == 1 else 'are'} {shown(names)}", ""
    return f"{clause}, nor any other", ""
