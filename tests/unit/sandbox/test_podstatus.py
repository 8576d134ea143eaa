"""The status of a Pod whose containers end and begin again, step by step."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.devtools.sandbox.standins.containerstates import backoff
from app.devtools.sandbox.standins.podstatus import is_reported, next_step, pod_status

JSON = dict[str, Any]
START = datetime(2026, 1, 1, tzinfo=UTC)


def pod(*commands: list[str], policy: str = "Never", **spec: Any) -> JSON:
    containers = [{"name": f"c{number}", "image": "busybox", "command": one} for number, one in enumerate(commands)]
    return {"metadata": {"name": "p"}, "spec": {"restartPolicy": policy, "containers": containers, **spec}}


def at(obj: JSON, seconds: float) -> JSON:
    """The Pod with the status that is written so many seconds after the start."""
    now = START + timedelta(seconds=seconds)
    return {**obj, "status": pod_status(obj, now=now, pod_ip="10.0.0.2", host_ip="10.0.0.1")}


def due(obj: JSON) -> float | None:
    moment = next_step(obj, obj["status"])
    return None if moment is None else (moment - START).total_seconds()


def first(obj: JSON) -> JSON:
    found: JSON = obj["status"]["containerStatuses"][0]
    return found


def said(obj: JSON) -> dict[str, tuple[str, Any]]:
    return {one["type"]: (one["status"], one.get("reason")) for one in obj["status"]["conditions"]}


def test_a_container_ends_after_its_time() -> None:
    running = at(pod(["sleep", "5"]), 0)
    assert (running["status"]["phase"], due(running)) == ("Running", 6)
    assert is_reported(running, at(running, 5)["status"])
    ended = at(running, 6)
    assert ended["status"]["phase"] == "Succeeded"
    assert first(ended)["state"] == {
        "terminated": {
            "exitCode": 0,
            "reason": "Completed",
            "startedAt": "2026-01-01T00:00:00Z",
            "finishedAt": "2026-01-01T00:00:06Z",
        }
    }
    assert said(ended)["Ready"] == said(ended)["ContainersReady"] == ("False", "PodCompleted")
    assert due(ended) is None


def test_a_container_that_fails_fails_its_pod() -> None:
    ended = at(at(pod(["sh", "-c", "exit 3"]), 0), 0)
    assert ended["status"]["phase"] == "Failed"
    assert (first(ended)["state"]["terminated"]["exitCode"], first(ended)["state"]["terminated"]["reason"]) == (
        3,
        "Error",
    )
    assert said(ended)["Ready"] == ("False", "PodFailed")


def test_a_pod_ends_with_its_last_container() -> None:
    """One that is still running keeps the Pod Running, as a kubelet has it; the worst end counts."""
    running = at(at(pod(["false"], ["sleep", "2"], []), 0), 0)
    assert running["status"]["phase"] == "Running"
    assert said(running)["Ready"] == ("False", "ContainersNotReady")
    assert at(at(pod(["false"], ["sleep", "2"]), 0), 3)["status"]["phase"] == "Failed"


def test_no_container_begins_without_a_sandbox() -> None:
    waiting = pod(["sleep", "5"], initContainers=[{"name": "init", "command": ["sleep", "1"]}])
    waiting["metadata"]["generation"] = 3
    status = pod_status(waiting, now=START, pod_ip="", host_ip="10.0.0.1")
    assert (status["phase"], status["observedGeneration"], "podIP" in status) == ("Pending", 3, False)
    states = [one["state"] for field in ("initContainerStatuses", "containerStatuses") for one in status[field]]
    assert states == [{"waiting": {"reason": "PodInitializing"}}] * 2
    assert {one["observedGeneration"] for one in status["conditions"]} == {3}
    assert said({"status": status})["PodReadyToStartContainers"] == ("False", "PodSandboxNotReady")
    begun = at({**waiting, "status": status}, 0)
    assert inits(begun) == ["running"]
    assert said(begun)["PodReadyToStartContainers"] == ("True", None)
    assert not is_reported({**waiting, "metadata": {"name": "p", "generation": 4}, "status": status}, begun["status"])


def test_unknown_commands_run_on() -> None:
    running = at(at(pod(["nginx"]), 0), 10_000)
    assert (running["status"]["phase"], due(running)) == ("Running", None)
    assert said(running)["Ready"] == ("True", None)


@pytest.mark.parametrize(("policy", "command"), [("Always", ["true"]), ("OnFailure", ["false"])])
def test_what_ends_is_started_again(policy: str, command: list[str]) -> None:
    """At once the first time, then after ten seconds, in which it says why it waits."""
    ended = at(at(pod(command, policy=policy), 0), 0)
    assert ended["status"]["phase"] == "Running"
    assert "terminated" in first(ended)["state"]
    again = at(ended, 0)
    assert "running" in first(again)["state"]
    assert (first(again)["restartCount"], first(again)["ready"]) == (1, True)
    assert first(again)["lastState"]["terminated"] == first(ended)["state"]["terminated"]
    waiting = at(at(again, 0), 0)
    assert first(waiting)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert "back-off 10s restarting failed container=c0" in first(waiting)["state"]["waiting"]["message"]
    assert (first(waiting)["restartCount"], first(waiting)["ready"], due(waiting)) == (1, False, 11)
    assert said(waiting)["Ready"] == ("False", "ContainersNotReady")
    assert is_reported(waiting, at(waiting, 10)["status"])
    third = at(waiting, 11)
    assert ("running" in first(third)["state"], first(third)["restartCount"]) == (True, 2)


def test_success_is_not_repeated_on_failure_alone() -> None:
    assert at(at(pod(["true"], policy="OnFailure"), 0), 0)["status"]["phase"] == "Succeeded"


def test_the_backoff_doubles_up_to_five_minutes() -> None:
    assert [backoff(count) for count in range(8)] == [0, 10, 20, 40, 80, 160, 300, 300]
    assert backoff(10_000) == 300


def test_the_annotation_ends_a_pod_whatever_its_command_is() -> None:
    """Also later, while it runs."""
    running = at(pod(["sleep", "inf"]), 0)
    running["metadata"]["annotations"] = {"berth.dev/sandbox-exit": "4"}
    assert first(at(running, 1))["state"]["terminated"]["exitCode"] == 4


def test_init_containers_are_done_and_sidecars_end_with_their_pod() -> None:
    sidecar = {"name": "side", "restartPolicy": "Always"}
    running = at(pod(["sleep", "1"], initContainers=[{"name": "init"}, sidecar]), 0)
    init, side = running["status"]["initContainerStatuses"]
    assert (init["ready"], init["state"]["terminated"]["exitCode"]) == (True, 0)
    assert "running" in side["state"]
    _, side = at(running, 2)["status"]["initContainerStatuses"]
    assert (side["ready"], side["state"]["terminated"]["exitCode"]) == (False, 0)


def inits(obj: JSON) -> list[str]:
    """The state of each init container in one word."""
    return [next(iter(one["state"])) for one in obj["status"]["initContainerStatuses"]]


def initializing(*commands: list[str], policy: str = "Always") -> JSON:
    listed = [{"name": f"i{number}", "command": command} for number, command in enumerate(commands)]
    return pod(["nginx"], policy=policy, initContainers=listed)


def test_init_containers_run_one_after_another() -> None:
    begun = at(initializing(["sleep", "5"], ["sleep", "3"]), 0)
    assert (begun["status"]["phase"], inits(begun), due(begun)) == ("Pending", ["running", "waiting"], 6)
    assert first(begun)["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert said(begun)["Initialized"] == ("False", "ContainersNotInitialized")
    assert said(begun)["Ready"] == ("False", "ContainersNotReady")
    assert is_reported(begun, at(begun, 5)["status"])
    second = at(begun, 6)
    assert (inits(second), due(second)) == (["terminated", "running"], 10)
    running = at(second, 10)
    assert (running["status"]["phase"], inits(running)) == ("Running", ["terminated"] * 2)
    assert (said(running)["Initialized"], said(running)["Ready"]) == (("True", None), ("True", None))
    assert is_reported(running, at(running, 10_000)["status"])


def test_an_init_container_without_an_end_holds_its_pod() -> None:
    stuck = at(at(initializing(["sleep", "INF"]), 0), 10_000)
    assert (stuck["status"]["phase"], inits(stuck), due(stuck)) == ("Pending", ["running"], None)


@pytest.mark.parametrize("policy", ["Always", "OnFailure"])
def test_an_init_container_that_fails_is_tried_again(policy: str) -> None:
    failed = at(at(initializing(["false"], policy=policy), 0), 0)
    assert (failed["status"]["phase"], inits(failed)) == ("Pending", ["terminated"])
    waiting = at(at(at(failed, 0), 0), 0)
    assert (inits(waiting), due(waiting)) == (["waiting"], 11)
    (status,) = waiting["status"]["initContainerStatuses"]
    assert (status["state"]["waiting"]["reason"], status["restartCount"]) == ("CrashLoopBackOff", 1)


def test_an_init_container_that_fails_fails_a_pod_that_is_not_restarted() -> None:
    failed = at(at(initializing(["false"], ["true"], policy="Never"), 0), 0)
    assert (failed["status"]["phase"], inits(failed), due(failed)) == ("Failed", ["terminated", "waiting"], None)
    assert said(failed)["Ready"] == ("False", "PodFailed")


def test_a_sidecar_lets_the_next_begin_and_is_started_again() -> None:
    sidecar = {"name": "side", "restartPolicy": "Always", "command": ["sleep", "1"]}
    begun = at(pod(["nginx"], initContainers=[sidecar, {"name": "i", "command": ["sleep", "9"]}]), 0)
    assert (begun["status"]["phase"], inits(begun), due(begun)) == ("Pending", ["running", "running"], 2)
    again = at(at(begun, 2), 2)
    assert again["status"]["initContainerStatuses"][0]["restartCount"] == 1
    assert at(again, 10)["status"]["phase"] == "Running"


def test_conditions_of_others_are_left_alone() -> None:
    gate = {"conditionType": "example.com/gate"}
    running = at(pod([], readinessGates=[gate]), 0)
    assert said(running)["Ready"] == ("False", "ReadinessGatesNotReady")
    running["status"]["conditions"].append({"type": "example.com/gate", "status": "True"})
    opened = at(running, 1)
    assert said(opened)["Ready"] == ("True", None)
    opened["status"]["conditions"].append({"type": "example.com/gate", "status": "True"})
    assert is_reported(opened, at(opened, 2)["status"])
