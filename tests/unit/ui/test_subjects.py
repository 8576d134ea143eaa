"""Which object a text names."""

from __future__ import annotations

import pytest

from app.errors import UsageError
from app.ui.subjects import Target, parse_search, target_of

WEB = Target(kind="Pod", namespace="team", name="web-0")


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("Pod team/web-0", WEB),
        ("Node host-a", Target(kind="Node", namespace="", name="host-a")),
        ("Pod", None),
        ("Secret team/web-0", None),
        ("Pod team/web-0 and more", None),
        ("<b> team/web-0", None),
        ("Pod team/<b>", None),
        ("", None),
    ],
)
def test_a_subject_names_an_object_that_can_be_asked_about(text: str, target: Target | None) -> None:
    assert target_of(text) == target
    assert target is None or target.subject == text


@pytest.mark.parametrize(
    "text",
    [
        "pod/web-0",
        "pod web-0",
        "po/web-0",
        "Pod team/web-0",
        "pod/web-0 -n team",
        "pod/team/web-0",
        "berth why pod/web-0 -n team",
    ],
)
def test_a_search_names_an_object_as_commands_do(text: str) -> None:
    assert parse_search(text, "team") == WEB


def test_a_kind_without_namespaces_has_none() -> None:
    assert parse_search("node/host-a", "team") == Target(kind="Node", namespace="", name="host-a")


def test_one_word_is_a_part_of_names() -> None:
    assert parse_search("web", "team") == "web"


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("pdo/web-0", "did you mean"),
        ("secret/x", "knows no kind"),
        ("pod/", "want KIND/NAME"),
        ("a b c", "want KIND/NAME"),
    ],
)
def test_a_wrong_search_says_what_would_be_right(text: str, right: str) -> None:
    with pytest.raises(UsageError, match=right):
        parse_search(text, "team")
