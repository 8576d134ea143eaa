"""What the doctor sends to be denied is no denial, in log and metrics; what a user sends is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from app.admission.review import PROBE, GroupVersionKind, WholeRequest
from app.doctor.reachability import _PROBES
from app.kube.resources import NETWORK_ATTACHMENTS, PODS
from tests.support.webhook_process import Webhook

Json = dict[str, Any]


def counted(webhook: Webhook, decision: str) -> float:
    return sum(
        value
        for name, value in webhook.metrics().items()
        if name.startswith("admission_requests_total{") and f'decision="{decision}"' in name
    )


def asked(review: Callable[[str], Json], body: Json, *, dry_run: bool, **metadata: Any) -> Json:
    """The review of a creation, as an API server asks for it."""
    obj, found = copy.deepcopy(body), review("plain")
    obj["metadata"] |= metadata
    group, _, version = obj["apiVersion"].rpartition("/")
    plural = "pods" if obj["kind"] == PODS.kind else "network-attachment-definitions"
    found["request"] |= {
        "kind": {"group": group, "version": version, "kind": obj["kind"]},
        "resource": {"group": group, "version": version, "resource": plural},
        "name": metadata.get("name", ""),
        "object": obj,
        "dryRun": dry_run,
    }
    return found


@pytest.mark.parametrize(("probe", "path"), [(_PROBES[0][1], "/mutate"), (_PROBES[1][1], "/validate")])
@pytest.mark.parametrize(
    ("dry_run", "metadata", "decision"),
    [
        (True, {}, "probe"),
        (True, {"name": f"{PROBE}-x7k2p"}, "probe"),
        (False, {}, "denied"),
        (False, {"name": f"{PROBE}-x7k2p"}, "denied"),
        (True, {"generateName": "mine-"}, "denied"),
        (True, {"name": "mine"}, "denied"),
    ],
)
def test_a_probe_is_logged_and_counted_as_one(
    server: Webhook,
    review: Callable[[str], Json],
    probe: Json,
    path: str,
    dry_run: bool,  # noqa: FBT001  a case
    metadata: Json,
    decision: str,
) -> None:
    before = {word: counted(server, word) for word in ("denied", "probe")}
    status, answer = server.post(asked(review, probe, dry_run=dry_run, **metadata), path)
    assert (status, answer["response"]["allowed"]) == (200, False)
    after = {word: counted(server, word) for word in ("denied", "probe")}
    assert {word: after[word] - before[word] for word in after} == {"denied": 0, "probe": 0} | {decision: 1}
    line = server.events("review")[-1]
    assert (line["decision"], line["dry_run"]) == (decision, dry_run)
    assert line["message"] == answer["response"]["status"]["message"]


def test_a_probe_that_is_allowed_or_cannot_be_decided_is_said_as_such(
    server: Webhook, review: Callable[[str], Json]
) -> None:
    body = _PROBES[0][1]
    body = {**body, "metadata": {"generateName": f"{PROBE}-"}}
    assert server.post(asked(review, body, dry_run=True))[1]["response"]["allowed"]
    server.until(lambda: server.events("review")[-1]["decision"] == "allowed", "the line")
    assert server.events("review")[-1]["generate_name"] == f"{PROBE}-"


def test_an_update_is_a_denial_under_the_name_of_a_probe_too(server: Webhook, review: Callable[[str], Json]) -> None:
    """The doctor sends none: an attempt has to be counted."""
    found = asked(review, _PROBES[1][1], dry_run=True, name=f"{PROBE}-x7k2p")
    found["request"] |= {"operation": "UPDATE", "oldObject": {**found["request"]["object"], "spec": {"config": ""}}}
    before = {word: counted(server, word) for word in ("denied", "probe")}
    status, answer = server.post(found, "/validate")
    assert (status, answer["response"]["allowed"]) == (200, False)
    after = {word: counted(server, word) for word in ("denied", "probe")}
    assert {word: after[word] - before[word] for word in after} == {"denied": 1, "probe": 0}


@pytest.mark.parametrize(
    ("group", "kind", "sub_resource", "is_probe"),
    [
        ("", "Pod", "", True),
        (NETWORK_ATTACHMENTS.group, NETWORK_ATTACHMENTS.kind, "", True),
        ("", "Pod", "ephemeralcontainers", False),
        ("other", "Pod", "", False),
        ("workload.codeflare.dev", "AppWrapper", "", False),
        ("apps", "Deployment", "", False),
    ],
)
def test_kinds_that_the_doctor_does_not_send_are_no_probes(
    group: str,
    kind: str,
    sub_resource: str,
    is_probe: bool,  # noqa: FBT001  a case
) -> None:
    named = {"name": f"{PROBE}-x7k2p", "dry_run": True, "sub_resource": sub_resource}
    assert WholeRequest(uid="u", kind=GroupVersionKind(group, "v1", kind), **named).is_probe is is_probe
