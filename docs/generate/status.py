"""status.md and why.md: the members of what `berth status` and `berth why` print as JSON."""

from __future__ import annotations

from app.doctor.model import Severity
from app.status.gathering import SECTIONS
from app.status.model import Section
from app.why.inquiry import JUDGES
from app.why.rendering import MEMBERS
from docs.generate.texts import Page, code, codes, page, prose, table

_INTRO = f"""\
`berth status --output json` prints one object, `--output yaml` the same as YAML; with `--watch` one on each line, and
an object with `at` and `error` if the API server could not be asked. Members may be added; those here keep their
names and meanings. A `severity` is
one of {codes(one.name for one in Severity if one >= Severity.ok)}."""
_MEMBERS = (
    ("at", "when it was read, RFC 3339"),
    ("namespace", "the namespace of Berth that was looked at"),
    ("release", "the name of the release"),
    ("scope", "with `-n` or `--mine` the one namespace that is shown; else empty"),
    ("leftOut", "with a scope, the sections that are about the whole cluster"),
    ("beyond", "with a scope, the rights outside of it that the user has not"),
    ("severity", "the worst of all sections and of the doctor; it decides the exit status"),
    ("sections", "the sections below by name; one that the cluster has nothing for is absent"),
    ("doctor", "findings of `berth doctor`; null in a watch before it has ended once"),
    ("doctor.at", "when it ended"),
    *((f"doctor.{one.name}", f"how many findings of severity {one.name}") for one in reversed(Severity)),
    ("doctor.command", "the command that shows them"),
    ("doctor.problems", "errors and warnings, the worst first, without what follows from others"),
    ("doctor.problems.severity", "`error` or `warning`"),
    ("doctor.problems.code", "the code, which has a section in docs/troubleshooting.md"),
    ("doctor.problems.subject", "what it is about, as `Kind namespace/name`"),
    ("doctor.problems.message", "what is wrong"),
    ("doctor.problems.command", "the command that fixes it; empty if none does alone"),
)
_SECTION = """\
Each has these members; `items` have the members in the table of the section, and `severity`."""
_OF_SECTION = (
    ("severity", "the worst of its items; warning if something could not be read"),
    ("totals", "numbers, by name; null if it depends on something unread, none if nothing could be read"),
    ("items", "a list; a value that is not known is null"),
    ("unread", "a list of texts: what could not be read"),
)


_WHY = """\
`berth why KIND/NAME --output json` prints one object; with `-f` and several objects a list of them. Members may be
added; those here keep their names and meanings. A text that there is nothing to say for is empty, and so is a list."""
_KINDS = """\
These kinds have judges. An object of another kind is judged by its deletion and its conditions."""


def why_page() -> Page:
    kinds = table(
        ("Kind", "Group"), sorted({(code(kind.kind), code(kind.group) if kind.group else "") for kind in JUDGES})
    )
    return page("docs/reference/why.md", "What berth why prints", _WHY, _table(MEMBERS), "## Kinds", _KINDS, kinds)


def status_page() -> Page:
    blocks = [_INTRO, _table(_MEMBERS), "## Sections", _SECTION, _table(_OF_SECTION)]
    for section in SECTIONS:
        blocks += _section(section)
    return page("docs/reference/status.md", "What berth status prints", *blocks)


def _section(section: Section) -> list[str]:
    totals = [(f"totals.{name}", text) for name, text in section.totals.items()]
    return [
        f"## {section.name}",
        prose(section.text),
        _table([*totals, *((f"items.{column.name}", column.text) for column in section.columns)]),
    ]


def _table(rows: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> str:
    return table(("Member", "Meaning"), ((code(name), prose(text)) for name, text in rows))
