"""What an API server refuses of the Pod templates of workloads, and of the numbers of Jobs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.sandbox import Served

JSON = dict[str, Any]
LABELS = {"app": "a"}
ENDLESS = ["deployments", "replicasets", "daemonsets", "statefulsets"]
ANY = '"Always", "OnFailure", "Never"'
REQUIRED = 'Required value: valid values: "OnFailure", "Never"'
UNKNOWN = 'Unsupported value: "Sometimes": supported values: '
NEGATIVE = "Invalid value: -1: must be greater than or equal to 0"


def refusal(served: Served, namespace: str, plural: str, pod: JSON, **job: Any) -> str:
    """What is wrong with a workload of this Pod; empty where it is accepted."""
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}], **pod}}
    spec: JSON = {"template": template, **job}
    if plural == "cronjobs":
        spec = {"schedule": "@daily", "jobTemplate": {"spec": spec}}
    elif plural != "jobs":
        spec["selector"] = {"matchLabels": LABELS}
    group = "batch" if plural in ("jobs", "cronjobs") else "apps"
    path = f"/apis/{group}/v1/namespaces/{namespace}/{plural}?dryRun=All"
    answer = served.request("POST", path, {"metadata": {"name": "w"}, "spec": spec})
    assert answer.status in (201, 422), answer.body
    return "" if answer.status == 201 else str(answer.body["message"]).partition(" is invalid: ")[2]


@pytest.mark.parametrize(
    ("policy", "wrong"),
    [
        ({}, REQUIRED),
        ({"restartPolicy": "Always"}, REQUIRED),
        ({"restartPolicy": "OnFailure"}, ""),
        ({"restartPolicy": "Never", "activeDeadlineSeconds": 5}, ""),
        ({"restartPolicy": "Sometimes"}, (f"{UNKNOWN}{ANY}", f'{UNKNOWN}"OnFailure", "Never"')),
    ],
)
@pytest.mark.parametrize(("plural", "at"), [("jobs", ""), ("cronjobs", "jobTemplate.spec.")])
def test_a_job_says_whether_its_pods_are_restarted(
    served: Served, namespace: str, plural: str, at: str, policy: JSON, wrong: str | tuple[str, str]
) -> None:
    path = f"spec.{at}template.spec.restartPolicy: "
    texts = [f"{path}{text}" for text in ([wrong] if isinstance(wrong, str) else wrong) if text]
    expected = f"[{', '.join(texts)}]" if len(texts) > 1 else "".join(texts)
    assert refusal(served, namespace, plural, policy) == expected


@pytest.mark.parametrize("plural", ENDLESS)
def test_what_has_no_end_restarts_its_pods_always(served: Served, namespace: str, plural: str) -> None:
    path = "spec.template.spec.restartPolicy: "
    assert refusal(served, namespace, plural, {}) == ""
    assert refusal(served, namespace, plural, {"restartPolicy": "Always"}) == ""
    for policy in ("OnFailure", "Never"):
        wrong = f'{path}Unsupported value: "{policy}": supported values: "Always"'
        assert refusal(served, namespace, plural, {"restartPolicy": policy}) == wrong
    both = f'[{path}{UNKNOWN}{ANY}, {path}{UNKNOWN}"Always"]'
    assert refusal(served, namespace, plural, {"restartPolicy": "Sometimes"}) == both
    kind = {"daemonsets": "DaemonSet", "statefulsets": "StatefulSet"}.get(plural, "ReplicaSet")
    wrong = f"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in {kind} is not Supported"
    assert refusal(served, namespace, plural, {"activeDeadlineSeconds": 5}) == wrong


@pytest.mark.parametrize(
    ("job", "wrong"),
    [
        *(({field: -1}, f"spec.{field}: {NEGATIVE}") for field in
          ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")),
        ({"parallelism": 0, "backoffLimit": 0, "ttlSecondsAfterFinished": 0, "suspend": True}, ""),
        ({"completionMode": "X"}, 'spec.completionMode: Unsupported value: "X": supported values: "NonIndexed", "Indexed"'),
        ({"podReplacementPolicy": "X"},
         'spec.podReplacementPolicy: Unsupported value: "X": supported values: "Failed", "TerminatingOrFailed"'),
    ],
)  # fmt: skip
def test_the_numbers_of_a_job(served: Served, namespace: str, job: JSON, wrong: str) -> None:
    assert refusal(served, namespace, "jobs", {"restartPolicy": "Never"}, **job) == wrong
