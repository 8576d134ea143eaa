"""How findings are run, ordered, written and ended by."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

import pytest

from app.doctor.checks import CHECKS, examine, pick, run
from app.doctor.model import Check, Finding, Severity, all_well, info, unchecked, warning
from app.doctor.rendering import render
from app.errors import ApiError, UsageError

FINDINGS = [
    Finding("b", Severity.error, "Thing a", "is broken", "it hurts", "mend this"),
    Finding("b", Severity.error, "Thing b", "is broken", "it hurts", "mend\nthat"),
    Finding("a", Severity.ok, "", "the rest is fine"),
]


def says(name: str, findings: list[Finding], failure: Exception | None = None) -> Check:
    async def part(_cluster: object) -> AsyncIterator[Finding]:
        for finding in findings:
            yield finding
        if failure is not None:
            raise failure

    return Check(name, (part,))


def test_text_has_a_group_for_each_severity_and_check() -> None:
    assert [line.text for line in render(FINDINGS, "text")] == [
        "ERROR  b",
        "  Thing a: is broken",
        "    consequence: it hurts",
        "    command: mend this",
        "  Thing b: is broken",
        "    consequence: it hurts",
        "    command: mend",
        "             that",
        "OK  a",
        "  the rest is fine",
        "2 error, 1 ok",
    ]


def test_foreign_text_does_not_command_the_terminal() -> None:
    """What an API server or a kubelet says may be anybody's."""
    lines = [line.text for line in render([Finding("a", Severity.error, "b", "x\x1b[2Jy\u202ez", "c\x9bd")], "text")]
    assert lines[1:3] == ["  b: x\\x1b[2Jy\\u202ez", "    consequence: c\\x9bd"]


def test_json_has_every_field_and_the_counts() -> None:
    document = json.loads("\n".join(line.text for line in render(FINDINGS, "json")))
    assert document["summary"] == {"error": 2, "warning": 0, "info": 0, "ok": 1}
    assert document["findings"][0] == {
        "check": "b",
        "severity": "error",
        "subject": "Thing a",
        "message": "is broken",
        "consequence": "it hurts",
        "command": "mend this",
    }


async def test_the_worst_comes_first_and_one_failing_check_stops_no_other() -> None:
    refused = ApiError("GET /api/v1/pods: HTTP 403: pods is forbidden", status=403)
    checks = [says("a", FINDINGS[2:]), says("c", [], refused), says("b", FINDINGS[:2])]
    found = await examine(None, checks)  # type: ignore[arg-type]  # these checks look at no cluster
    assert [one.check for one in found] == ["b", "b", "c", "a"]
    assert found[2].message == "not checked: you have no right to list pods in the whole cluster"


async def test_a_check_that_stumbles_stops_no_other() -> None:
    """It is an error of ours, and the finding says where; nothing of the object reaches it."""
    found = await examine(None, [says("stumbles", [], KeyError("spec")), says("b", FINDINGS[:2])])  # type: ignore[arg-type]  # look at no cluster
    assert [one.check for one in found] == ["b", "b", "stumbles"]
    assert re.fullmatch(r"not checked: an internal error, KeyError in test_rendering\.py:\d+", found[2].message)
    assert found[2].severity is Severity.warning


async def test_a_part_that_fails_stops_no_other_and_what_it_had_found_stays() -> None:
    refused = ApiError("GET /api/v1/pods: HTTP 403: pods is forbidden", status=403)
    one, other = says("", FINDINGS[:1], refused), says("", FINDINGS[1:2])
    found = await run(None, Check("a", (*one.parts, *other.parts)))  # type: ignore[arg-type]  # looks at no cluster
    assert [(one.check, one.subject) for one in found] == [("a", "Thing a"), ("a", "pods"), ("a", "Thing b")]


@pytest.mark.parametrize(
    ("others", "said"),
    [([], True), ([info("x", "is so")], False), ([warning("x", "is bad", "it hurts")], False)],
)
async def test_all_is_well_where_nothing_else_is_found(others: list[Finding], *, said: bool) -> None:
    found = await run(None, says("a", [*others, all_well("", "all is well")]))  # type: ignore[arg-type]  # looks at none
    assert ("all is well" in [one.message for one in found]) is said


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("GET /api/v1/namespaces/x/secrets/s: HTTP 403: no", "kubectl auth can-i get secrets/s -n x"),
        ("GET /apis/apps/v1/deployments: HTTP 403: no", "kubectl auth can-i list deployments.apps -A"),
        ("POST /api/v1/namespaces/x/pods?dryRun=All: HTTP 403: no", "kubectl auth can-i create pods -n x"),
        ("GET /api/v1/namespaces: HTTP 403: no", "kubectl auth can-i list namespaces -A"),
        ("GET /api/v1/namespaces/x: HTTP 403: no", "kubectl auth can-i get namespaces/x -A"),
    ],
)
def test_the_right_that_is_missing_is_read_from_the_request(text: str, command: str) -> None:
    """The answer may have been cut."""
    assert unchecked(ApiError(text, status=403)).command == command


def test_a_server_that_is_away_is_no_missing_right() -> None:
    finding = unchecked(ApiError("GET /api/v1/pods: no answer in time", status=0))
    assert finding.message == "not checked: the API server could not be asked: GET /api/v1/pods: no answer in time"
    assert finding.command == ""


def test_checks_are_picked_by_name() -> None:
    assert [check.name for check in pick(CHECKS, ["leases", "clock"])] == ["leases", "clock"]
    assert pick(CHECKS, []) == list(CHECKS)
    with pytest.raises(UsageError, match="there is no check 'x': want one of clock, definitions"):
        pick(CHECKS, ["x"])


def test_the_names_of_checks_differ() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
