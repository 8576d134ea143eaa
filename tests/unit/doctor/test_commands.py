"""What commands do, as their texts tell: which only show, and which delete."""

from __future__ import annotations

import pytest

from app.doctor import commands
from app.why.model import stuck


@pytest.mark.parametrize(
    ("command", "shows"),
    [
        ("kubectl --namespace a describe pod b", True),
        ("kubectl auth can-i get pods", True),
        ("kubectl auth whoami", True),
        ("kubectl get a -o yaml | grep -i b | sed -n 1p", True),
        ("kubectl auth reconcile -f roles.yaml", False),
        ("sed -i s/a/b/ file", False),
        ("sed --in-place s/a/b/ file", False),
        ("sed -Ei s/a/b/ file", False),
        ("kubectl get a >file", False),
        ("kubectl get $(kubectl delete a -o name)", False),
        ("kubectl get a; kubectl delete a", False),
    ],
)
def test_what_only_shows(command: str, *, shows: bool) -> None:
    assert commands.shows_only(command) is shows


@pytest.mark.parametrize(
    ("command", "deletes"),
    [
        ("kubectl --namespace a delete pod b", True),
        (commands.rewrite("pod", "b", namespace="a"), True),
        ("kubectl get a | kubectl create -f - && kubectl delete a", True),
        ("kubectl edit a", False),
        ("kubectl get a\nkubectl patch delete-me", False),
    ],
)
def test_beside_a_fix_that_deletes_the_verdict_says_so(command: str, *, deletes: bool) -> None:
    assert commands.deletes(command) is deletes
    assert ("deletes" in stuck("hangs", fix=command).next) is deletes
    assert "deletes" in stuck("hangs", fix=command, next="it deletes its Pods").next
    assert stuck("hangs", fix=command, next="wait").next.endswith("wait")
