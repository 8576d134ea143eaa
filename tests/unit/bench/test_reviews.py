"""The loads are what they are called: no two distinct reviews are alike, and replicas are but for three fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import reviews
from bench.reviews import bodies, pod_of, prepare

COUNT = 50


def token_of(pod: dict[str, Any]) -> str:
    (name,) = (each["name"] for each in pod["spec"]["volumes"] if each["name"].startswith("kube-api-access-"))
    assert all(name in [mount["name"] for mount in each["volumeMounts"]] for each in containers(pod))
    return name


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def normalized(body: bytes) -> str:
    """Without what differs among replicas."""
    review = json.loads(body)
    pod = review["request"]["object"]
    name, uid, token = pod["metadata"]["name"], review["request"]["uid"], token_of(pod)
    assert review["request"]["name"] == name
    return body.decode().replace(name, "NAME").replace(uid, "UID").replace(token, "TOKEN")


@pytest.mark.parametrize("name", reviews.NAMES)
@pytest.mark.parametrize("kind", reviews.KINDS)
def test_each_review_has_a_name_a_uid_and_a_token_volume_of_its_own(name: str, kind: reviews.Kind) -> None:
    made = list(bodies(name, kind, COUNT))
    assert len({len(body) for body in made}) == 1  # so the answers of all have one size, too
    pods = [pod_of(body) for body in made]
    assert len({pod["metadata"]["name"] for pod in pods}) == COUNT
    assert len({json.loads(body)["request"]["uid"] for body in made}) == COUNT
    assert len({token_of(pod) for pod in pods}) == COUNT


@pytest.mark.parametrize("name", reviews.NAMES)
def test_replicas_are_equal_otherwise(name: str) -> None:
    assert len({normalized(body) for body in bodies(name, "replicas", COUNT)}) == 1


@pytest.mark.parametrize("name", reviews.NAMES)
def test_distinct_reviews_differ_in_every_container(name: str) -> None:
    made = list(bodies(name, "distinct", COUNT))
    assert len({normalized(body) for body in made}) == COUNT
    for field in ("name", "image"):
        values = [tuple(each[field] for each in containers(pod_of(body))) for body in made]
        assert all(len(set(column)) == COUNT for column in zip(*values, strict=True))
    # managedFields name the containers that there are.
    managed = pod_of(made[0])["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:containers"]
    assert {json.loads(key.removeprefix("k:"))["name"] for key in managed} == {
        each["name"] for each in pod_of(made[0])["spec"]["containers"]
    }


@pytest.mark.parametrize("name", reviews.NAMES)
def test_the_rest_is_what_was_recorded(name: str) -> None:
    recorded, made = pod_of(reviews.recorded(name)), pod_of(next(bodies(name, "replicas", 1)))
    token = token_of(made)
    made["metadata"]["name"] = recorded["metadata"]["name"]
    made["spec"]["volumes"] = [volume for volume in made["spec"]["volumes"] if volume["name"] != token]
    for container in containers(made):
        container["volumeMounts"] = [mount for mount in container["volumeMounts"] if mount["name"] != token]
    for added in ("serviceAccount", "serviceAccountName"):
        made["spec"].pop(added), recorded["spec"].pop(added, None)
    for pod in (made, recorded):
        for holder in (pod["spec"], *containers(pod)):
            for field in ("volumes", "volumeMounts"):
                holder.setdefault(field, [])
    assert made == recorded


def test_a_file_has_one_review_a_line_and_is_the_same_each_time(tmp_path: Path) -> None:
    load = prepare("rich", "distinct", tmp_path, count=3)
    first = load.file.read_bytes()
    assert first.splitlines() == load.first(3) == list(bodies("rich", "distinct", 3))
    assert prepare("rich", "distinct", tmp_path, count=3).file.read_bytes() == first
