"""How findings are run, ordered, written and ended by."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, cast
from xml.etree import ElementTree as ET

import pytest

from app.doctor.cluster import Cluster
from app.doctor.examining import CHECKS, examine, pick, run, shown_of
from app.doctor.model import Check, Finding, Severity, all_well, info, roots, sound, unchecked, warning, with_causes
from app.doctor.rendering import Form, render
from app.doctor.rights import commands_of, missing_rights
from app.errors import ApiError, UsageError

if TYPE_CHECKING:
    from app.kube.client import KubeClient

NOWHERE = Cluster(cast("KubeClient", None), "berth-system")
"""For checks that look at no cluster."""
FINDINGS = [
    Finding("b", Severity.error, "Thing a", "is broken", "it hurts", "repair this", "BERTH0305"),
    Finding("b", Severity.error, "Thing b", "is broken", "it hurts", "repair\nthat", "BERTH0306"),
    Finding("a", Severity.ok, "", "the rest is fine"),
]
CAUSE = Finding("b", Severity.error, "Role x", "is down", "it hurts", "start it", "BERTH0305", explains=("x", "y"))
MIDDLE = Finding("c", Severity.error, "Role y", "is idle", "it hurts", "start y", "BERTH0401", ("z",), because=("x",))
LAST = Finding("d", Severity.warning, "Rule r", "is late", "no effect", "wait", "BERTH3002", because=("q", "z"))


def says(name: str, findings: list[Finding], failure: Exception | None = None) -> Check:
    async def part(_cluster: object) -> AsyncIterator[Finding]:
        for finding in findings:
            yield finding
        if failure is not None:
            raise failure

    return Check(name, (part,))


def texts(findings: list[Finding], form: Form = "text") -> list[str]:
    return [line.text for line in render(findings, form)]


def test_text_has_a_group_for_each_severity_and_check() -> None:
    assert texts(FINDINGS) == [
        "ERROR  b",
        "  [BERTH0305] Thing a: is broken",
        "    consequence: it hurts",
        "    command: repair this",
        "    see: docs/troubleshooting.md#berth0305",
        "  [BERTH0306] Thing b: is broken",
        "    consequence: it hurts",
        "    command: repair",
        "             that",
        "    see: docs/troubleshooting.md#berth0306",
        "OK  a",
        "  the rest is fine",
        "2 errors, 1 ok",
    ]


def test_the_same_finding_of_many_objects_is_said_once() -> None:
    """Each object is named; what is said of all of them, and a command that is the same, once."""
    first = Finding("b", Severity.error, "Pod a", "waits for x", "it stays Pending", "show a", "BERTH1207")
    others = [
        replace(first, subject="Pod b", command="show b"),
        replace(first, subject="Pod c", message="waits for y"),
        replace(first, subject="Pod d", consequence="it is late"),
    ]
    assert texts([first, *others]) == [
        "ERROR  b",
        "  [BERTH1207] Pod a, Pod b: waits for x",
        "  [BERTH1207] Pod c: waits for y",
        "    consequence: it stays Pending",
        "    command: show a",
        "             show b",
        "    see: docs/troubleshooting.md#berth1207",
        "  [BERTH1207] Pod d: waits for x",
        "    consequence: it is late",
        "    command: show a",
        "    see: docs/troubleshooting.md#berth1207",
        "4 errors",
    ]
    assert len(json.loads("\n".join(texts([first, *others], "json")))["findings"]) == 4


def test_a_finding_that_others_follow_from_stands_alone() -> None:
    found = with_causes([LAST, MIDDLE, CAUSE, replace(CAUSE, subject="Role w", explains=())])
    lines = texts(found)
    assert "  [BERTH0305] Role x: is down" in lines
    assert "  [BERTH0305] Role w: is down" in lines


def test_what_follows_is_below_its_cause_and_is_not_counted() -> None:
    found = with_causes([LAST, MIDDLE, CAUSE])
    assert texts(found) == [
        "ERROR  b",
        "  [BERTH0305] Role x: is down",
        "    consequence: it hurts",
        "    command: start it",
        "    see: docs/troubleshooting.md#berth0305",
        "    follows: [BERTH0401] Role y: is idle",
        "      follows: [BERTH3002] Rule r: is late",
        "1 error",
    ]
    document = json.loads("\n".join(texts(found, "json")))
    assert document["summary"]["error"] == 1
    assert document["summary"]["warning"] == 0
    (cause,) = document["findings"]
    assert cause["follows"][0]["follows"][0]["code"] == "BERTH3002"


def test_no_cause_is_milder_than_what_follows_from_it() -> None:
    mild = replace(CAUSE, severity=Severity.warning)
    assert roots(with_causes([mild, MIDDLE])) == [mild, MIDDLE]


def test_findings_that_explain_each_other_are_both_shown() -> None:
    """At least one of them stands for itself."""
    one, other = replace(CAUSE, because=("z",)), MIDDLE
    assert len(roots(with_causes([one, other]))) == 1


async def test_checks_that_did_not_apply_are_said_at_the_end() -> None:
    found = await examine(NOWHERE, [says("empty", []), says("a", FINDINGS[2:]), says("none", [])])
    assert texts(found)[-2:] == ["1 ok", "did not apply here: empty, none"]


def test_junit_has_a_case_for_each_finding() -> None:
    """Failures are what is worse than information; what follows is in the text of its cause."""
    skipped = Finding("e", Severity.skipped, "", "did not apply")
    document = ET.fromstring("\n".join(texts([*with_causes([CAUSE, MIDDLE]), FINDINGS[2], skipped], "junit")))
    assert [suite.get("name") for suite in document] == ["b", "c", "a", "e"]
    assert [document.get(name) for name in ("tests", "failures", "skipped")] == ["3", "1", "1"]
    failure = document.find(".//testcase[@name='[BERTH0305] Role x']/failure")
    assert failure is not None
    assert (failure.get("type"), failure.get("message")) == ("error", "is down")
    assert "command: start it" in str(failure.text)
    assert "follows: [BERTH0401] Role y: is idle" in str(failure.text)


def test_junit_names_are_the_same_in_each_run() -> None:
    """Counts and times are in the text of a case, not in its name."""
    late = Finding("b", Severity.warning, "Role x", "waits for 5 minutes", "it hurts", "", "BERTH0306")
    again = replace(late, message="2 of 3 are ready")
    well = Finding("b", Severity.ok, "", "4 Pods checked")
    document = ET.fromstring("\n".join(texts([late, again, well], "junit")))
    names = [case.get("name") for case in document.iter("testcase")]
    assert names == ["[BERTH0306] Role x", "[BERTH0306] Role x (2)", "ok"]
    assert "4 Pods checked" in str(document.findtext(".//testcase[@name='ok']/system-out"))
    assert "waits for 5 minutes" in str(document.findtext(".//failure"))


@pytest.mark.parametrize("form", ["text", "json", "junit"])
def test_foreign_text_does_not_command_the_terminal(form: Form) -> None:
    """What an API server or a kubelet says, and names of owners of Pods, may be anybody's; commands have them too."""
    odd = "x\x1b[2Jy\u202ez\x9b\x7f"
    lines = texts([Finding("a", Severity.error, odd, odd, odd, f"kubectl edit '{odd}\n2'")], form)
    assert all(line.isprintable() for line in lines)
    whole = "\n".join(lines)
    assert whole.count("y\\u202ez\\u009b\\u007f") >= 4
    if form == "json":
        assert json.loads(whole)["findings"][0]["command"] == f"kubectl edit '{odd}\n2'"
    if form == "junit":
        assert ET.fromstring(whole).get("failures") == "1"


def test_json_has_every_field_and_the_counts() -> None:
    document = json.loads("\n".join(texts(FINDINGS, "json")))
    assert document["summary"] == {"error": 2, "warning": 0, "info": 0, "ok": 1, "skipped": 0}
    assert document["findings"][0] == {
        "check": "b",
        "severity": "error",
        "code": "BERTH0305",
        "documentation": "docs/troubleshooting.md#berth0305",
        "subject": "Thing a",
        "message": "is broken",
        "consequence": "it hurts",
        "command": "repair this",
        "follows": [],
    }


async def test_the_worst_comes_first_and_one_failing_check_stops_no_other() -> None:
    refused = ApiError("GET /api/v1/pods: HTTP 403: pods is forbidden", status=403)
    checks = [says("a", FINDINGS[2:]), says("c", [], refused), says("b", FINDINGS[:2])]
    found = await examine(NOWHERE, checks)
    assert [one.check for one in found] == ["b", "b", "c", "a"]
    assert found[2].message == "not checked: you have no right to list pods in the whole cluster"


async def test_all_rights_that_are_missing_are_one_finding() -> None:
    refused = [ApiError(f"GET /api/v1/{kind}: HTTP 403: forbidden", status=403) for kind in ("pods", "nodes")]
    found = await examine(NOWHERE, [says("a", [], refused[0]), says("b", [], refused[1]), says("c", [], refused[1])])
    (one,) = [one for one in found if one.severity is not Severity.skipped]
    assert (one.check, one.code, one.subject) == ("a", "BERTH0001", "")
    assert one.message == ("not checked: you have no right to list pods, nodes in the whole cluster")
    assert one.command == "kubectl auth can-i list pods -A\nkubectl auth can-i list nodes -A"
    # One with rights in a namespace alone is told how to ask about that.
    assert one.consequence.endswith("or see what is wrong in your namespace alone with berth doctor --mine")


def test_rights_that_are_missing_are_said_in_few_words() -> None:
    """Verb and place once; a kind has its group where two have one name."""
    rights = [
        "not checked: you have no right to list nodes in the whole cluster",
        "list workloads.a.example in the whole cluster",
        "list workloads.b.example in the whole cluster",
        "get deployments.apps in namespace x",
        "list nodes in the whole cluster",
        "something else",
    ]
    assert missing_rights(rights) == (
        "list nodes, workloads.a.example, workloads.b.example in the whole cluster; get deployments in namespace x; "
        "something else"
    )


def test_of_many_rights_one_command_lists_all() -> None:
    lines = [f"kubectl auth can-i list kind{number} -n a" for number in range(4)]
    assert commands_of(lines[:3]) == "\n".join(lines[:3])
    assert commands_of(lines) == "kubectl auth can-i --list -n a"
    assert commands_of([*lines, "kubectl auth can-i list nodes -A"]) == "kubectl auth can-i --list"


async def test_a_check_that_stumbles_stops_no_other() -> None:
    """It is an error of ours, and the finding says where; nothing of the object reaches it."""
    found = await examine(NOWHERE, [says("stumbles", [], KeyError("spec")), says("b", FINDINGS[:2])])
    assert [one.check for one in found] == ["b", "b", "stumbles"]
    assert re.fullmatch(r"not checked: an internal error, KeyError in test_rendering\.py:\d+", found[2].message)
    assert found[2].severity is Severity.warning


async def test_a_part_that_fails_stops_no_other_and_what_it_had_found_stays() -> None:
    refused = ApiError("GET /api/v1/pods: HTTP 403: pods is forbidden", status=403)
    one, other = says("", FINDINGS[:1], refused), says("", FINDINGS[1:2])
    found = await run(NOWHERE, Check("a", (*one.parts, *other.parts)))
    assert [(one.check, one.subject) for one in found] == [("a", "Thing a"), ("a", "pods"), ("a", "Thing b")]


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([], True),
        ([info("BERTH0101", "x", "is so")], False),
        ([warning("BERTH0102", "x", "is bad", "it hurts")], False),
    ],
)
async def test_all_is_well_where_nothing_else_is_found(others: list[Finding], *, said: bool) -> None:
    found = await run(NOWHERE, says("a", [*others, all_well("", "all is well")]))
    assert ("all is well" in [one.message for one in found]) is said


def test_one_object_is_one() -> None:
    assert [sound(count, "companion").message for count in (1, 2)] == [
        "1 companion checked: no problem found",
        "2 companions checked: no problem found",
    ]


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
    for only, ignore, flag in ((["x"], [], "--only"), ([], ["x"], "--ignore"), (["BERTH9999"], [], "--only")):
        with pytest.raises(
            UsageError, match=f"{flag}: there is no check or code '.*': want a code .* or one of clock, def"
        ):
            pick(CHECKS, only, ignore)


def test_a_command_line_that_leaves_no_check_is_refused() -> None:
    with pytest.raises(UsageError, match="--ignore leaves out every check"):
        pick(CHECKS, ["pods"], ["pods"])


def test_codes_pick_their_checks() -> None:
    assert [check.name for check in pick(CHECKS, ["BERTH0401", "BERTH0101"])] == ["leases", "clock"]
    assert pick(CHECKS, ["BERTH0001"]) == list(CHECKS)
    assert "pods" not in {check.name for check in pick(CHECKS, [], ["pods", "BERTH0401"])}
    assert "leases" in {check.name for check in pick(CHECKS, [], ["pods", "BERTH0401"])}


@pytest.mark.parametrize(
    ("only", "ignore", "left"),
    [
        ([], [], ["BERTH0305", "BERTH0306", ""]),
        (["BERTH0306"], [], ["BERTH0306"]),
        (["b"], ["BERTH0305"], ["BERTH0306"]),
        (["a", "BERTH0305"], [], ["BERTH0305", ""]),
        ([], ["b"], [""]),
    ],
)
async def test_only_what_is_wanted_is_shown(only: list[str], ignore: list[str], left: list[str]) -> None:
    checks = [says("b", FINDINGS[:2]), says("a", FINDINGS[2:])]
    found = await examine(NOWHERE, checks, shown_of(only, ignore))
    assert [one.code for one in found] == left


async def test_what_follows_from_an_ignored_finding_is_shown() -> None:
    """It was not named."""
    checks = [says("b", [CAUSE]), says("c", [MIDDLE])]
    found = await examine(NOWHERE, checks, shown_of([], ["BERTH0305"]))
    assert [(one.code, one.cause) for one in found] == [("BERTH0401", None)]


def test_the_names_of_checks_differ() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
