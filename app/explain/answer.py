"""The whole answer of `berth explain`, and how it is printed in each form. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from app.explain import rules, trial_rendering, wrapped
from app.explain.model import Finding
from app.explain.rendering import STRUCTURED, Explained, Form, Line, asides, object_of, render, structured
from app.explain.rules import RuleExplained
from app.explain.trials import Trial
from app.explain.wrapped import Requested
from app.text import printable, several
from app.wire import JSON

_KINDS = 8
"""Other kinds that are named."""


@dataclass(slots=True)
class Answer:
    """`objects` counts all that was read, `unused` what says nothing here, by kind.

    `refused` counts what would be refused beside Pods and AppWrappers. `notes` say what was not used, and why.
    `judged` counts what controllers judge. `trials` are the dry runs, None where there were none.
    `unread` counts objects beside Pods that were not checked, for their user may not read what they rest on.
    """

    objects: int = 0
    unused: Mapping[str, int] = field(default_factory=dict)
    pods: list[Explained] = field(default_factory=list)
    wrappers: list[wrapped.Wrapped] = field(default_factory=list)
    rules: list[RuleExplained] = field(default_factory=list)
    requests: list[Requested] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refused: int = 0
    judged: int = 0
    trials: list[Trial] | None = None
    unread: int = 0

    @property
    def summary(self) -> dict[str, int]:
        return {
            "objects": self.objects,
            "pods": len(self.pods),
            "injected": sum(not pod.denied and bool(pod.decision.operations) for pod in self.pods),
            "refused": self.refused
            + sum(pod.denied for pod in self.pods)
            + sum(bool(wrapper.problems) for wrapper in self.wrappers)
            + len(self._refused_by_cluster),
            "errors": sum(finding.severity == "error" for finding in self.findings),
            "warnings": sum(finding.severity == "warning" for finding in self.findings)
            + sum(len(pod.decision.warnings) for pod in self.pods)
            + sum(len(wrapper.warnings) for wrapper in self.wrappers)
            + sum(len(trial.warnings) for trial in self.trials or ()),
        }

    @property
    def _refused_by_cluster(self) -> set[str]:
        """What only the cluster refuses."""
        told = {pod.manifest.subject for pod in self.pods if pod.denied}
        told |= {wrapper.manifest.subject for wrapper in self.wrappers if wrapper.problems}
        return {trial.manifest.subject for trial in self.trials or () if trial.refused} - told

    @property
    def untried(self) -> bool:
        """Whether the cluster gave no answer about an object that it was asked about, or about what that rests on."""
        return (
            bool(self.unread)
            or any(pod.unread for pod in self.pods)
            or any(trial.untried for trial in self.trials or ())
        )

    @property
    def failed(self) -> bool:
        """Whether something would be refused, or dropped."""
        return bool(self.summary["refused"] or self.summary["errors"])


def lines(answer: Answer, form: Form) -> Iterator[Line]:
    """For standard output, without control characters of the manifests."""
    yield from (Line(printable(text), style) for text, style in _lines(answer, form))


def lines_aside(answer: Answer, form: Form) -> Iterator[Line]:
    """For standard error: notes, and what the form has no place for."""
    aside = [Line(f"note: {note}") for note in (*answer.notes, *_unused(answer))]
    if form not in ("text", *STRUCTURED):
        asides_of = map(trial_rendering.aside_of, answer.trials) if answer.trials else [asides(answer.pods, form)]
        aside += [*chain.from_iterable(asides_of), *_findings(answer), _summary(answer)]
    yield from (Line(printable(text), style) for text, style in aside)


def _lines(answer: Answer, form: Form) -> Iterator[Line]:
    if form in STRUCTURED:
        yield from structured(_document(answer), form)
        return
    if form == "diff" and answer.trials is not None:
        yield from chain.from_iterable(map(trial_rendering.difference_of, answer.trials))
        return
    yield from render(answer.pods, form)
    if form == "text":
        yield from chain.from_iterable(map(trial_rendering.text_of, answer.trials or ()))
        for wrapper in answer.wrappers:
            yield from wrapped.text_of(wrapper)
        # Of what would be refused, a finding says it.
        for rule in (rule for rule in answer.rules if not rule.refused):
            yield from rules.text_of(rule)
        for request in (request for request in answer.requests if not request.refused):
            yield from wrapped.request_text(request)
        yield from _findings(answer)
        yield _summary(answer)


def _document(answer: Answer) -> JSON:
    return {
        "objects": [
            *map(object_of, answer.pods),
            *map(wrapped.object_of, answer.wrappers),
            *map(rules.object_of, answer.rules),
            *map(wrapped.request_object, answer.requests),
        ],
        "findings": [finding.members for finding in answer.findings],
        **({} if answer.trials is None else {"trials": [*map(trial_rendering.object_of, answer.trials)]}),
        "unused": dict(answer.unused),
        "notes": list(answer.notes),
        "summary": answer.summary,
    }


def _findings(answer: Answer) -> Iterator[Line]:
    """Errors first."""
    for finding in sorted(answer.findings, key=lambda finding: finding.severity):
        yield Line(finding.text, "red" if finding.severity == "error" else "yellow")


def _unused(answer: Answer) -> Iterator[str]:
    if answer.unused:
        kinds = sorted(answer.unused.items(), key=lambda item: (-item[1], item[0]))
        shown = ", ".join(_of_kind(count, kind) for kind, count in kinds[:_KINDS])
        more = ", …" if len(kinds) > _KINDS else ""
        count = sum(answer.unused.values())
        verb = "makes no Pods" if count == 1 else "make no Pods"
        yield f"{several(count, 'object')} of other kinds {verb}: {shown}{more}"


def _summary(answer: Answer) -> Line:
    counts = answer.summary
    errors, warnings = counts["errors"], counts["warnings"]
    text = (
        f"{several(counts['objects'], 'object')}, {several(counts['pods'], 'Pod')}: {counts['injected']} injected, "
        f"{counts['refused']} refused; {several(errors, 'error')}, {several(warnings, 'warning')}"
    )
    return Line(text, "red" if answer.failed else "yellow" if warnings else "green")


def _of_kind(count: int, kind: str) -> str:
    name, dot, group = kind.partition(".")
    plural = (
        name
        if count == 1
        else f"{name[:-1]}ies"
        if name.endswith("cy")
        else f"{name}es"
        if name.endswith("s")
        else f"{name}s"
    )
    return f"{count} {plural}{dot}{group}"
