"""How findings are run, ordered, written and ended by."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from app.doctor.checks import CHECKS
from app.doctor.model import Finding, Severity
from app.doctor.rendering import render
from app.doctor.running import examine, pick, unchecked
from app.errors import ApiError, UsageError

FINDINGS = [
    Finding("b", Severity.error, "Thing a", "is broken", "it hurts", "mend this"),
    Finding("b", Severity.error, "Thing b", "is broken", "it hurts", "mend\nthat"),
    Finding("a", Severity.ok, "", "the rest is fine"),
]


@dataclass
class Says:
    name: str
    findings: list[Finding]
    error: ApiError | None = None

    async def run(self, _cluster: object) -> list[Finding]:
        if self.error is not None:
            raise self.error
        return self.findings


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
    checks = [Says("a", FINDINGS[2:]), Says("c", [], refused), Says("b", FINDINGS[:2])]
    found = await examine(None, checks)  # type: ignore[arg-type]  # these checks look at no cluster
    assert [one.check for one in found] == ["b", "b", "c", "a"]
    assert found[2].message == "not checked: you have no right to list pods in the whole cluster"


class Stumbles:
    """A check that meets an object which it cannot read."""

    name = "stumbles"

    async def run(self, _cluster: object) -> list[Finding]:
        raise KeyError("spec")


async def test_a_check_that_stumbles_stops_no_other() -> None:
    """It is an error of ours, and the finding says where; nothing of the object reaches it."""
    found = await examine(None, [Stumbles(), Says("b", FINDINGS[:2])])  # type: ignore[arg-type]  # look at no cluster
    assert [one.check for one in found] == ["b", "b", "stumbles"]
    line = Stumbles.run.__code__.co_firstlineno + 1
    assert found[2].message == f"not checked: an error of ours, KeyError in test_rendering.py:{line}"
    assert found[2].severity is Severity.warning


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
    assert unchecked("a", ApiError(text, status=403)).command == command


def test_a_server_that_is_away_is_no_missing_right() -> None:
    finding = unchecked("a", ApiError("GET /api/v1/pods: no answer in time", status=0))
    assert finding.message == "not checked: the API server could not be asked: GET /api/v1/pods: no answer in time"
    assert finding.command == ""


def test_checks_are_picked_by_name() -> None:
    assert [check.name for check in pick(CHECKS, ["leases", "clock"])] == ["leases", "clock"]
    assert pick(CHECKS, []) == list(CHECKS)
    with pytest.raises(UsageError, match="there is no check 'x': want one of clock, definitions"):
        pick(CHECKS, ["x"])


def test_the_names_of_checks_differ() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
