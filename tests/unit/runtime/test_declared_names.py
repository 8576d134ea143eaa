"""Names that wings declare: a wrong one is an error that says which there are."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from app.permissions import _SHARED, declared
from app.registry import (
    BY_NAME,
    CLUSTERS,
    REVIEWED,
    SCOPES,
    check_descriptors,
    kinds_of,
    names_of,
    reviews_of,
    webhooks_of,
)
from app.wiring import Controller, Permission, Role, Wing

ROLE: dict[str, Any] = {"settings": "", "build": "", "summary": "", "examples": ()}


@pytest.mark.parametrize(
    ("read", "message", "names"),
    [
        (lambda: reviews_of("pod"), "reviews: no wing declares 'pod'", REVIEWED),
        (lambda: webhooks_of("pod"), "webhooks: no wing declares 'pod'", REVIEWED),
        (lambda: kinds_of("rdm"), "clusters: no wing declares 'rdm'", CLUSTERS),
        (
            lambda: check_descriptors([Wing("x", kinds={"rdm": "app.x:KINDS"})], ()),
            "wing x: clusters: no wing declares 'rdm'",
            CLUSTERS,
        ),
        (
            lambda: check_descriptors([Wing("x", controllers=(Controller("x", "app.x:build", needs="rdm"),))], ()),
            "wing x: clusters: no wing declares 'rdm'",
            CLUSTERS,
        ),
        (
            lambda: check_descriptors((), [Role("x", **ROLE, needs="rdm")]),
            "role x: needs: no wing declares 'rdm'",
            CLUSTERS,
        ),
        (
            lambda: check_descriptors((), [Role("x", **ROLE, home="rdm")]),
            "role x: home: no wing declares 'rdm'",
            ("release", "system", "rmd"),
        ),
        (
            # Those are several namespaces.
            lambda: check_descriptors((), [Role("x", **ROLE, home="tenants")]),
            "role x: home: no wing declares 'tenants'",
            ("release", "system", "rmd"),
        ),
    ],
)
def test_a_name_that_no_wing_declares_is_refused(
    read: Callable[[], object], message: str, names: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{message}: want one of {', '.join(names)}") + "$"):
        read()


def test_a_permission_in_a_scope_that_no_wing_declares_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_SHARED, "webhook", (Permission("tenant", "", ("pods",), ("get",)),))
    with pytest.raises(ValueError, match=r"^permissions of webhook: no wing declares 'tenant': want one of cluster, "):
        declared.__wrapped__("webhook")


def test_a_name_is_declared_once() -> None:
    wings = [Wing("a", reviewed={"x": "mutate"}), Wing("b", reviewed={"x": "validate"})]
    with pytest.raises(ValueError, match=r"^wing b: reviewed: another wing declares 'x': want it once$"):
        names_of(wings, "reviewed")


def test_the_permissions_of_all_roles_have_names_of_scopes() -> None:
    assert {permission.scope for role in BY_NAME for permission in declared(role)} == set(SCOPES)
