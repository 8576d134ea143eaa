"""Writes through real webhooks over TLS: what they see, what they change, how a refusal reads."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any

from tests.support.hooks import BASE, Hook, patching

PODS = "/api/v1/namespaces/{}/pods"
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "b"}]}}


def register(served: Any, hook: Hook, kind: str, namespace: str, *operations: str) -> None:
    configuration = {
        "metadata": {"name": f"{kind}-hook"},
        "webhooks": [
            {
                "name": "pods.hook.test",
                "clientConfig": hook.client(),
                "rules": [
                    {"operations": list(operations), "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
                ],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }
    answer = served.request("POST", f"{BASE}/{kind}webhookconfigurations", configuration)
    assert answer.status == 201, answer.body
    assert answer.body["webhooks"][0]["failurePolicy"] == "Fail"


def test_mutation_is_stored_completed_and_warned_about(served: Any, hook: Hook, namespace: str) -> None:
    register(served, hook, "mutating", namespace, "CREATE")
    limits = {"limits": {"example.com/foo": 2}}
    hook.answer = lambda _request: {
        **patching({"op": "add", "path": "/spec/containers/0/resources", "value": limits}),
        "warnings": ["injected"],
    }
    made = served.request("POST", PODS.format(namespace), POD)
    assert made.body["spec"]["containers"][0]["resources"] == {
        "limits": {"example.com/foo": "2"},
        "requests": {"example.com/foo": "2"},
    }
    assert made.headers["Warning"] == '299 - "injected"'
    (seen,) = hook.reviews
    assert (seen["operation"], seen["name"], seen["namespace"]) == ("CREATE", "p", namespace)
    assert "uid" not in seen["object"]["metadata"]
    assert seen["object"]["status"] == {}
    assert seen["oldObject"] is None
    assert seen["userInfo"]["groups"] == ["system:masters", "system:authenticated"]


def test_what_a_webhook_breaks_is_refused(served: Any, hook: Hook, namespace: str) -> None:
    register(served, hook, "mutating", namespace, "CREATE")
    mount = [{"name": "nope", "mountPath": "/x"}]
    hook.answer = lambda _request: patching({"op": "add", "path": "/spec/containers/0/volumeMounts", "value": mount})
    refused = served.request("POST", PODS.format(namespace), POD)
    assert refused.status == 422
    assert 'spec.containers[0].volumeMounts[0].name: Not found: "nope"' in refused.body["message"]


def test_validation_sees_the_complete_object_and_can_refuse(served: Any, hook: Hook, namespace: str) -> None:
    register(served, hook, "validating", namespace, "CREATE")
    hook.answer = lambda _request: {"allowed": False, "status": {"message": "not today", "code": 403}}
    refused = served.request("POST", PODS.format(namespace), POD)
    assert refused.status == 403
    assert refused.body["message"] == 'admission webhook "pods.hook.test" denied the request: not today'
    assert hook.reviews[0]["object"]["metadata"]["uid"]
    assert hook.reviews[0]["object"]["status"]["phase"] == "Pending"
    assert served.request("GET", PODS.format(namespace) + "/p").status == 404


def test_dry_run_is_told_and_generated_names_are_not_known_yet(served: Any, hook: Hook, namespace: str) -> None:
    register(served, hook, "mutating", namespace, "CREATE")
    body = {**POD, "metadata": {"generateName": "gen-"}}
    served.request("POST", PODS.format(namespace) + "?dryRun=All&fieldManager=me", body)
    (seen,) = hook.reviews
    assert seen["dryRun"] is True
    assert seen["options"]["dryRun"] == ["All"]
    assert seen["options"]["fieldManager"] == "me"
    assert "name" not in seen["object"]["metadata"]
    assert seen["object"]["metadata"]["generateName"] == "gen-"


def test_update_and_delete_carry_the_old_object(served: Any, hook: Hook, namespace: str) -> None:
    served.request("POST", PODS.format(namespace), POD)
    register(served, hook, "validating", namespace, "UPDATE", "DELETE")
    path = PODS.format(namespace) + "/p"
    patch = {"metadata": {"labels": {"a": "b"}}}
    served.request("PATCH", path, patch, content_type="application/merge-patch+json")
    served.request("DELETE", path)
    update, delete = hook.reviews[0], hook.reviews[-1]
    # A real API server asks twice about the deletion of a Pod.
    assert {review["operation"] for review in hook.reviews[1:]} == {"DELETE"}
    assert update["object"]["metadata"]["labels"] == {"a": "b"}
    assert "labels" not in update["oldObject"]["metadata"]
    assert (delete["operation"], delete["object"]) == ("DELETE", None)
    assert delete["oldObject"]["metadata"]["labels"] == {"a": "b"}


def test_a_webhook_that_hangs_up_is_said_without_objects_of_python(served: Any, hook: Hook, namespace: str) -> None:
    """It accepts the connection, and closes it before TLS has begun."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        closing = threading.Thread(target=_hang_up, args=(listening,), daemon=True)
        closing.start()
        hook.port = listening.getsockname()[1]
        register(served, hook, "mutating", namespace, "CREATE")
        failed = served.request("POST", PODS.format(namespace), POD)
        assert failed.status == 500
        assert "failed to call webhook: Post " in failed.body["message"]
        assert "object at 0x" not in failed.body["message"]


def _hang_up(listening: socket.socket) -> None:
    with contextlib.suppress(OSError):  # until it is closed
        while True:
            listening.accept()[0].close()
