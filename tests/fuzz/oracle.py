"""What every review must hold to: an answer that is one, and at most `MOST` times the cost of an ordinary review.

The cost is counted in steps (`tests.support.steps`). A review is ordinary where one member of its object is larger than
usual in a way that users' objects are: more items of a list, a longer text, more keys. It is compared with the median
of the ordinary reviews, of all kinds, whose bodies are of its size class.
"""

from __future__ import annotations

import base64
import binascii
import json
import random
import statistics
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.fuzz.growing import ORDINARY, Growth, grown, growths
from tests.fuzz.kinds import Kind, body_of, kinds, object_of
from tests.fuzz.running import Answer, Counted

MOST = 50
"""Times the median of the size class."""
CLASSES = tuple(1024 * 4**power for power in range(1, 6))
"""Bytes of the largest body of each size class: 4 KiB to 1 MiB. To larger ones the last belongs, in proportion."""
_SAMPLED = 2
"""Ordinary reviews of each kind, in each class."""
_REFUSALS = (400, 413, 415)


@dataclass(frozen=True, slots=True)
class Case:
    """A write of an object whose members have grown together by `size` bytes."""

    kind: Kind
    operation: str
    growths: tuple[Growth, ...]
    size: int

    def body(self) -> bytes:
        base = object_of(self.kind)
        obj = base
        for growth in self.growths:
            obj = grown(obj, growth, self.size // len(self.growths))
        return body_of(self.kind, self.operation, obj, base)

    @property
    def members(self) -> str:
        return " and ".join(map(str, self.growths)) or "nothing"

    def __str__(self) -> str:
        return f"{self.kind.name} {self.operation}, {self.members}, {self.size} bytes"


class Medians:
    """The steps of an ordinary review, by size class."""

    def __init__(self, steps: Mapping[int, float]) -> None:
        self.steps = dict(steps)

    def ratio(self, body: bytes, steps: int) -> float:
        """How many ordinary reviews of its size this one costs."""
        number = bisect_left(CLASSES, len(body))
        if number == len(CLASSES):
            return steps / (self.steps[number - 1] * len(body) / CLASSES[-1])
        return steps / self.steps[number]


def measure(webhook: Counted) -> Medians:
    """Ordinary reviews of this webhook. They are the same in every run."""
    found: dict[int, float] = {}
    for number, largest in enumerate(CLASSES):
        answers = [webhook.ask(case.body(), case.kind.path) for case in _ordinary(largest)]
        if any(answer.status != 200 for answer in answers):
            raise AssertionError(f"ordinary reviews are not answered: {[answer.reason for answer in answers]}")
        found[number] = statistics.median(answer.steps for answer in answers)
    return Medians(found)


def _ordinary(largest: int) -> Iterator[Case]:
    for kind in kinds():
        base = object_of(kind)
        smallest = len(body_of(kind, kind.operations[0], base))
        usual = [
            growth for growth in growths(base) if growth.how in ORDINARY and growth.path[0] in ("metadata", "spec")
        ]
        for growth in random.Random(kind.name).sample(usual, min(_SAMPLED, len(usual))):
            yield Case(kind, kind.operations[0], (growth,), max(0, largest * 3 // 4 - smallest))


def worst_cases(kind: Kind, size: int, *, pairs: int, singles: int | None = None, seed: str = "") -> Iterator[Case]:
    """Each member of an object grown as far as it goes, and so many pairs of members; `singles` bounds the first."""
    chosen = random.Random(f"{seed}{kind.name}")
    found = [*growths(object_of(kind))]
    for operation in kind.operations:
        some = found if singles is None else chosen.sample(found, min(singles, len(found)))
        yield from (Case(kind, operation, (growth,), size) for growth in some)
        lists = [growth for growth in found if growth.how not in ("text", "digits", "brackets", "levels")]
        yield from (Case(kind, operation, tuple(_apart(chosen, lists)), size) for _ in range(pairs))


def _apart(chosen: random.Random, found: Sequence[Growth]) -> list[Growth]:
    """Two members of which none is inside the other where the first has changed; the inner one grows first."""
    first, second = chosen.sample(found, 2)
    return sorted((first, second), key=lambda growth: -len(growth.path))


def read_case(kind: str, operation: str, members: str, size: int) -> Case:
    """The case that is written so. Raises LookupError where there is none."""
    found = next((one for one in kinds() if one.name == kind), None)
    if found is None:
        raise LookupError(f"there is no review {kind}")
    by_name = {str(growth): growth for growth in growths(object_of(found))}
    return Case(found, operation, tuple(by_name[name] for name in members.split(" and ")), size)


def problems(body: bytes, answer: Answer, medians: Medians) -> Iterator[str]:
    """What is wrong with an answer."""
    response = answer.review.get("response")
    if answer.review.get("kind") != "AdmissionReview" or not isinstance(response, dict):
        yield f"status {answer.status}: no AdmissionReview: {str(answer.review)[:200]}"
        return
    if answer.status == 200:
        yield from _answer_problems(response)
    elif answer.status not in _REFUSALS or response.get("allowed") is not False:
        yield f"status {answer.status}: {str(response)[:300]}"
    ratio = medians.ratio(body, answer.steps)
    if ratio > MOST:
        yield f"costs {ratio:.0f} times an ordinary review of its size: {answer.steps} steps, {len(body)} bytes"


def _answer_problems(response: Mapping[str, Any]) -> Iterator[str]:
    if not response.get("uid") or not isinstance(response.get("allowed"), bool):
        yield f"no answer: {str(response)[:300]}"
    elif not response["allowed"] and not (response["status"].get("message") and response["status"].get("reason")):
        yield f"a denial without message or reason: {str(response)[:300]}"
    elif "patch" in response:
        try:
            operations = json.loads(base64.b64decode(response["patch"], validate=True))
        except (ValueError, binascii.Error) as error:
            yield f"a patch that cannot be read: {error}"
        else:
            if not operations or not all(map(_is_operation, operations)):
                yield f"a patch that is none: {str(operations)[:300]}"


def _is_operation(one: Any) -> bool:
    return isinstance(one, dict) and one.get("op") in ("add", "remove", "replace") and str(one.get("path"))[:1] == "/"
