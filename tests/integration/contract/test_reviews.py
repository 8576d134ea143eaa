"""Reviews over real TLS: what is answered to what."""

from __future__ import annotations

import json

import aiohttp
import pytest


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_the_demo_pod_gets_its_two_resources(server, review, patched, version) -> None:
    asked = review("webhook-demo")
    asked["apiVersion"] = f"admission.k8s.io/{version}"
    status, answer = server.post(asked)
    assert status == 200
    assert (answer["kind"], answer["apiVersion"]) == ("AdmissionReview", f"admission.k8s.io/{version}")
    assert answer["response"]["uid"] == asked["request"]["uid"]
    assert answer["response"]["patchType"] == "JSONPatch"
    resources = patched(asked, answer)["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"example.com/foo": "2"}, "limits": {"example.com/foo": "2"}}


def test_a_pod_without_networks_gets_no_patch_field(server, review) -> None:
    status, answer = server.post(review("plain"))
    assert status == 200
    response = answer["response"]
    assert response["allowed"] is True
    assert "patch" not in response
    assert "patchType" not in response
    assert response["auditAnnotations"] == {"decision": "NoNetworks"}


def test_the_rich_pod_gets_both_a_node_selector_and_a_warning(server, review, patched) -> None:
    asked = review("rich")
    _, answer = server.post(asked)
    pod = patched(asked, answer)
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    assert requests == asked["request"]["object"]["spec"]["containers"][0]["resources"]["requests"] | {
        "example.com/foo": "1",
        "example.com/bar": "1",
    }
    assert pod["spec"]["nodeSelector"]["disk"] == "nvme"
    assert any("disk" in warning for warning in answer["response"]["warnings"])
    assert answer["response"]["auditAnnotations"]["decision"] == "Injected"


def test_an_injected_pod_injected_again_changes_nothing(server, review, patched) -> None:
    asked = review("webhook-demo")
    asked["request"]["object"] = patched(asked, server.post(asked)[1])
    assert "patch" not in server.post(asked)[1]["response"]


def test_a_dry_run_is_answered_like_the_real_one(server, review) -> None:
    asked = review("webhook-demo")
    real = server.post(asked)[1]
    asked["request"]["dryRun"] = True
    assert server.post(asked)[1] == real
    server.until(lambda: any(event["dry_run"] for event in server.events("review")), "dry run in the log")


def test_a_missing_attachment_is_a_denial_and_no_failure(server, review) -> None:
    asked = review("webhook-demo")
    asked["request"]["object"]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = "nowhere"
    status, answer = server.post(asked)
    assert status == 200
    assert answer["response"]["allowed"] is False
    assert "default/nowhere" in answer["response"]["status"]["message"]


def test_validate_refuses_a_broken_attachment(server, review) -> None:
    asked = review("plain")
    asked["request"] |= {
        "kind": {"group": "k8s.cni.cncf.io", "version": "v1", "kind": "NetworkAttachmentDefinition"},
        "object": {"metadata": {"name": "net"}, "spec": {"config": "{"}},
    }
    status, answer = server.post(asked, "/validate")
    assert status == 200
    assert answer["response"]["allowed"] is False
    assert "spec.config" in answer["response"]["status"]["message"]
    asked["request"]["object"]["spec"]["config"] = '{"cniVersion": "1.0.0", "type": "macvlan"}'
    assert server.post(asked, "/validate")[1]["response"]["allowed"] is True


def test_the_cluster_s_own_namespace_and_ours_are_left_alone(launch, pki, review) -> None:
    server = launch(pki, "--insecure", env={"NAMESPACE": "berth-system"}).until_ready()
    for namespace in ("kube-system", "berth-system"):
        asked = review("webhook-demo")
        asked["request"]["namespace"] = namespace
        response = server.post(asked)[1]["response"]
        assert response["allowed"] is True
        assert "patch" not in response
        assert response["auditAnnotations"] == {"decision": "ExemptNamespace"}


@pytest.mark.parametrize(
    ("method", "path", "content_type", "status"),
    [
        ("POST", "/mutate", "application/json; charset=utf-8", 200),
        ("POST", "/mutate?timeout=1s", "application/json", 200),
        ("POST", "/mutate", "text/plain", 415),
        ("GET", "/mutate", "application/json", 405),
        ("PUT", "/mutate", "application/json", 405),
        ("DELETE", "/validate", "application/json", 405),
        ("POST", "/", "application/json", 404),
        ("POST", "/mutate/", "application/json", 404),
        ("POST", "/docs", "application/json", 404),
        ("POST", "/metrics", "application/json", 404),
    ],
)
def test_method_path_and_content_type(server, review, method, path, content_type, status) -> None:
    asked = review("webhook-demo")
    got, answer = server.post(asked, path, method=method, content_type=content_type)
    assert got == status
    if status != 404:
        assert answer["response"]["uid"] == asked["request"]["uid"]


async def test_one_aiohttp_session_reuses_its_connection(server, review) -> None:
    """The answers leave the connection in a state in which the next request is understood."""
    connector = aiohttp.TCPConnector(ssl=server.pki.context(), limit=1)
    statuses = []
    async with aiohttp.ClientSession(connector=connector) as session:
        for body, kind in [(review("rich"), "application/json"), (b"{", "application/json"), (b"x", "text/plain")] * 3:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            async with session.post(f"{server.url}/mutate", data=data, headers={"Content-Type": kind}) as answer:
                statuses.append(answer.status)
                assert (await answer.json())["kind"] == "AdmissionReview"
                assert answer.headers.get("Connection", "") == ""
    assert statuses == [200, 400, 415] * 3


def test_one_json_line_for_each_decision_with_its_keys_and_no_content(server, review) -> None:
    secret = "hunter2-do-not-log"
    asked = review("webhook-demo")
    asked["request"]["uid"] = "logged-1"
    asked["request"]["object"]["metadata"]["annotations"]["example.com/token"] = secret
    asked["request"]["object"]["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": secret}]
    server.post(asked)
    denied = json.loads(json.dumps(asked))
    denied["request"] |= {"uid": "logged-2", "name": ""}
    denied["request"]["object"]["metadata"]["generateName"] = "web-"
    denied["request"]["object"]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = "nowhere"
    server.post(denied)
    asked["request"]["uid"] = "logged-3"
    server.post(json.dumps(asked).encode()[:-1])
    asked["request"]["uid"] = "logged-4"
    assert server.post(asked, content_type="text/plain")[0] == 415
    asked["request"] |= {"uid": "logged-5", "namespace": "x" * (8 << 20)}
    assert server.post(asked)[0] == 413

    def lines(uid: str) -> list[dict[str, object]]:
        return [event for event in server.events("review") if event.get("uid") == uid]

    uids = [f"logged-{number}" for number in range(1, 6)]
    server.until(lambda: all(map(lines, uids)), "logged")
    (allowed,), (refused,), *others = map(lines, uids)
    assert [[line["reason"] for line in found] for found in others] == [["BadReview"]] * 3
    assert allowed["duration_ms"] > 0  # type: ignore[operator]  # a number
    picked = {key: allowed[key] for key in ("namespace", "name", "decision", "reason", "operation", "kind", "level")}
    assert picked == {
        "namespace": "default",
        "name": "webhook-demo",
        "decision": "allowed",
        "reason": "Injected",
        "operation": "CREATE",
        "kind": "Pod",
        "level": "info",
    }
    assert (refused["decision"], refused["reason"], refused["generate_name"]) == (
        "denied",
        "AttachmentNotFound",
        "web-",
    )
    assert "name" not in refused
    assert "generate_name" not in allowed
    assert secret not in "".join(server.lines)


def test_metrics_have_their_series_from_the_start_and_move(launch, pki, review) -> None:
    server = launch(pki, "--insecure").until_ready()
    before = server.metrics()
    for webhook in ("mutate", "validate"):
        for decision in ("allowed", "denied", "error"):
            labels = f'{{decision="{decision}",operation="CREATE",webhook="{webhook}"}}'
            assert before[f"admission_requests_total{labels}"] == 0
        assert before[f'admission_duration_seconds_count{{webhook="{webhook}"}}'] == 0
        assert before[f'admission_in_flight{{webhook="{webhook}"}}'] == 0
    for kind in ("resource", "node-selector", "volume", "env", "annotation"):
        assert before[f'admission_injected_total{{kind="{kind}"}}'] == 0
    assert before['watch_restarts_total{kind="NetworkAttachmentDefinition",reason="eof"}'] == 0
    assert before['cache_objects{kind="NetworkAttachmentDefinition"}'] == 2
    assert before["cert_not_after_seconds"] > pki.now.timestamp()
    assert "event_loop_lag_seconds" in before
    server.post(review("webhook-demo"))
    asked = review("webhook-demo")
    asked["request"]["object"]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = "nowhere"
    server.post(asked)
    server.post(b"{")
    server.until(lambda: 'cache_age_seconds{kind="ConfigMap"}' in server.metrics(), "the age of the cache")
    after = server.metrics()
    moved = {name: after[name] - value for name, value in before.items() if name.startswith("admission_requests_total")}
    assert {name: value for name, value in moved.items() if value} == {
        'admission_requests_total{decision="allowed",operation="CREATE",webhook="mutate"}': 1,
        'admission_requests_total{decision="denied",operation="CREATE",webhook="mutate"}': 1,
        'admission_requests_total{decision="error",operation="",webhook="mutate"}': 1,
    }
    assert after['admission_injected_total{kind="resource"}'] > 0
    assert after['admission_duration_seconds_count{webhook="mutate"}'] == 3
    assert after['admission_patch_ops_count{webhook="mutate"}'] == 1
    assert after['admission_in_flight{webhook="mutate"}'] == 0
