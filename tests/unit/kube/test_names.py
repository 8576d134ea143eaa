"""The naming rules of the API and their messages."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.kube.names import (
    check_annotation_key,
    check_dns_label,
    check_dns_subdomain,
    check_label_key,
    check_label_value,
    check_qualified_name,
    domain_above,
    shorten,
)

Check = Callable[[str], str]

GOOD: list[tuple[Check, str]] = [
    (check_dns_label, "a"),
    (check_dns_label, "a-1"),
    (check_dns_label, "1" * 63),
    (check_dns_subdomain, "a.b-c.d"),
    (check_dns_subdomain, ".".join(["a" * 63] * 3)),
    (check_qualified_name, "A_b.c-9"),
    (check_qualified_name, "example.com/A"),
    (check_label_key, "k8s.v1.cni.cncf.io/networks"),
    (check_annotation_key, "Example.COM/Name"),
    (check_label_value, ""),
    (check_label_value, "A.b_c-1"),
]
BAD: list[tuple[Check, str]] = [
    (check_dns_label, ""),
    (check_dns_label, "A"),
    (check_dns_label, "a.b"),
    (check_dns_label, "-a"),
    (check_dns_label, "a-"),
    (check_dns_label, "a\n"),
    (check_dns_label, "a" * 64),
    (check_dns_label, "é"),
    (check_dns_label, "../x"),
    (check_dns_subdomain, ""),
    (check_dns_subdomain, "a..b"),
    (check_dns_subdomain, ".a"),
    (check_dns_subdomain, "a" * 254),
    (check_dns_subdomain, "a/b"),
    (check_qualified_name, ""),
    (check_qualified_name, "/a"),
    (check_qualified_name, "a/"),
    (check_qualified_name, "a/b/c"),
    (check_qualified_name, "Example.com/a"),
    (check_qualified_name, "x" * 64),
    (check_annotation_key, "a b"),
    (check_label_value, "-a"),
    (check_label_value, "a" * 64),
    (check_label_value, "a/b"),
]


@pytest.mark.parametrize(("check", "text"), GOOD)
def test_good_names_come_back(check: Check, text: str) -> None:
    assert check(text) == text


@pytest.mark.parametrize(("check", "text"), BAD)
def test_bad_names_are_refused_with_what_would_be_right(check: Check, text: str) -> None:
    with pytest.raises(ValueError, match=r"use .*(letters|digits)") as caught:
        check(text)
    assert repr(text[:80])[1:20] in str(caught.value) or not text
    assert len(str(caught.value)) < 500


@given(st.text(max_size=300), st.sampled_from([63, 253, 20]))
def test_shortened_names_are_valid(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert len(short) <= limit
    assert check_dns_subdomain(short) == short
    assert shorten(text, limit) == short
    if limit <= 63:
        check_dns_label(short)


@given(st.text("ab", min_size=64, max_size=90), st.text("ab", min_size=64, max_size=90))
def test_cut_names_stay_different(one: str, other: str) -> None:
    assert (shorten(one) == shorten(other)) == (one == other)


def test_short_names_stay_as_they_are() -> None:
    assert shorten("web-1") == "web-1"
    assert shorten("a.b.c", 253) == "a.b.c"
    assert shorten("a.b.c") != "a.b.c"
    assert shorten("x" * 64).startswith("x" * 54 + "-")
    assert len(shorten("x" * 64)) == 63
    with pytest.raises(ValueError, match="hash"):
        shorten("abc", 5)


@pytest.mark.parametrize(
    ("key", "domain"),
    [
        ("berth.dev/x", "berth.dev"),
        ("a.berth.dev/x", "berth.dev"),
        ("Berth.Dev/x", "berth.dev"),
        ("k8s.io/berth.dev", "k8s.io"),
        ("notberth.dev/x", None),
        ("berth.dev.example/x", None),
        ("berth.dev", None),
        ("x", None),
    ],
)
def test_the_domain_above_a_key(key: str, domain: str | None) -> None:
    assert domain_above(key, ("berth.dev", "k8s.io")) == domain
