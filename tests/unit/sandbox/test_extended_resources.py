"""The claim for extended resources of a Pod. Expected objects are those of a kube-scheduler 1.36 for the same Pods."""

from __future__ import annotations

from typing import Any

from app.devtools.sandbox.standins.devices.extended import serving_classes, special_claim
from app.kube.resources import IMPLICIT_PREFIX
from tests.support.devices import DRIVER, FOO, container, device_class

JSON = dict[str, Any]
PLAIN = f"{IMPLICIT_PREFIX}plain.example.com"
CLASSES = {FOO: DRIVER, PLAIN: "plain.example.com"}


def special(containers: list[JSON], inits: list[JSON] | None = None) -> tuple[list[tuple[str, str, int]], list[JSON]]:
    found = special_claim({"spec": {"containers": containers, "initContainers": inits or []}}, CLASSES)
    asked = [(one["name"], one["exactly"]) for one in found.requests]
    assert all(one["allocationMode"] == "ExactCount" for _, one in asked)
    return [(name, one["deviceClassName"], one["count"]) for name, one in asked], found.mappings


def mapped(*triples: tuple[str, str, str]) -> list[JSON]:
    return [
        {"containerName": name, "resourceName": resource, "requestName": request} for name, resource, request in triples
    ]


def test_each_container_has_a_request_for_each_resource() -> None:
    both = container("a", 2)
    both["resources"]["limits"][PLAIN] = "1"
    requests, mappings = special([both, container("b", 1)], [container("i", 1)])
    assert requests == [
        ("container-1-request-0", "plain.example.com", 1),
        ("container-1-request-1", DRIVER, 2),
        ("container-2-request-0", DRIVER, 1),
    ]
    assert mappings == mapped(
        ("a", PLAIN, "container-1-request-0"),
        ("a", FOO, "container-1-request-1"),
        ("b", FOO, "container-2-request-0"),
        ("i", FOO, "container-1-request-1"),
    )


def test_a_sidecar_is_a_container_that_lasts() -> None:
    sidecar = container("zi", 1, restartPolicy="Always")
    requests, mappings = special([container("z", 1), container("b")], [container("0i", 2), sidecar])
    assert requests == [("container-1-request-0", DRIVER, 1), ("container-2-request-0", DRIVER, 1)]
    assert mappings == mapped(
        ("zi", FOO, "container-1-request-0"),
        ("z", FOO, "container-2-request-0"),
        ("0i", FOO, "container-1-request-0"),
        ("0i", FOO, "container-2-request-0"),
    )


def test_the_init_container_that_needs_most_has_what_is_lacking() -> None:
    requests, mappings = special([container("z", 1)], [container("i0", 2), container("i1", 4)])
    assert requests == [("container-1-request-0", DRIVER, 3), ("container-2-request-0", DRIVER, 1)]
    assert mappings == mapped(
        ("z", FOO, "container-2-request-0"),
        ("i0", FOO, "container-2-request-0"),
        ("i0", FOO, "container-1-request-0"),
        ("i1", FOO, "container-2-request-0"),
        ("i1", FOO, "container-1-request-0"),
    )


def test_what_no_class_serves_is_left_out() -> None:
    found = special_claim({"spec": {"containers": [container("a", 1)]}}, {})
    assert (found.requests, found.mappings) == ([], [])


def test_the_newest_class_serves_a_resource() -> None:
    made = [(device_class("old", extended=FOO), "2026-01-01"), (device_class("new", extended=FOO), "2026-02-01")]
    made.append((device_class("also-new", extended=FOO), "2026-02-01"))
    classes = [{**body, "metadata": {**body["metadata"], "creationTimestamp": at}} for body, at in made]
    assert serving_classes(classes) == {
        FOO: "also-new",
        f"{IMPLICIT_PREFIX}old": "old",
        f"{IMPLICIT_PREFIX}new": "new",
        f"{IMPLICIT_PREFIX}also-new": "also-new",
    }
