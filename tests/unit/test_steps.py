"""What counted steps see: turns of loops and calls, and what operators and functions in C go through."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.steps import counting, helpers, steps

SOURCES = {
    "a loop": "for value in values: pass",
    "a comprehension": "[value for value in values]",
    "a generator": "sum(1 for value in values)",
    "a look into a list": "'none' in values",
    "a look into a text": "'none' in text",
    "a part of a list": "values[:-1]",
    "a list out of two": "values + values",
    "a list in a list": "[*values]",
    "a mapping in a mapping": "{**{}, **dict.fromkeys(values)}",
    "two lists that are the same": "values == list(values)",
    "sorting": "sorted(values)",
    "a text out of texts": "'-'.join(values)",
    "a text in a text": "f'{text}!'",
    "a search in a list": "values.count('none')",
    "bits of a number": "number | 1",
    "a text that grows": "text += '!'",
}
QUADRATIC = {
    "each compared with those before": "for index, value in enumerate(values): value in values[:index]",
    "a copy for each": "for value in values: values[:]",
    "a number that grows": "for value in values: number |= 1 << len(values) * 8",
}


def cost(line: str, size: int) -> int:
    source = f"def work(values, text, number):\n    {line}\n"
    found: dict[str, Any] = dict(helpers)
    exec(counting(source), found)
    values = [f"value-{index}" for index in range(size)]
    before = steps()
    found["work"](values, "x" * size * 16, 1 << size * 16)
    return steps() - before


@pytest.mark.parametrize("what", SOURCES)
def test_what_goes_through_something_costs_its_length(what: str) -> None:
    small, large = cost(SOURCES[what], 400), cost(SOURCES[what], 4000)
    assert small >= 100
    assert 8 <= large / small <= 15


@pytest.mark.parametrize("what", QUADRATIC)
def test_what_goes_through_all_for_each_costs_the_square(what: str) -> None:
    assert cost(QUADRATIC[what], 4000) / cost(QUADRATIC[what], 400) > 50


@pytest.mark.parametrize(
    "line", ["len(values)", "values.append(1)", "values[3]", "'x' in {}", "isinstance(values, list)"]
)
def test_what_does_not_depend_on_a_length_costs_the_same(line: str) -> None:
    assert cost(line, 400) == cost(line, 4000) <= 10


def test_a_cost_is_the_same_each_time() -> None:
    assert {cost(SOURCES["sorting"], 100) for _ in range(5)} == {cost(SOURCES["sorting"], 100)}
