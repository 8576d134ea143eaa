"""Which RDT class serves what a container asks for, and what a ConfigMap of classes may say."""

from __future__ import annotations

import random

import pytest

from app.rmd.classes import KEY, Classes, Wish, choose, parse_classes

GIVEN = """
annotations: nri
noClass: Warn
classes:
  - {name: gold, policy: gold, cacheWays: 8}
  - {name: half, cacheWays: 4, mbaPercentage: 50}
  - {name: half-calm, cacheWays: 4, mbaPercentage: 20}
  - {name: four, cacheWays: 4}
  - {name: fast, cacheWays: 6, mbaMbps: 5000}
  - {name: calm, mbaPercentage: 30}
"""


def parsed(text: str | None) -> Classes:
    return parse_classes({"data": {KEY: text} if text is not None else None})


@pytest.mark.parametrize(
    ("wish", "name"),
    [
        (Wish("gold"), "gold"),
        (Wish("silver"), None),
        (Wish(ways=1), "four"),
        (Wish(ways=4), "four"),
        (Wish(ways=5), "gold"),
        (Wish(ways=9), None),
        (Wish(ways=9, least=5), "gold"),
        (Wish(ways=12, least=9), None),
        (Wish(ways=12, least=3), "gold"),
        (Wish(ways=4, percentage=50), "half"),
        (Wish(ways=4, percentage=20), "half-calm"),
        (Wish(ways=2, percentage=21), "half"),
        (Wish(ways=4, percentage=51), None),
        (Wish(ways=5, percentage=20), None),
        (Wish(ways=5, least=2, percentage=20), "half-calm"),
        (Wish(ways=2, mbps=100), "fast"),
        (Wish(ways=2, mbps=5001), None),
        (Wish(percentage=10), "calm"),
        (Wish(mbps=10), None),
    ],
)
def test_the_least_that_is_enough_serves(wish: Wish, name: str | None) -> None:
    classes = list(parsed(GIVEN).classes)
    found = {
        getattr(choose(wish, random.Random(seed).sample(classes, len(classes))), "name", None) for seed in range(9)
    }
    assert found == {name}, "the order in the ConfigMap does not matter"


def test_what_a_config_map_says() -> None:
    found = parsed(GIVEN)
    assert (found.annotations, found.no_class) == ("nri", "Warn")
    assert found.key == "rdtclass.resource-policy.nri.io/container."
    assert str(found).startswith("gold (policy gold, 8 cache ways), half (4 cache ways and 50 % of memory bandwidth), ")
    assert parsed("") == Classes()
    assert (Classes().no_class, Classes().key) == ("Deny", "rdt.resources.beta.kubernetes.io/container.")
    assert parsed("classes: [{name: system/default, policy: bronze}]").classes[0].name == "system/default"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "required: the classes of the container runtime, as YAML"),
        ("a: [", "this is not YAML: "),
        ("[1]", "the document: want a mapping, got '[1]'"),
        ("noclass: Deny", "noclass: unknown key: want one of annotations, noClass, classes"),
        ("annotations: cri-o", "annotations: want 'containerd' or 'nri', got 'cri-o'"),
        ("noClass: deny", "noClass: want 'Deny' or 'Warn', got 'deny'"),
        ("classes: {a: b}", "classes: want a list"),
        ("classes: [a]", "classes[0]: want a mapping, got 'a'"),
        ("classes: [{policy: gold}]", "classes[0].name: required"),
        (
            "classes: [{name: a, cacheways: 1}]",
            "classes[0].cacheways: unknown key: want one of name, policy, cacheWays, mbaPercentage, mbaMbps",
        ),
        ("classes: [{name: a/b, cacheWays: 1}]", "classes[0].name: want a name that a folder can have"),
        ("classes: [{name: .., cacheWays: 1}]", "classes[0].name: want a name that a folder can have"),
        ("classes: [{name: a, policy: ' '}]", "classes[0].policy: want the name of a policy"),
        ("classes: [{name: a, policy: 3}]", "classes[0].policy: want a valid string, got '3'"),
        ("classes: [{name: a, cacheWays: 2.5}]", "classes[0].cacheWays: want a valid integer, got '2.5'"),
        ("classes: [{name: a, cacheWays: true}]", "classes[0].cacheWays: want a valid integer, got 'True'"),
        ("classes: [{name: a, cacheWays: 0}]", "classes[0].cacheWays: want greater than or equal to 1, got '0'"),
        ("classes: [{name: a, mbaPercentage: 101}]", "classes[0].mbaPercentage: want less than or equal to 100"),
        ("classes: [{name: a, mbaMbps: 4294967291}]", "classes[0].mbaMbps: want less than or equal to 4294967290"),
        ("classes: [{name: a}]", "classes[0]: serves nothing: want policy, cacheWays, mbaPercentage or mbaMbps"),
        (
            "classes: [{name: a, mbaPercentage: 5, mbaMbps: 5}]",
            "classes[0].mbaMbps: excludes mbaPercentage: want the one of the machines",
        ),
        (
            "classes: [{name: a, cacheWays: 1}, {name: a, cacheWays: 2}]",
            "classes[1].name: 'a' is there already: want each class once",
        ),
        (
            "classes: [{name: a, policy: p}, {name: b, policy: p}]",
            "classes[1].policy: class a serves it already: want another policy",
        ),
        (
            "classes: [{name: a, cacheWays: 1}, {name: b, policy: p, cacheWays: 1}]",
            "classes[1]: class a has the same 1 cache way already: want other values",
        ),
    ],
)
def test_what_a_config_map_may_not_say(text: str | None, problem: str) -> None:
    with pytest.raises(ValueError, match="classes") as caught:
        parsed(text)
    assert f"data[{KEY}]: {problem}" in str(caught.value)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(ValueError, match=r"cacheWays: want greater.*; .*: x: unknown key"):
        parsed("{x: 1, classes: [{name: a, cacheWays: -1}]}")


def test_a_text_whose_aliases_multiply_is_cut() -> None:
    nested = "".join(f"x{level}: &x{level} [{','.join([f'*x{level - 1}'] * 9)}]\n" for level in range(1, 12))
    with pytest.raises(ValueError, match="aliases make the document many times larger") as caught:
        parsed(f"x0: &x0 [x]\n{nested}classes: *x11\n")
    assert len(str(caught.value)) < 10_000
