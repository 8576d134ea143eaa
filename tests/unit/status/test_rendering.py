"""A status as text in 80 columns and as JSON. The texts and members here are what users and programs rely on."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from app.doctor.model import Finding, Severity
from app.explain.rendering import Line
from app.networks.sections import SECTION as ATTACHMENTS_SECTION
from app.status import roles
from app.status.gathering import SECTIONS
from app.status.model import Away, Diagnosis, Found, Row, Section, Status
from app.status.rendering import ROWS, WIDTH, Form, fitted, one_of_many, render, unreachable
from app.tenancy.sections import TENANTS_SECTION
from app.workloads.sections import SECTION as COMPANIONS_SECTION

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
DIAGNOSIS = Diagnosis(
    NOW,
    {Severity.error: 1, Severity.warning: 2, Severity.ok: 9},
    "berth doctor --berth-namespace berth-system --release-name berth",
)


def role(name: str, ready: int, wanted: int, leader: str | None, message: str | None = None) -> Row:
    values = {"role": name, "kind": "Deployment", "name": f"berth-{name}", "ready": ready, "wanted": wanted}
    said = {"leader": leader, "version": "0.1.0", "message": message}
    return Row(values | said, Severity.warning if message else Severity.ok)


ROLES = Found(
    {"roles": 2, "ready": 1},
    (
        role("webhook", 2, 2, None),
        role("controller", 1, 2, "berth-controller-6d5f8-abcde_1234", "Pod berth-controller-6d5f8-x: ErrImagePull: no"),
    ),
)
TENANTS = Found(
    {"tenants": 1, "connected": 0},
    (
        Row(
            {
                "tenant": "tenant1",
                "agent": "CertificateRefused",
                "lastContact": "2026-01-31T11:15:00Z",
                "certificateDays": 29,
                "hosts": 2,
                "readyDpus": 1,
                "dpus": 2,
                "state": "ready",
                "message": "the certificate is not pinned; 1 of its DPUs is not ready",
            },
            Severity.error,
        ),
    ),
)
STATUS = Status(
    NOW,
    "berth-system",
    "berth",
    ((roles.SECTION, ROLES), (TENANTS_SECTION, TENANTS)),
    DIAGNOSIS,
)


def compact(screen: Status | Away) -> Line:
    (line,) = one_of_many(screen, "json")
    return line


def text_of(status: Status, form: Form = "text") -> list[str]:
    return [line.text for line in render(status, form)]


def test_the_screen() -> None:
    assert text_of(STATUS) == [
        "Berth in namespace berth-system, release berth: 2026-01-31T12:00:00Z",
        "",
        "ROLES: 2 roles, 1 ready",
        "  ROLE        READY  LEADER                             VERSION",
        "  controller  1/2    berth-controller-6d5f8-abcde_1234  0.1.0",
        "    Pod berth-controller-6d5f8-x: ErrImagePull: no",
        "  webhook     2/2    -                                  0.1.0",
        "",
        "TENANTS: 1 tenant, 0 connected",
        "  TENANT   AGENT               CONTACT  CERT  HOSTS  DPUS  STATE",
        "  tenant1  CertificateRefused  45 min   29    2      1/2   ready",
        "    the certificate is not pinned; 1 of its DPUs is not ready",
        "",
        "DOCTOR: 1 error, 2 warnings, 9 ok",
        "  berth doctor --berth-namespace berth-system --release-name berth",
    ]


def test_the_json() -> None:
    document = json.loads("\n".join(text for text, _ in render(STATUS, "json")))
    assert document == {
        "at": "2026-01-31T12:00:00Z",
        "namespace": "berth-system",
        "release": "berth",
        "scope": "",
        "leftOut": [],
        "beyond": [],
        "severity": "error",
        "sections": {
            "roles": {
                "severity": "warning",
                "totals": {"roles": 2, "ready": 1},
                "items": [
                    {
                        "role": "webhook",
                        "kind": "Deployment",
                        "name": "berth-webhook",
                        "ready": 2,
                        "wanted": 2,
                        "leader": None,
                        "version": "0.1.0",
                        "message": None,
                        "severity": "ok",
                    },
                    {
                        "role": "controller",
                        "kind": "Deployment",
                        "name": "berth-controller",
                        "ready": 1,
                        "wanted": 2,
                        "leader": "berth-controller-6d5f8-abcde_1234",
                        "version": "0.1.0",
                        "message": "Pod berth-controller-6d5f8-x: ErrImagePull: no",
                        "severity": "warning",
                    },
                ],
                "unread": [],
            },
            "tenants": {
                "severity": "error",
                "totals": {"tenants": 1, "connected": 0},
                "items": [
                    {
                        "tenant": "tenant1",
                        "agent": "CertificateRefused",
                        "lastContact": "2026-01-31T11:15:00Z",
                        "certificateDays": 29,
                        "hosts": 2,
                        "readyDpus": 1,
                        "dpus": 2,
                        "state": "ready",
                        "message": "the certificate is not pinned; 1 of its DPUs is not ready",
                        "severity": "error",
                    }
                ],
                "unread": [],
            },
        },
        "doctor": {
            "at": "2026-01-31T12:00:00Z",
            "error": 1,
            "warning": 2,
            "info": 0,
            "ok": 9,
            "skipped": 0,
            "command": "berth doctor --berth-namespace berth-system --release-name berth",
            "problems": [],
        },
    }


def test_a_watch_in_json_has_one_line_a_screen() -> None:
    assert json.loads(compact(STATUS).text)["sections"]["roles"]["totals"] == {"roles": 2, "ready": 1}
    assert json.loads(compact(Away(NOW, "no answer")).text) == {"at": "2026-01-31T12:00:00Z", "error": "no answer"}


@pytest.mark.parametrize(
    ("seconds", "shown"), [(-5, "0 s"), (0, "0 s"), (59, "59 s"), (60, "1 min"), (7300, "2 h"), (200_000, "2 d")]
)
def test_a_time_is_an_age_on_the_screen(seconds: int, shown: str) -> None:
    then = (NOW - timedelta(seconds=seconds)).isoformat()
    found = Found({}, (Row({"tenant": "t", "lastContact": then}),))
    line = text_of(Status(NOW, "a", "b", ((TENANTS_SECTION, found),)))[4]
    assert " ".join(line.split()) == f"t - {shown} - - - -"


def test_names_are_whole_and_messages_are_broken() -> None:
    """A column that makes the table wider than the screen is on lines of its own."""
    name = "x" * 253
    long = {column.name: "y" for column in TENANTS_SECTION.columns} | {
        "tenant": name,
        "lastContact": "2026-01-31T11:15:00Z",
        "message": "word " * 60,
    }
    found = Found({"tenants": 1}, (Row(long),), unread=("not checked: " + "word " * 60,))
    lines = text_of(Status(NOW, "berth-system", "berth", ((TENANTS_SECTION, found),)))
    assert f"    tenant {name}" in lines
    assert max(len(line) for line in lines if name not in line) <= WIDTH
    assert "45 min" in lines[4]


def test_a_long_message_keeps_the_command_at_its_end() -> None:
    command = "berth tenant add tenant2 --move OTHER"
    row = Row({"tenant": "t", "message": f"{'word ' * 400}run this: {command}"}, Severity.error)
    screen = " ".join(line.strip() for line in text_of(Status(NOW, "n", "r", ((TENANTS_SECTION, Found({}, (row,))),))))
    assert command in screen
    assert " … " in screen


def test_the_doctors_problems_are_on_the_screen_and_all_in_json() -> None:
    problems = tuple(
        Finding("c", Severity.error, f"Pod default/p{number}", "is denied", command="kubectl", code="BERTH1206")
        for number in range(12)
    )
    status = replace(STATUS, diagnosis=Diagnosis(NOW, {Severity.error: 12}, "berth doctor", problems))
    lines = text_of(status)
    assert lines[-2:] == ["  ERROR [BERTH1206] Pod default/p0 and 11 others: is denied", "  berth doctor"]
    wide = text_of(status, "wide")
    assert wide[-3:] == ["  ERROR [BERTH1206] Pod default/p11: is denied", "    kubectl", "  berth doctor"]
    assert len([line for line in wide if "is denied" in line]) == 12
    document = json.loads("\n".join(text for text, _ in render(status, "json")))
    assert len(document["doctor"]["problems"]) == 12
    assert document["doctor"]["problems"][0] == {
        "severity": "error",
        "code": "BERTH1206",
        "subject": "Pod default/p0",
        "message": "is denied",
        "command": "kubectl",
    }


def test_a_problem_of_many_objects_is_said_once() -> None:
    """By its title where the texts differ; a long text by its beginning, in which no name is cut."""
    name = f"bf-demo-{'x' * 100}"
    texts = ("waits for a", "waits for b", "waits for a")
    problems = [
        Finding("p", Severity.error, f"Pod mine/{number}", text, code="BERTH1207") for number, text in enumerate(texts)
    ]
    long = f"{'its Pods are denied ' * 4}by {name} and by others, which is said at length"
    problems.append(Finding("p", Severity.warning, f"Deployment mine/{name}", long, code="BERTH1208"))
    status = replace(STATUS, diagnosis=Diagnosis(NOW, {Severity.error: 3}, "berth doctor", tuple(problems)))
    lines = text_of(status)
    assert "  ERROR [BERTH1207] Pod mine/0 and 2 others: Pods wait for a resource that" in lines
    screen = " ".join(" ".join(lines).split())
    assert f"WARNING [BERTH1208] Deployment mine/{name}: its Pods are denied" in screen
    assert "its Pods are denied by …" in screen
    assert long in " ".join(" ".join(text_of(status, "wide")).split())


def test_codes_beyond_those_with_room_are_counted() -> None:
    codes = ["BERTH0305", "BERTH0306", "BERTH0401", "BERTH1101", "BERTH1201", "BERTH1202", "BERTH1203", "BERTH1204"]
    codes += ["BERTH1205", "BERTH1206", "BERTH1207", "BERTH1207"]
    problems = tuple(Finding("c", Severity.error, f"Pod {code}", "is denied", code=code) for code in codes)
    status = replace(STATUS, diagnosis=Diagnosis(NOW, {Severity.error: 12}, "berth doctor", problems))
    assert text_of(status)[-2:] == ["  and 2 more problems: --output wide shows all", "  berth doctor"]


def test_wide_has_the_objects_behind_the_rows() -> None:
    line = next(line for line in text_of(STATUS, "wide") if "webhook" in line)
    assert line.split() == ["webhook", "Deployment", "berth-webhook", "2/2", "-", "0.1.0"]


def test_zeros_that_say_nothing_are_left_out() -> None:
    found = Found({"attachments": 2, "unoffered": 0})
    assert text_of(Status(NOW, "n", "r", ((ATTACHMENTS_SECTION, found),)))[2] == "ATTACHMENTS: 2 attachments"


def test_foreign_text_does_not_command_the_terminal() -> None:
    bad = "a\x1b[2Jb\u202ec\x9bd\ne"
    found = Found({}, (Row({"reason": bad, "count": 1, "example": bad, "message": bad}),), unread=(bad,))
    for form in ("text", "json"):
        for line in render(Status(NOW, "n", "r", ((COMPANIONS_SECTION, found),)), form):  # type: ignore[arg-type]  # one of the two
            assert line.text.isprintable()
    assert unreachable(Away(NOW, bad)).text.isprintable()
    assert compact(Away(NOW, bad)).text.isprintable()


def test_the_worst_items_are_on_the_screen_and_all_in_json() -> None:
    fine = [Row({"reason": f"r{number}", "count": 1, "example": "e"}) for number in range(40)]
    found = Found({}, (*fine, Row({"reason": "bad", "count": 1, "example": "e"}, Severity.error)))
    status = Status(NOW, "n", "r", ((COMPANIONS_SECTION, found),))
    lines = text_of(status)
    assert lines[4].split()[0] == "bad"
    assert f"  and {41 - ROWS} more: --output wide shows all" in lines
    assert len(text_of(status, "wide")) == len(lines) + 20
    document = json.loads("\n".join(text for text, _ in render(status, "json")))
    assert len(document["sections"]["companions"]["items"]) == 41


def test_what_could_not_be_read_is_said_and_is_a_warning() -> None:
    unread = ("not checked: you have no right to list nodes in the whole cluster",)
    found = Found({"attachments": 3, "unoffered": None}, (), unread)
    status = Status(NOW, "n", "r", ((ATTACHMENTS_SECTION, found),))
    assert text_of(status)[2:4] == [
        "ATTACHMENTS: 3 attachments, not known how many of them for a device that nothing",
        "offers",
    ]
    assert text_of(status)[4] == f"  {unread[0]}"
    assert json.loads(compact(status).text)["sections"]["attachments"]["totals"]["unoffered"] is None
    assert status.severity is Severity.warning


def test_a_section_without_items_says_what_it_may_mean() -> None:
    status = Status(NOW, "n", "r", ((roles.SECTION, Found({"roles": 0, "ready": 0})),))
    assert text_of(status)[2:4] == ["ROLES: 0 roles, 0 ready", f"  {roles.SECTION.empty}"]


def test_before_the_doctor_has_ended() -> None:
    status = replace(STATUS, diagnosis=None)
    assert text_of(status)[-1] == "DOCTOR: examines the cluster"
    assert json.loads(compact(status).text)["doctor"] is None


def test_what_a_terminal_has_no_room_for_is_counted() -> None:
    lines = list(render(STATUS, "text"))
    assert list(fitted(lines, len(lines))) == lines
    assert [line.text for line in fitted(lines, 4)][-1] == f"… {len(lines) - 3} more lines: enlarge the terminal"
    assert len(fitted(lines, 4)) == 4


def test_times_alone_are_no_change() -> None:
    def after(seconds: int, agent: str = "CertificateRefused") -> Status:
        then = NOW + timedelta(seconds=seconds)
        (row,) = TENANTS.rows
        rows = (replace(row, values={**row.values, "lastContact": then.isoformat(), "agent": agent}),)
        sections = ((roles.SECTION, ROLES), (TENANTS_SECTION, replace(TENANTS, rows=rows)))
        return Status(then, "berth-system", "berth", sections, replace(DIAGNOSIS, at=then))

    assert after(0).settled() == after(60).settled()
    assert after(0).settled() != after(60, "AgentConnected").settled()


@pytest.mark.parametrize("severity", [one for one in Severity if one >= Severity.ok])
def test_the_severity_is_that_of_the_worst(severity: Severity) -> None:
    section = Section("x", "X", "", TENANTS_SECTION.read)
    found = Found({}, (Row({}), Row({}, severity)))
    assert Status(NOW, "n", "r", ((section, found),)).severity is severity
    assert Status(NOW, "n", "r", (), Diagnosis(NOW, {Severity.ok: 1, severity: 1}, "c")).severity is severity


def test_sections_and_their_members_have_names_and_meanings() -> None:
    assert len({section.name for section in SECTIONS}) == len(SECTIONS)
    for section in SECTIONS:
        names = [column.name for column in section.columns]
        assert len(set(names)) == len(names)
        assert all(column.text for column in section.columns)
        assert {column.of for column in section.columns} - {""} <= set(names)
        assert section.text.endswith(".")


def test_the_yaml_says_what_the_json_says() -> None:
    whole, first, second = (
        "\n".join(line.text for line in lines)
        for lines in (render(STATUS, "yaml"), one_of_many(STATUS, "yaml"), one_of_many(Away(NOW, "no answer"), "yaml"))
    )
    document = json.loads(compact(STATUS).text)
    assert yaml.safe_load(whole) == document
    assert list(yaml.safe_load_all(f"{first}\n{second}")) == [
        document,
        {"at": "2026-01-31T12:00:00Z", "error": "no answer"},
    ]


def test_the_screen_of_a_namespace_says_on_one_line_what_it_leaves_out() -> None:
    status = replace(
        STATUS, sections=(), scope="mine", left_out=(roles.SECTION, TENANTS_SECTION), beyond=("list nodes",)
    )
    assert text_of(status) == [
        "Namespace mine: 2026-01-31T12:00:00Z",
        "",
        "DOCTOR: 1 error, 2 warnings, 9 ok",
        "  berth doctor --berth-namespace berth-system --release-name berth",
        "left out, for the whole cluster: roles, tenants. No right to list nodes",
    ]
