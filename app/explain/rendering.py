"""Writes what was explained in the forms of `berth explain`, and documents as JSON or YAML. Pure: values in, lines out.

A line is text and a style ("" for none). The caller decides whether it prints styles.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import yaml

from app.admission.decision import Decision
from app.admission.injected import summary
from app.admission.patch import Operation
from app.explain.model import PodManifest
from app.text import printable
from app.wire import JSON, encode_json, mapping

Plain = Literal["text", "json", "yaml"]
"""The forms that every command has which answers; some have more."""
Form = Literal[Plain, "diff", "patch", "pod"]
STRUCTURED = ("json", "yaml")
UNREAD = "NotRead"
"""The reason of a Pod of which nothing is known, for its user may not read what it selects."""


class Line(NamedTuple):
    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Explained:
    """One Pod, what was decided about it, the reason for each operation, and the Pod as it would be stored.

    `roads` says how its devices would be served, where what a cluster offers is known; `by` who would inject, where
    that need not be the webhook.
    """

    manifest: PodManifest
    decision: Decision
    reasons: Sequence[str]
    pod: JSON
    roads: Sequence[str] = ()
    by: str = ""

    @property
    def denied(self) -> bool:
        return not self.decision.allowed

    @property
    def unread(self) -> bool:
        """Whether it is not known what would become of it."""
        return self.decision.reason == UNREAD

    @property
    def verdict(self) -> str:
        """One sentence without its subject."""
        if self.unread:
            return f"not explained: {self.decision.message}"
        if self.denied:
            return f"would be denied: {self.decision.message}"
        if not self.decision.operations:
            return "nothing would be injected" + (f": {self.decision.message}" if self.decision.message else "")
        return f"would be injected by {self.by}" if self.by else "would be injected"


def render(results: Sequence[Explained], form: Form) -> Iterator[Line]:
    """The answer about Pods for standard output, in any form but JSON and YAML; what it leaves out is in `asides`."""
    match form:
        case "diff":
            for result in results:
                yield from _diff(result)
        case "patch":
            for result in results:
                yield Line(encode_json([] if result.denied else list(result.decision.operations)).decode())
        case "pod":
            admitted = [dump(result.pod) for result in results if not (result.denied or result.unread)]
            yield from map(Line, "---\n".join(admitted).splitlines())
        case _:
            for result in results:
                yield from _text(result)


def asides(results: Sequence[Explained], form: Form) -> Iterator[Line]:
    """Denials and warnings, for standard error, of forms that have no place for them."""
    for result in results:
        if (
            result.denied
            or (form in ("patch", "pod") and result.unread)
            or (form == "diff" and not result.decision.operations)
        ):
            yield Line(f"{result.manifest.subject}: {result.verdict}", "red" if result.denied else "")
        for warning in result.decision.warnings:
            yield Line(f"{result.manifest.subject}: warning: {warning}", "yellow")


def dump(obj: JSON | list[JSON]) -> str:
    """An object as YAML, in its own order, lines not folded.

    Where a character of it cannot be printed, all that are not ASCII are escaped.
    """
    text = yaml.safe_dump(obj, sort_keys=False, width=2**31, allow_unicode=True)
    if text.replace("\n", "").isprintable():
        return text
    return yaml.safe_dump(obj, sort_keys=False, width=2**31)


def structured(document: JSON | list[JSON], form: str) -> Iterator[Line]:
    """A document as JSON or as YAML, no line of which has a character that commands a terminal."""
    text = dump(document).rstrip("\n") if form == "yaml" else json.dumps(document, indent=2, ensure_ascii=False)
    yield from (Line(printable(line)) for line in text.split("\n"))


def _text(result: Explained) -> Iterator[Line]:
    style = "red" if result.denied else "green" if result.decision.operations else ""
    yield Line(f"{result.manifest.subject}: {result.verdict}", style)
    if injected := summary(mapping(result.manifest.pod["metadata"].get("annotations"))):
        yield Line(f"  injected before by {injected}")
    if not result.denied:
        last = ""
        for operation, reason in zip(result.decision.operations, result.reasons, strict=True):
            if operation.value in ({}, []):  # only makes room for what follows
                continue
            if reason != last:
                yield Line(f"  {reason}")
            value = "removed" if operation.op == "remove" else json.dumps(operation.value, ensure_ascii=False)
            yield Line(f"    {field_of(operation, result.pod)}: {value}", "cyan")
            last = reason
        for road in result.roads:
            yield Line(f"  served: {road}")
    for warning in result.decision.warnings:
        yield Line(f"  warning: {warning}", "yellow")


def _diff(result: Explained) -> Iterator[Line]:
    if result.denied or not result.decision.operations:
        return
    before, after = dump(result.manifest.pod).splitlines(), dump(result.pod).splitlines()
    label = result.manifest.subject
    for line in difflib.unified_diff(before, after, f"{label}, as written", f"{label}, as injected", lineterm=""):
        style = "cyan" if line.startswith("@@") else {"+": "green", "-": "red"}.get(line[0], "")
        yield Line(line, style)


def object_of(result: Explained) -> JSON:
    """As a JSON answer has it."""
    manifest, decision = result.manifest, result.decision
    operations = [] if result.denied else decision.operations
    return {
        **manifest.reference,
        "allowed": None if result.unread else decision.allowed,
        "reason": decision.reason,
        "message": decision.message,
        "warnings": list(decision.warnings),
        "operations": [
            {**json.loads(encode_json(operation)), "reason": reason}
            for operation, reason in zip(operations, result.reasons, strict=False)
        ],
        "pod": None if result.denied or result.unread else result.pod,
        **({"roads": list(result.roads)} if result.roads else {}),
    }


def field_of(operation: Operation, pod: JSON) -> str:
    """The path as people write it: `spec.containers[web].resources.limits[example.com/foo]`.

    Elements of lists go by their names where they have one; `pod` is the object with the operation applied.
    """
    text, value = "", cast("object", pod)
    for escaped in operation.path.split("/")[1:]:
        segment = escaped.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            appended = segment == "-"
            index = int(segment) if segment.isdecimal() else len(value)
            value = operation.value if appended else value[index] if index < len(value) else None
            name = value.get("name") if isinstance(value, dict) else None
            text += f"[{name or ('+' if appended else segment)}]"
        else:
            value = value.get(segment) if isinstance(value, dict) else None
            text += f".{segment}" if segment.isalnum() else f"[{segment}]"
    return text.removeprefix(".")
