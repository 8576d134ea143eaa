"""Writes verdicts for people, in at most twelve lines each, and for programs. Pure: verdicts in, styled lines out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.doctor.model import NOT_ALLOWED
from app.doctor.rights import missing_rights
from app.explain.rendering import STRUCTURED, Line, Plain, structured
from app.text import printable
from app.why.model import State, Verdict

STATUSES = {State.fine: 0, State.waits: 3, State.stuck: 4, State.broken: 4}
"""Exit statuses of `berth why`."""
_STYLES = {State.fine: "green", State.waits: "cyan", State.stuck: "yellow", State.broken: "bold red"}
_LINES, _CAUSES = 12, 4
"""Lines of an answer, and causes that are shown where there are more of them; JSON has all."""
_WIDTH = 10


@dataclass(frozen=True, slots=True)
class Answer:
    """The verdict on one object, with what could not be read and the objects that it was reached over."""

    subject: str
    verdict: Verdict
    unread: tuple[str, ...] = ()
    links: tuple[tuple[str, str, bool], ...] = ()


def render(answers: Sequence[Answer], form: Plain, now: datetime) -> Iterator[Line]:
    """The answers in their order. Names and messages come from the cluster: no line commands a terminal."""
    if form in STRUCTURED:
        documents = [_object(answer) for answer in answers]
        yield from structured(documents[0] if len(documents) == 1 else documents, form)
        return
    for position, answer in enumerate(answers):
        if position:
            yield Line("")
        yield from (Line(printable(text), style) for text, style in _text(answer, now))


def _text(answer: Answer, now: datetime) -> Iterator[Line]:
    verdict = answer.verdict
    since = f" since {verdict.since:%Y-%m-%d %H:%M:%S} ({_ago(verdict.since, now)})" if verdict.since else ""
    yield Line(f"{answer.subject}: {verdict.text}{since}", _STYLES[verdict.state])
    fixes, codes = verdict.fix.split("\n") if verdict.fix else [], " ".join(verdict.codes)
    rest = [("so", verdict.so)]
    rest += [("fix" if index == 0 else "then", command) for index, command in enumerate(fixes[:2])]
    rest += [("next", verdict.next), ("more", "   ".join(filter(None, (codes, verdict.more))))]
    rest = [row for row in (*rest, ("unread", _unread(answer.unread))) if row[1]]
    rows = [("asks", verdict.asks)] if verdict.asks else []
    room = _LINES - 1 - len(rows) - len(rest)
    room = min(room - 1, _CAUSES) if len(verdict.because) > min(room, _CAUSES + 1) else room
    rows += [("because", cause) for cause in verdict.because[:room]]
    rows += [("", f"… and {len(verdict.because) - room} more: -o json has all")] if verdict.because[room:] else []
    rows += rest
    for word, text in rows:
        if text:
            yield Line(f"  {word:<{_WIDTH}}{text}", "bold" if word in ("fix", "then") else "")
    if not fixes and not verdict.next and verdict.state is State.fine:
        yield Line("  nothing to do")


def _unread(texts: Sequence[str]) -> str:
    """What could not be read; the rights that are missing follow one beginning."""
    rights = missing_rights(text for text in texts if text.startswith(NOT_ALLOWED))
    others = [text for text in texts if not text.startswith(NOT_ALLOWED)]
    return "; ".join([*([f"you have no right to {rights}"] if rights else []), *others])


def _ago(since: datetime, now: datetime) -> str:
    """In the largest unit, as kubectl shows ages."""
    seconds = max(int((now - since).total_seconds()), 0)
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


MEMBERS = (
    ("subject", "the object, as `Kind namespace/name`"),
    ("state", "`fine`, `waits` (for what comes by itself), `stuck` (goes on only after a change), `broken`"),
    ("text", "what is said of the object"),
    ("since", "when that began, RFC 3339; null if it is not known"),
    ("asks", "what the object needs"),
    ("because", "a list of causes, the nearest first"),
    ("so", "what follows"),
    ("fix", "the commands that end it, one a line"),
    ("next", "what happens by itself, or is to be done by hand"),
    ("codes", "a list of codes of the doctor; docs/troubleshooting.md has a section for each"),
    ("more", "the command that shows the rest"),
    ("unread", "a list of texts: what could not be read, and the right that is missing"),
    ("links", "the objects that the verdict was reached over: a list of objects with the three members below"),
    ("links.from", "the object that led there"),
    ("links.to", "the object that was looked at"),
    ("links.found", "whether it is there"),
)
"""The members of the JSON. They keep their names and meanings; an empty text is "", an empty list []."""


def _object(answer: Answer) -> dict[str, Any]:
    verdict = answer.verdict
    return {
        "subject": answer.subject,
        "state": verdict.state.name,
        "text": verdict.text,
        "since": verdict.since and verdict.since.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "asks": verdict.asks,
        "because": list(verdict.because),
        "so": verdict.so,
        "fix": verdict.fix,
        "next": verdict.next,
        "codes": list(verdict.codes),
        "more": verdict.more,
        "unread": list(answer.unread),
        "links": [{"from": source, "to": target, "found": found} for source, target, found in answer.links],
    }
