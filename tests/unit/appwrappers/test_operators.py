"""Admission refuses what the operators of JobSet and Kubeflow refuse: `goldens/operators.json` has their answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.appwrappers.admission.components import component_problems
from app.wire import JSON
from tests.support.appwrappers import pod
from tests.support.operator_cases import CASES, KUBEFLOW, entry, jobs, kubeflow, role, rules
from tests.support.paths import ROOT

OPERATORS: JSON = json.loads((ROOT / "tests" / "unit" / "appwrappers" / "goldens" / "operators.json").read_text())
WARNED = {
    "PyTorchJob: a Master without a number",
    "PyTorchJob: a role in lower case",
    "PyTorchJob: no Pod of a Worker",
    "PyTorchJob: elastic without Workers",
    "PyTorchJob: elastic without roles",
    "PyTorchJob: by another",
    "XGBoostJob: a Master without a number",
    "XGBoostJob: a role in lower case",
    "JobSet: the action RestartJob",
    "JobSet: restarts in place",
}
"""Older releases, and those with a feature gate, take them."""
ELSEWHERE = {"JobSet: by one with a path of its own", "PyTorchJob: by MultiKueue"}
"""Another controller makes their Pods: there is a warning of that."""


def looked_at(obj: Any) -> tuple[list[str], list[str]]:
    """Problems and warnings."""
    warnings: list[str] = []
    spec = {"components": [{"template": obj}, {"template": pod("p")}]}
    problems = list(component_problems(spec, name="w", namespace="ns", most=18, warnings=warnings))
    return problems, warnings


def test_each_case_has_an_answer() -> None:
    assert OPERATORS["answers"].keys() == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_what_an_operator_refuses_is_refused_or_warned_of_and_nothing_else(name: str) -> None:
    """Each problem names a field of the object."""
    problems, warnings = looked_at(CASES[name])
    answer = OPERATORS["answers"][name]
    assert bool(problems) == (bool(answer) and name not in WARNED), (problems, answer)
    assert bool(warnings) == (name in WARNED | ELSEWHERE), warnings
    assert all(line.startswith("spec.components") for line in (*problems, *warnings))


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (
            kubeflow("PyTorchJob", Master=role("main")),
            "spec.pytorchReplicaSpecs.Master.template.spec.containers: want one with the name 'pytorch', got 'main'",
        ),
        (kubeflow("PyTorchJob", Master=2), "spec.pytorchReplicaSpecs.Master.replicas: want 1, got 2"),
        (
            jobs(entry(), successPolicy={"operator": "All", "targetReplicatedJobs": ["x"]}),
            "spec.successPolicy.targetReplicatedJobs: want the name of an entry in replicatedJobs, got 'x'",
        ),
        (
            rules({}, {}),
            "spec.failurePolicy.rules[1].name: an earlier rule is called 'a': want another name",
        ),
    ],
)
def test_a_problem_says_what_would_be_right(obj: JSON, message: str) -> None:
    assert looked_at(obj)[0] == [f"spec.components[0].template.{message}"]


def test_an_entry_that_waits_for_itself_is_refused() -> None:
    """JobSet takes it, and never starts it."""
    obj = jobs(entry(), entry(dependsOn=[{"name": "r1", "status": "Ready"}]))
    (problem,) = looked_at(obj)[0]
    assert problem.endswith(
        "replicatedJobs[1].dependsOn: want the name of an earlier entry in replicatedJobs, got 'r1'"
    )


@pytest.mark.parametrize(
    ("roles", "problem"),
    [
        ({"Launcher": role("any"), "Worker": role("any", None)}, ""),
        ({"Worker": role("any")}, "Launcher: want it: there is no MPIJob without"),
        ({}, "Launcher: want it: there is no MPIJob without"),
        ({"Launcher": role("any", 2)}, "Launcher.replicas: want 1, got 2"),
        ({"Launcher": role("any"), "worker": role("any")}, "worker: want Launcher or Worker as the name of a role"),
        ({"Launcher": None}, "Launcher: want it: there is no MPIJob without"),
        ({"Launcher": {"template": {"spec": {}}}}, "Launcher.template.spec.containers: want a container"),
        ({"Launcher": role("")}, "Launcher.template.spec.containers[0].name: want it"),
    ],
)
def test_an_mpi_job_is_what_its_controller_takes(roles: JSON, problem: str) -> None:
    """No webhook looks at it: the controller makes nothing of another (`ValidateV1MpiJobSpec`)."""
    mpi = kubeflow("TFJob") | {"kind": "MPIJob", "spec": {"mpiReplicaSpecs": roles}}
    problems, warnings = looked_at(mpi)
    assert warnings == []
    if problem:
        assert problems[0].startswith(f"spec.components[0].template.spec.mpiReplicaSpecs.{problem}")
    else:
        assert problems == []
    elsewhere = mpi["spec"] | {"runPolicy": {"managedBy": "kubeflow.org/mpi-operator"}}
    assert looked_at(mpi | {"spec": elsewhere}) == ([], [])


def test_the_name_of_a_role_costs_no_more_than_its_beginning() -> None:
    containers = [{"name": f"c{number}"} for number in range(300)]
    obj = kubeflow("TFJob", **{"r" * 1_000_000: {"template": {"spec": {"containers": containers}}}})
    problems, _ = looked_at(obj)
    assert len(problems) == 256
    assert sum(map(len, problems)) < 100_000
    assert all(problem.isprintable() for problem in looked_at(kubeflow("JAXJob", **{"a\nb\x1b[31m": 1}))[0])


def test_numbers_of_any_length_get_an_answer() -> None:
    for number in (10**2200, -(10**4300 - 1)):
        looked_at(jobs(entry(replicas=number, spec={"completions": number, "parallelism": number})))
        looked_at(jobs(entry(spec={"completions": number}), coordinator={"replicatedJob": "r0"}))


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        (CASES["JobSet: too many Pods"], "spec.replicatedJobs[0].replicas"),
        (CASES["JobSet: by one without a domain"], "spec.managedBy"),
        (jobs(managedBy="-/a"), "spec.managedBy"),
        (CASES["JobSet: a coordinator with a long address"], "spec.coordinator"),
        (CASES["JobSet: a coordinator in a Pod too many"], "spec.coordinator.podIndex"),
        (CASES["JobSet: a coordinator of an entry without Jobs"], "spec.coordinator.jobIndex"),
        (CASES["JobSet: a coordinator without an entry"], "spec.coordinator.replicatedJob"),
        (CASES["JobSet: after one twice"], "spec.replicatedJobs[1].dependsOn[1].name"),
        (CASES["JobSet: large, and after none that there is"], "spec.replicatedJobs[1].dependsOn"),
        (CASES["PyTorchJob: processes twice"], "spec.elasticPolicy.nProcPerNode"),
        (CASES["PyTorchJob: a generated name with a digit first"], "metadata.generateName"),
        (CASES["XGBoostJob: no roles"], "spec.xgbReplicaSpecs.Master"),
        (kubeflow("JAXJob", worker=1), "spec.jaxReplicaSpecs.worker"),
    ],
)
def test_a_problem_begins_with_its_field(obj: JSON, field: str) -> None:
    assert f"spec.components[0].template.{field}" in {problem.partition(": ")[0] for problem in looked_at(obj)[0]}


def test_each_gate_is_named() -> None:
    for action in ("RestartJob", "RestartJobAndIgnoreMaxRestarts"):
        assert "its feature gate RestartJob is off" in looked_at(rules({"action": action}))[1][0]
    other = kubeflow("PyTorchJob", Master=2) | {"apiVersion": "kubeflow.org/v2"}
    assert "pytorchReplicaSpecs.Master.replicas" not in str(looked_at(other))


@pytest.mark.parametrize("junk", [None, 1, "x", [], [1], {"a": 1}, {"Master": None}, {"Master": []}])
def test_any_json_gets_an_answer(junk: Any) -> None:
    """Texts that say what is wrong, and nothing else."""
    objects = [
        *(kubeflow(kind) | {"spec": {field: junk}} for kind, (field, _) in KUBEFLOW.items()),
        *(
            kubeflow(kind) | {"spec": {field: {"Worker": junk, "Master": {"template": junk}}}}
            for kind, (field, _) in KUBEFLOW.items()
        ),
        *(
            jobs(**{field: junk})
            for field in ("replicatedJobs", "failurePolicy", "successPolicy", "network", "managedBy")
        ),
        *(jobs(**{field: junk}) for field in ("startupPolicy", "coordinator", "ttlSecondsAfterFinished")),
        jobs(failurePolicy={"rules": [junk], "restartStrategy": junk}),
        jobs(entry(), entry(dependsOn=junk, groupName=junk, replicas=junk)),
        jobs(entry(), entry(dependsOn=[junk, {"name": junk, "status": junk}])),
        jobs(coordinator={"replicatedJob": junk, "jobIndex": junk, "podIndex": junk}),
    ]
    for obj in objects:
        assert all(isinstance(line, str) and line for lines in looked_at(obj) for line in lines)
