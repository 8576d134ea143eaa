"""Admission refuses what the operators of JobSet and Kubeflow refuse: `goldens/operators.json` has their answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.appwrappers.admission.components import component_problems
from app.wire import JSON
from tests.support.operator_cases import CASES, entry, jobs, kubeflow, role, rules
from tests.support.paths import ROOT

OPERATORS: JSON = json.loads((ROOT / "tests" / "unit" / "appwrappers" / "goldens" / "operators.json").read_text())
WARNED = {
    "PyTorchJob: a Master without a number",
    "PyTorchJob: a role in lower case",
    "XGBoostJob: a Master without a number",
    "JobSet: the action RestartJob",
    "JobSet: restarts in place",
}
"""Older releases, and those with a feature gate, take them."""
ELSEWHERE = {"JobSet: by one with a path of its own", "PyTorchJob: by MultiKueue"}
"""Another controller makes their Pods: there is a warning of that."""
BESIDE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def looked_at(obj: Any) -> tuple[list[str], list[str]]:
    """Problems and warnings."""
    warnings: list[str] = []
    spec = {"components": [{"template": obj}, {"template": BESIDE}]}
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
            "spec.pytorchReplicaSpecs.Master.template.spec.containers: want one with the name 'pytorch', got main",
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


def test_an_mpi_job_has_one_launcher() -> None:
    """No webhook looks at it: the controller makes nothing of another."""
    obj = kubeflow("PyTorchJob", Worker=1)
    roles = obj["spec"]["pytorchReplicaSpecs"]
    mpi = obj | {"kind": "MPIJob", "spec": {"mpiReplicaSpecs": roles}}
    assert looked_at(mpi)[0] == [
        "spec.components[0].template.spec.mpiReplicaSpecs.Launcher: want it: there is no MPIJob without"
    ]
    complete = mpi | {"spec": {"mpiReplicaSpecs": {"worker": roles["Worker"], "Launcher": role("any")}}}
    assert looked_at(complete) == ([], [])


@pytest.mark.parametrize("junk", [None, 1, "x", [], [1], {"a": 1}, {"Master": None}, {"Master": []}])
def test_any_json_gets_an_answer(junk: Any) -> None:
    for kind, field in (("PyTorchJob", "pytorchReplicaSpecs"), ("JobSet", "replicatedJobs"), ("JobSet", "coordinator")):
        obj = kubeflow("PyTorchJob") if kind == "PyTorchJob" else jobs()
        looked_at(obj | {"spec": obj["spec"] | {field: junk}})
    for field in ("failurePolicy", "successPolicy", "network", "managedBy", "startupPolicy"):
        looked_at(jobs(**{field: junk}))
        looked_at(jobs(failurePolicy={"rules": [junk], "restartStrategy": junk}))
        looked_at(jobs(entry(dependsOn=junk, groupName=junk, replicas=junk)))
