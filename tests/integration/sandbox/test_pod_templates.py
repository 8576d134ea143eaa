"""Pod templates: a Workload has each as the API server stores it in a Job, for Kueue makes podSets of what is stored."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.kueue_cases import TEMPLATES, job, pod_sets_of_object

DOUBLED = "environment variables twice"


@pytest.mark.parametrize("name", [name for name in TEMPLATES if name != DOUBLED])
def test_a_workload_has_the_template_that_a_job_has(served: Any, namespace: str, name: str) -> None:
    stored = stored_template(served, namespace, name)
    (pod_set,) = pod_sets_of_object(job(TEMPLATES[name]))
    assert pod_set["template"]["spec"] == stored["spec"]
    assert pod_set["template"]["metadata"].get("annotations") == stored["metadata"].get("annotations")


def test_a_workload_has_the_last_of_two_variables(served: Any, namespace: str) -> None:
    """The definition of Workloads takes no two of one name; the last one is what a container gets."""
    stored = stored_template(served, namespace, DOUBLED)["spec"]["containers"][0]["env"]
    (pod_set,) = pod_sets_of_object(job(TEMPLATES[DOUBLED]))
    assert [variable["name"] for variable in stored] == ["A", "B", "A"]
    assert pod_set["template"]["spec"]["containers"][0]["env"] == [stored[2], stored[1]]


def stored_template(served: Any, namespace: str, name: str) -> Any:
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs?dryRun=All&fieldValidation=Strict"
    answer = served.request("POST", path, job(TEMPLATES[name]))
    assert answer.status == 201, answer.body
    return answer.body["spec"]["template"]
