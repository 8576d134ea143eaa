"""Lists with versions and pages, watches with resume, bookmarks, selectors and 410."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest


def maps(namespace: str, query: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps{query}"


def make(served: Any, namespace: str, name: str, **labels: str) -> dict[str, Any]:
    return served.request("POST", maps(namespace), {"metadata": {"name": name, "labels": labels}}).body


def version(served: Any, namespace: str) -> str:
    return served.request("GET", maps(namespace)).body["metadata"]["resourceVersion"]


def names(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


def need_progress(served: Any, namespace: str) -> None:
    """An etcd before 3.4.25 tells its API server no progress, and such a server sends no bookmarks."""
    query = "?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    (event,) = served.watch(maps(namespace, f"{query}&timeoutSeconds=1"), count=1)
    if event["type"] == "ERROR" and "RequestWatchProgress" in event["object"]["message"]:
        pytest.skip(event["object"]["message"])


def test_watch_resumes_after_the_version_it_was_given(served: Any, namespace: str) -> None:
    make(served, namespace, "before")
    start = version(served, namespace)
    make(served, namespace, "a")
    served.request("DELETE", f"{maps(namespace)}/before")
    events = served.watch(maps(namespace, f"?watch=true&resourceVersion={start}"), count=2)
    assert names(events) == [("ADDED", "a"), ("DELETED", "before")]
    assert int(events[1]["object"]["metadata"]["resourceVersion"]) > int(start)


def test_watch_without_a_version_starts_with_what_exists(served: Any, namespace: str) -> None:
    make(served, namespace, "a")
    make(served, namespace, "b")
    events = served.watch(maps(namespace, "?watch=true"), count=2)
    assert names(events) == [("ADDED", "a"), ("ADDED", "b")]


def test_watch_ends_at_its_timeout(served: Any, namespace: str) -> None:
    need_progress(served, namespace)
    assert served.watch(maps(namespace, "?watch=true&timeoutSeconds=1"), count=5) == []


def test_bookmarks_carry_a_version_that_can_be_resumed_from(served: Any, namespace: str) -> None:
    need_progress(served, namespace)
    start = version(served, namespace)
    served.namespace()  # something else moves the version on
    query = f"?watch=true&allowWatchBookmarks=true&resourceVersion={start}"
    (bookmark,) = served.watch(maps(namespace, query), count=1)
    assert (bookmark["type"], bookmark["object"]["kind"]) == ("BOOKMARK", "ConfigMap")
    resumed = bookmark["object"]["metadata"]["resourceVersion"]
    assert int(resumed) > int(start)
    make(served, namespace, "later")
    events = served.watch(maps(namespace, f"?watch=true&resourceVersion={resumed}"), count=1)
    assert names(events) == [("ADDED", "later")]


def test_initial_events_end_with_a_marked_bookmark(served: Any, namespace: str) -> None:
    need_progress(served, namespace)
    make(served, namespace, "a")
    query = "?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    added, bookmark = served.watch(maps(namespace, query), count=2)
    assert names([added]) == [("ADDED", "a")]
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_watch_from_a_version_that_is_gone_says_410(sandboxed: Any) -> None:
    namespace = sandboxed.namespace()
    start = version(sandboxed, namespace)
    make(sandboxed, namespace, "a")
    sandboxed.inside(sandboxed.cluster.storage.compact)
    make(sandboxed, namespace, "b")
    (event,) = sandboxed.watch(maps(namespace, f"?watch=true&resourceVersion={start}"), count=5)
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["message"].startswith(f"too old resource version: {start}")


def test_list_of_a_version_that_is_gone_says_410(sandboxed: Any) -> None:
    namespace = sandboxed.namespace()
    start = version(sandboxed, namespace)
    make(sandboxed, namespace, "a")
    sandboxed.inside(sandboxed.cluster.storage.compact)
    answer = sandboxed.request("GET", maps(namespace, f"?resourceVersion={start}&resourceVersionMatch=Exact"))
    assert (answer.status, answer.body["reason"]) == (410, "Expired")


def test_version_of_the_future_is_refused_by_a_list(served: Any, namespace: str) -> None:
    answer = served.request("GET", maps(namespace, "?resourceVersion=9999999999999999"))
    assert answer.status == 504
    assert answer.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


def test_pages_show_one_consistent_state(served: Any, namespace: str) -> None:
    for index in range(5):
        make(served, namespace, f"m{index}")
    first = served.request("GET", maps(namespace, "?limit=2")).body
    assert first["metadata"]["remainingItemCount"] == 3
    served.request("DELETE", f"{maps(namespace)}/m3")
    make(served, namespace, "m9")
    found = [item["metadata"]["name"] for item in first["items"]]
    token = first["metadata"]["continue"]
    while token:
        page = served.request("GET", maps(namespace, f"?limit=2&continue={quote(token)}")).body
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        found += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue", "")
    assert found == ["m0", "m1", "m2", "m3", "m4"]


def test_token_of_a_page_that_is_gone_says_410(sandboxed: Any) -> None:
    namespace = sandboxed.namespace()
    for name in "abc":
        make(sandboxed, namespace, name)
    token = sandboxed.request("GET", maps(namespace, "?limit=1")).body["metadata"]["continue"]
    make(sandboxed, namespace, "d")
    sandboxed.inside(sandboxed.cluster.storage.compact)
    answer = sandboxed.request("GET", maps(namespace, f"?limit=1&continue={quote(token)}"))
    assert (answer.status, answer.body["reason"]) == (410, "Expired")


def test_selected_watch_sees_objects_come_and_go(served: Any, namespace: str) -> None:
    start = version(served, namespace)
    make(served, namespace, "a", side="left")
    make(served, namespace, "b", side="right")
    for name, side in (("b", "left"), ("a", "right")):
        served.request(
            "PATCH",
            f"{maps(namespace)}/{name}",
            {"metadata": {"labels": {"side": side}}},
            content_type="application/merge-patch+json",
        )
    query = f"?watch=true&resourceVersion={start}&labelSelector=side%3Dleft"
    events = served.watch(maps(namespace, query), count=3)
    assert names(events) == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]


def test_field_selectors(served: Any, namespace: str) -> None:
    make(served, namespace, "a")
    make(served, namespace, "b")
    found = served.request("GET", maps(namespace, "?fieldSelector=metadata.name%3Db")).body["items"]
    assert [item["metadata"]["name"] for item in found] == ["b"]
    refused = served.request("GET", maps(namespace, "?fieldSelector=spec.color%3Dred"))
    known = 'only "metadata.name", "metadata.namespace"'
    assert (refused.status, refused.body["message"]) == (400, f'"spec.color" is not a known field selector: {known}')
    pods = served.request("GET", f"/api/v1/namespaces/{namespace}/pods?fieldSelector=spec.color%3Dred")
    assert (pods.status, pods.body["message"]) == (400, "field label not supported: spec.color")


def test_label_selector_operators(served: Any, namespace: str) -> None:
    make(served, namespace, "a", tier="1", app="x")
    make(served, namespace, "b", tier="2")
    make(served, namespace, "c")
    wanted = {
        "tier in (1,2)": ["a", "b"],
        "tier notin (1)": ["b", "c"],
        "tier": ["a", "b"],
        "!tier": ["c"],
        "tier!=1": ["b", "c"],
        "tier=1,app==x": ["a"],
    }
    for selector, expected in wanted.items():
        found = served.request("GET", maps(namespace, f"?labelSelector={quote(selector)}")).body["items"]
        assert [item["metadata"]["name"] for item in found] == expected, selector


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        ("a in (b", ""),
        (f"a={'n' * 64}", f'values[0][a]: Invalid value: "{"n" * 64}": must be no more than 63 bytes'),
        (f"a notin (b,{'n' * 64})", ""),
        ("a=-", 'values[0][a]: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric'),
        ("a>b", ""),
        (f"{'n' * 64}=a", f'<nil>: Invalid value: "{"n" * 64}": name part must be no more than 63 bytes'),
        ("-=a", '<nil>: Invalid value: "-": name part must consist of alphanumeric characters'),
    ],
)
def test_a_label_selector_that_no_object_can_match_is_refused(served: Any, selector: str, problem: str) -> None:
    refused = served.request("GET", maps("default", f"?labelSelector={quote(selector)}"))
    assert (refused.status, refused.body["reason"]) == (400, "BadRequest")
    assert refused.body["message"].startswith("unable to parse requirement: " + problem), refused.body["message"]
