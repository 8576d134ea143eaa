"""Bodies of reviews: whatever they hold, they are decided or refused, and the next one is answered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.integration.hostile.conftest import Victim
from tests.integration.hostile.generators import anything, broken, cases, changed, networks, numbers, texts
from tests.support.webhook_process import load_review

LIMIT = 7 * 1024 * 1024
RICH = load_review("rich")
DEMO = load_review("webhook-demo")
NETWORKS = "k8s.v1.cni.cncf.io/networks"


def demo(**parts: Any) -> dict[str, Any]:
    asked = load_review("webhook-demo")
    asked["request"] |= parts
    return asked


def dumped(review: dict[str, Any], **raw: str) -> bytes:
    """The review as JSON, with `"@name"` replaced by raw text."""
    text = json.dumps(review)
    for name, piece in raw.items():
        assert f'"@{name}"' in text
        text = text.replace(f'"@{name}"', piece)
    return text.encode()


@cases(250)
@given(body=st.binary(max_size=400) | anything.map(lambda value: json.dumps(value).encode()))
def test_bytes(victim: Victim, body: bytes) -> None:
    victim.ask(body)


@cases(250)
@given(body=broken(json.dumps(DEMO).encode()))
def test_broken_reviews(victim: Victim, body: bytes) -> None:
    victim.ask(body)


@cases(300)
@given(review=changed(RICH) | changed(DEMO))
def test_reviews_with_odd_values_anywhere(victim: Victim, review: dict[str, Any]) -> None:
    victim.ask_for(review)


@cases(500)
@given(review=changed(RICH, within=("request", "object")) | changed(DEMO, within=("request", "object")))
def test_pods_with_odd_values_anywhere(victim: Victim, review: dict[str, Any]) -> None:
    victim.ask_for(review)


@cases(300)
@given(value=networks, key=st.sampled_from([NETWORKS, NETWORKS, "v1.multus-cni.io/default-network"]))
def test_values_of_the_networks_annotations(victim: Victim, value: str, key: str) -> None:
    asked = demo()
    asked["request"]["object"]["metadata"]["annotations"] = {key: value}
    victim.ask_for(asked)


@cases(200)
@given(parts=st.dictionaries(st.sampled_from(["name", "namespace", "uid", "generateName", "container", "kind"]), texts))
def test_names(victim: Victim, parts: dict[str, str]) -> None:
    asked = demo()
    for field, text in parts.items():
        if field == "container":
            asked["request"]["object"]["spec"]["containers"][0]["name"] = text
        elif field == "generateName":
            asked["request"] |= {"name": ""}
            asked["request"]["object"]["metadata"] |= {"generateName": text}
        elif field == "kind":
            asked["request"]["kind"]["kind"] = text
        else:
            asked["request"][field] = text
    victim.ask_for(asked)


@cases(60)
@given(
    number=numbers.map(json.dumps)
    | st.sampled_from(["1e999999", "-1e-999999", "9" * 4000, "NaN", "Infinity", "01", "1."]),
    place=st.sampled_from(["uid", "spec", "count", "hugepages"]),
)
def test_numbers_where_they_do_not_belong(victim: Victim, number: str, place: str) -> None:
    asked = demo()
    if place == "uid":
        asked["request"]["uid"] = "@n"
    elif place == "spec":
        asked["request"]["object"]["spec"] = "@n"
    else:
        side = {"example.com/foo": "@n"} if place == "count" else {"hugepages-1Gi": "@n"}
        asked["request"]["object"]["spec"]["containers"][0]["resources"] = {"requests": side, "limits": side}
    victim.ask(dumped(asked, n=number))


@pytest.mark.parametrize("levels", [100, 1_000, 10_000, 100_000])
@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
@pytest.mark.parametrize("place", ["object", "spec", "annotations", "oldObject", "options", "unknown"])
def test_deep_json(victim: Victim, levels: int, opened: str, closed: str, place: str) -> None:
    asked = demo()
    match place:
        case "spec":
            asked["request"]["object"]["spec"]["x"] = "@deep"
        case "annotations":
            asked["request"]["object"]["metadata"]["annotations"] = "@deep"
        case _:
            asked["request"][place] = "@deep"
    response = victim.ask(dumped(asked, deep=opened * levels + "1" + closed * levels))
    assert response["uid"] == asked["request"]["uid"]


@pytest.mark.parametrize("place", ["annotations", "labels", "nodeSelector", "containers", "resources", "volumes"])
def test_a_hundred_thousand_keys(victim: Victim, place: str) -> None:
    asked = demo()
    pod = asked["request"]["object"]
    many = {f"example.com/k{number}": "1" for number in range(100_000)}
    match place:
        case "annotations" | "labels":
            pod["metadata"][place] = {**(pod["metadata"].get(place) or {}), **many}
        case "nodeSelector":
            pod["spec"]["nodeSelector"] = many
        case "containers":
            pod["spec"]["containers"] = [{"name": f"c{number}"} for number in range(100_000)]
        case "resources":
            pod["spec"]["containers"][0]["resources"] = {"requests": many, "limits": many}
        case _:
            pod["spec"]["volumes"] = [{"name": f"v{number}", "emptyDir": {}} for number in range(100_000)]
    response = victim.ask_for(asked)
    assert response["uid"] == asked["request"]["uid"]
    if place == "containers":  # each would get a mount: a second in which nobody else is answered
        assert response["status"]["reason"] == "TooManyContainers"


def test_a_quarter_of_a_mebibyte_of_networks(victim: Victim) -> None:
    """As much as the annotations of an object may hold, of each kind of selection."""
    for value in (
        "foo-network," * 21_800 + "foo-network",
        "a" * 262_144,
        json.dumps([{"name": "foo-network"}] * 9_000),
    ):
        asked = demo()
        asked["request"]["object"]["metadata"]["annotations"] = {NETWORKS: value}
        response = victim.ask_for(asked)
        assert response["uid"] == asked["request"]["uid"]


@pytest.mark.parametrize(
    ("once", "twice"),
    [
        ('"request": ', '"request": {"uid": "other"}, "request": '),
        ('"uid": ', '"uid": "other", "uid": '),
        ('"object": ', '"object": {"metadata": 1}, "object": '),
        ('"annotations": ', '"annotations": {"a": "b"}, "annotations": '),
        ('"kind": "AdmissionReview"', '"kind": "Other", "kind": "AdmissionReview"'),
    ],
)
def test_keys_that_come_twice_have_their_last_value(victim: Victim, once: str, twice: str) -> None:
    text = json.dumps(DEMO)
    status, answer = victim.send(text.replace(once, twice, 1).encode())
    assert status == 200
    assert answer["response"]["uid"] == DEMO["request"]["uid"]
    assert "patch" in answer["response"]


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@pytest.mark.parametrize("size", [LIMIT - 1, LIMIT, LIMIT + 1, 2 * LIMIT])
def test_bodies_around_the_limit(victim: Victim, path: str, size: int) -> None:
    body = json.dumps(DEMO).encode()
    status, answer = victim.send(body + b" " * (size - len(body)), path)
    assert status == (200 if size <= LIMIT else 413)
    assert answer["response"]["uid"] == DEMO["request"]["uid"]
