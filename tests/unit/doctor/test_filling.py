"""Templates of the texts of findings."""

from __future__ import annotations

import shlex

import pytest

from app.doctor.catalog import command_line, filled


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{name} is {word!p}", "a is x\\u001b[31m y"),
        ("{count:Pod}, {one:Pod}", "2 Pods, 1 Pod"),
        ("{names}", "a, b, c and 2 more"),
        ("{names:4}", "a, b, c, d and 1 more"),
        ("{seconds:min} minutes, {seconds:.0f} s", "2 minutes, 119 s"),
    ],
)
def test_a_text_is_filled(template: str, text: str) -> None:
    values = {"name": "a", "word": "x\x1b[31m\n y", "count": 2, "one": 1, "names": list("abcde"), "seconds": 119.2}
    assert filled(template, values) == text


def test_what_fills_a_command_is_one_word() -> None:
    hostile = "a b'; rm -rf $HOME"
    line = command_line(
        "kubectl {where!s} edit configmap {name} && kubectl label x={name}\n", {"name": hostile, "where": ""}
    )
    assert shlex.split(line) == ["kubectl", "edit", "configmap", hostile, "&&", "kubectl", "label", f"x={hostile}"]


def test_a_part_of_a_command_stays_as_it_is() -> None:
    assert command_line("{fix!s} && kubectl {where!s} get x", {"fix": "a | b", "where": "--namespace n"}) == (
        "a | b && kubectl --namespace n get x"
    )


def test_a_command_without_values_stays_as_it_is() -> None:
    text = 'berth certs install --dir "$(mktemp -d)" &&\nkubectl get x'
    assert command_line(text, {}) == text
