"""Which webhooks of a real HTTPS server the dispatcher calls: rules, versions, selectors and match conditions."""

from __future__ import annotations

import pytest

from app.cel.matchconditions import UserInfo
from app.devtools.sandbox.webhooks.admission import WebhookDispatcher
from tests.support.webhook_server import JSON, Server, attributes, label, pod, rejection, rule


@pytest.mark.parametrize(
    ("rules", "fields", "called"),
    [
        (rule(), {}, True),
        (rule(operations=["UPDATE"]), {}, False),
        (rule(apiGroups=["apps"]), {}, False),
        (rule(apiVersions=["v2"]), {}, False),
        (rule(resources=["pods"]), {"subresource": "status"}, False),
        (rule(resources=["*"]), {"subresource": "status"}, False),
        (rule(resources=["pods/*"]), {"subresource": "status"}, True),
        (rule(resources=["pods/*"]), {}, True),
        (rule(resources=["*/status"]), {"subresource": "status"}, True),
        (rule(resources=["*/*"]), {"subresource": "binding"}, True),
        (rule(resources=["*/*"]), {}, True),
        (rule(scope="Cluster"), {}, False),
        (rule(scope="Namespaced"), {}, True),
        (rule(scope="Namespaced"), {"resource": "namespaces", "kind": "Namespace", "name": "default"}, False),
        (rule(scope="Cluster"), {"resource": "nodes", "kind": "Node", "namespace": ""}, True),
        (rule(), {"group": "admissionregistration.k8s.io", "resource": "mutatingwebhookconfigurations", "namespace": ""}, False),
    ],
)  # fmt: skip
async def test_rules(
    server: Server, dispatcher: WebhookDispatcher, rules: list[JSON], fields: JSON, *, called: bool
) -> None:
    server.register("validating", server.hook("h", rules=rules))
    await dispatcher.validate(attributes(**fields), pod())
    assert bool(server.reviews) is called


async def test_equivalent_versions_match_and_are_converted_back(server: Server, dispatcher: WebhookDispatcher) -> None:
    thing = {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"labels": {}}}
    hook = server.hook("h", label("x"), rules=rule(apiGroups=["x.io"], apiVersions=["v2"], resources=["things"]))
    server.register("mutating", hook)
    write = attributes(group="x.io", resource="things", kind="Thing")
    changed, _ = await dispatcher.mutate(write, thing)
    request = server.reviews[0][1]["request"]
    assert (request["object"]["apiVersion"], request["resource"]["version"]) == ("x.io/v2", "v2")
    assert request["requestResource"]["version"] == "v1"
    assert changed == {**thing, "metadata": {"labels": {"x": "x"}}}
    hook["matchPolicy"] = "Exact"
    assert (await dispatcher.mutate(write, thing))[0] == thing


@pytest.mark.parametrize(
    ("selector", "called"),
    [
        ({"matchLabels": {"team": "a"}}, True),
        ({"matchLabels": {"team": "b"}}, False),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]}, True),
        ({}, True),
    ],
)
async def test_namespace_selectors(
    server: Server, dispatcher: WebhookDispatcher, selector: JSON, *, called: bool
) -> None:
    server.register("validating", server.hook("h", namespaceSelector=selector, rules=rule()))
    await dispatcher.validate(attributes(), pod())
    assert bool(server.reviews) is called
    await dispatcher.validate(attributes(resource="nodes", namespace=""), {"metadata": {"labels": {}}})
    assert len(server.reviews) == called + 1, "cluster-scoped objects are not selected by namespace"


async def test_a_namespace_is_selected_by_its_own_new_labels(server: Server, dispatcher: WebhookDispatcher) -> None:
    server.register("validating", server.hook("h", namespaceSelector={"matchLabels": {"team": "new"}}, rules=rule()))
    write = attributes(resource="namespaces", kind="Namespace", name="default")
    await dispatcher.validate(write, {"metadata": {"labels": {"team": "new"}}})
    await dispatcher.validate(write, {"metadata": {"labels": {}}})
    assert len(server.reviews) == 1


async def test_an_unknown_namespace_fails_whatever_the_policy(server: Server, dispatcher: WebhookDispatcher) -> None:
    hook = server.hook("h", namespaceSelector={"matchLabels": {"a": "b"}}, failurePolicy="Ignore")
    server.register("validating", hook)
    failed = await rejection(dispatcher.validate(attributes(namespace="gone"), pod()))
    assert (failed["code"], failed["message"]) == (404, 'namespaces "gone" not found')


async def test_object_selectors_look_at_the_old_and_the_new_object(
    server: Server, dispatcher: WebhookDispatcher
) -> None:
    server.register("validating", server.hook("h", objectSelector={"matchLabels": {"a": "1"}}))
    for old, new in ((pod(), pod()), (pod(a="1"), pod()), (pod(), pod(a="1"))):
        await dispatcher.validate(attributes(operation="UPDATE", old_object=old), new)
    await dispatcher.validate(attributes(operation="DELETE", old_object=pod(a="1")), None)
    assert len(server.reviews) == 3


async def test_match_conditions_decide_before_the_call(server: Server, dispatcher: WebhookDispatcher) -> None:
    conditions = [
        {
            "name": "n",
            "expression": "object.metadata.labels.mode == 'on' && !request.userInfo.username.startsWith('system:')",
        }
    ]
    server.register("validating", server.hook("h", matchConditions=conditions))
    await dispatcher.validate(attributes(), pod(mode="off"))
    await dispatcher.validate(attributes(user=UserInfo("system:node")), pod(mode="on"))
    assert server.reviews == []
    await dispatcher.validate(attributes(), pod(mode="on"))
    assert len(server.reviews) == 1
    failed = await rejection(dispatcher.validate(attributes(), pod()))
    assert (failed["code"], failed["reason"]) == (403, "Forbidden")
    assert "no such key: mode" in failed["message"]
    server.configurations["validating"][0]["webhooks"][0]["failurePolicy"] = "Ignore"
    await dispatcher.validate(attributes(), pod())
    assert len(server.reviews) == 1
