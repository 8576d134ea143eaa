"""The operator's configuration, and what one AppWrapper changes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.appwrappers.options import (
    KNOWN,
    AppWrapperOptions,
    Autopilot,
    FaultTolerance,
    OperatorConfig,
    Taint,
    parse_config,
    read_options,
)

PREFIX = "workload.codeflare.dev.appwrapper/"
HOUR = 3600.0
DEFAULTS = AppWrapperOptions(
    admission_grace=60.0,
    warmup_grace=300.0,
    failure_grace=60.0,
    retry_pause=90.0,
    retry_limit=3,
    deletion_grace=600.0,
    deletion_on_failure=0.0,
    success_ttl=168 * HOUR,
    restart_limit=10,
    retry_reset=0.0,
)


def parsed(text: str) -> OperatorConfig:
    return parse_config({"data": {"config.yaml": text}})


def read(**annotations: str) -> AppWrapperOptions:
    return read_options({PREFIX + name: value for name, value in annotations.items()}, FaultTolerance())


@pytest.mark.parametrize("text", ["", "{}", "appwrapper:", "appwrapper: {faultTolerance: {retryLimit: }}", "other: 1"])
def test_what_is_not_said_has_the_default(text: str) -> None:
    assert parsed(text) == OperatorConfig()


def test_durations_are_nanoseconds_or_texts() -> None:
    found = parsed(
        "appwrapper: {faultTolerance: {admissionGracePeriod: 30000000000, resetPause: 1m30s}}"
    ).fault_tolerance
    assert (found.admission_grace_period, found.retry_pause) == (30.0, 90.0)


def test_every_key_is_read() -> None:
    text = """
appwrapper:
  autopilot: {injectAntiAffinities: false, monitorNodes: false, preferNoScheduleWeight: 7}
  userRBACAdmissionCheck: false
  faultTolerance:
    admissionGracePeriod: 1s
    warmupGracePeriod: 2s
    failureGracePeriod: 3s
    resetPause: 4s
    retryLimit: 5
    deletionGracePeriod: 6s
    gracePeriodCeiling: 7s
    successTTLCeiling: 8s
    restartLimit: -1
    retryResetPeriod: 9s
  schedulerName: s
  defaultQueueName: q
"""
    found = parsed(text)
    assert found.autopilot == Autopilot(inject_anti_affinities=False, monitor_nodes=False, prefer_no_schedule_weight=7)
    assert (found.user_rbac_admission_check, found.scheduler_name, found.default_queue_name) == (False, "s", "q")
    values = tuple(getattr(found.fault_tolerance, name) for name in FaultTolerance.model_fields)
    assert values == (1.0, 2.0, 3.0, 4.0, 5, 6.0, 7.0, 8.0, -1, 9.0)


def test_taints_of_another_resource_are_added_and_those_of_the_default_one_replaced() -> None:
    taint = "[{key: k, value: v, effect: NoExecute}]"
    found = parsed(
        f"appwrapper: {{autopilot: {{resourceTaints: {{example.com/a: {taint}}}}}}}"
    ).autopilot.resource_taints
    assert found["example.com/a"] == (Taint(key="k", value="v", effect="NoExecute"),)
    assert {one.value: one.effect for one in found["nvidia.com/gpu"]} == {
        "WARN": "PreferNoSchedule",
        "TESTING": "NoSchedule",
        "EVICT": "NoExecute",
    }
    assert parsed("appwrapper: {autopilot: {resourceTaints: {nvidia.com/gpu: []}}}").autopilot.resource_taints == {
        "nvidia.com/gpu": ()
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("appwrapper: [", "this is not YAML"),
        ("- a", "appwrapper: want a mapping"),
        ("appwrapper: {faultTolerance: {retryLimit: x}}", "appwrapper.faultTolerance.retryLimit: want a valid"),
        ("appwrapper: {faultTolerance: {resetPause: 2d}}", "faultTolerance.resetPause: want a duration such as 90s or 1h30m, got '2d'"),
        ("appwrapper: {faultTolerance: {resetPause: 1.5}}", "faultTolerance.resetPause: want nanoseconds or a duration"),
        ("appwrapper: {faultTolerance: {resetPause: 25h}}", "resetPause: want at most gracePeriodCeiling, 86400s, got 90000s"),
        ("appwrapper: {faultTolerance: {admissionGracePeriod: 10m}}", "admissionGracePeriod: want at most warmupGracePeriod, 300s"),
        ("appwrapper: {faultTolerance: {successTTLCeiling: 0s}}", "successTTLCeiling: want greater than 0"),
        ("appwrapper: {autopilot: {preferNoScheduleWeight: 101}}", "preferNoScheduleWeight: want less than or"),
        ("appwrapper: {autopilot: {resourceTaints: {a: [{key: k, effect: No}]}}}", "resourceTaints.a.0.effect: want "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_path(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"data\[config.yaml\]: ") as caught:
        parsed(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("config_map", [{}, {"data": None}, {"data": {"a": "", "b": ""}}])
def test_a_config_map_has_one_key(config_map: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="data: want exactly one key"):
        parse_config(config_map)


def test_without_annotations_the_configuration_holds() -> None:
    assert read() == DEFAULTS


def test_annotations_change_it() -> None:
    found = read(
        admissionGracePeriodDuration="1s",
        warmupGracePeriodDuration="2s",
        failureGracePeriodDuration="3s",
        retryPausePeriodDuration="4s",
        retryLimit="5",
        forcefulDeletionGracePeriodDuration="6s",
        deletionOnFailureGracePeriodDuration="7s",
        successTTLDuration="8s",
        restartLimit="9",
        retryResetPeriodDuration="10s",
        terminalExitCodes="3,10",
        retryableExitCodes="42",
    )
    codes = {"terminal_exit_codes": frozenset({3, 10}), "retryable_exit_codes": frozenset({42})}
    assert found == AppWrapperOptions(1.0, 2.0, 3.0, 4.0, 5, 6.0, 7.0, 8.0, 9, 10.0, **codes)
    assert len(KNOWN) == 12


@pytest.mark.parametrize(
    ("name", "value", "field", "used", "wanted"),
    [
        ("retryPausePeriodDuration", "90", "retry_pause", 90.0, "want a duration such as 90s or 1h30m, got '90'; 90s"),
        ("retryPausePeriodDuration", "25h", "retry_pause", 24 * HOUR, "want between 0s and 86400s, got '25h'; 86400s"),
        ("retryPausePeriodDuration", "-1s", "retry_pause", 0.0, "want between 0s and 86400s, got '-1s'; 0s"),
        ("retryLimit", "-1", "retry_limit", 0, "want an integer from 0 to 2147483647, got '-1'; 0"),
        ("retryLimit", "99999999999", "retry_limit", 2**31 - 1, "want an integer from 0 to 2147483647"),
        ("retryLimit", " 1", "retry_limit", 3, "want an integer, got ' 1'; 3"),
        (
            "successTTLDuration",
            "169h",
            "success_ttl",
            168 * HOUR,
            "want more than 0s and less than 604800s, got '169h'",
        ),
        ("successTTLDuration", "0s", "success_ttl", 168 * HOUR, "want more than 0s and less than 604800s, got '0s'"),
        ("terminalExitCodes", "3, 10,abc,42", "terminal_exit_codes", frozenset({3, 42}), "got '3, 10,abc,42'; 3,42"),
    ],
)
def test_what_cannot_be_used_is_told_with_what_is_used(
    name: str, value: str, field: str, used: object, wanted: str
) -> None:
    found = read(**{name: value})
    (problem,) = found.problems
    assert problem.startswith(f"metadata.annotations[{PREFIX}{name}]: ")
    assert wanted in problem
    assert replace(found, problems=()) == replace(DEFAULTS, **{field: used})


@pytest.mark.parametrize(
    ("annotations", "terminal", "retryable"),
    [
        ({}, (), (0, 1, 137)),
        ({"terminalExitCodes": "3"}, (3,), (0, 1)),
        ({"retryableExitCodes": "137"}, (1, 3), (0, 137)),
        ({"retryableExitCodes": "137", "terminalExitCodes": "137"}, (1, 137), (0,)),
        ({"terminalExitCodes": "0"}, (), (0,)),
    ],
)
def test_exit_codes_decide_whether_a_retry_makes_sense(
    annotations: dict[str, str], terminal: tuple[int, ...], retryable: tuple[int, ...]
) -> None:
    found = read(**annotations)
    assert [code for code in terminal if not found.is_terminal(code)] == []
    assert [code for code in retryable if found.is_terminal(code)] == []


def test_a_code_in_both_lists_is_told() -> None:
    found = read(terminalExitCodes="3,10", retryableExitCodes="10,42")
    (problem,) = found.problems
    assert "retryableExitCodes]: want no code that is terminal, got '10,42'; 10 as in" in problem
    assert found.is_terminal(10)
