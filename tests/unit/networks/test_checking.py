"""The check of attachments: a broken one is refused when it is written, all problems at once."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from app.admission.chain import Chain
from app.admission.review import GroupVersionKind
from app.networks.model import NETWORKS, NODE_SELECTOR, RESOURCE_NAME
from app.networks.webhook import AttachmentCheck
from tests.support.pod_requests import POD_KIND, request_for

KIND = GroupVersionKind("k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition")
GOOD = '{"cniVersion": "1.0.0", "type": "bridge"}'


def nad(config: object = GOOD, name: str = "foo", **annotations: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"config": config}}


async def review(obj: Any, **fields: Any) -> Any:
    chain = Chain(checks=[AttachmentCheck((RESOURCE_NAME, "example.com/key"))])
    decision, _ = await chain.review(request_for(obj, **({"kind": KIND} | fields)))
    return decision


@pytest.mark.parametrize(
    "obj",
    [
        nad(),
        nad(""),
        nad(None),
        {"metadata": {"name": "foo"}},
        {"metadata": {"generateName": "foo-"}, "spec": {}},
        nad('{"cniVersion": "1.0.0", "name": "my_net.1", "plugins": [{"type": "bridge"}, {"type": "tuning"}]}'),
        nad('{"name": "", "type": "bridge"}'),
        nad(**{RESOURCE_NAME: " example.com/foo ", NODE_SELECTOR: "a=b, c"}),
        nad(**{NODE_SELECTOR: ""}),
    ],
)
async def test_good_attachments_pass(obj: Any) -> None:
    """An empty config is right: the configuration is then read from the node's files."""
    decision = await review(obj)
    assert (decision.allowed, decision.message, list(decision.warnings)) == (True, "", [])


@pytest.mark.parametrize(
    ("obj", "problem"),
    [
        (nad("{"), "spec.config: not valid JSON"),
        (nad("[" * 100_000), "spec.config: not valid JSON"),
        (nad("[]"), "spec.config: want a JSON object"),
        (nad({"type": "bridge"}), "spec.config: want JSON in a string"),
        ({"metadata": {"name": "foo"}, "spec": []}, "spec: want an object"),
        (nad("{}"), "spec.config.type: want a plugin's name, or a list of plugins"),
        (nad('{"type": 7}'), "spec.config.type"),
        (nad('{"type": ""}'), "spec.config.type"),
        (nad('{"cniVersion": 1, "type": "bridge"}'), "spec.config.cniVersion"),
        (nad('{"name": "a b", "type": "bridge"}'), "spec.config.name: 'a b'"),
        (nad('{"name": 7, "type": "bridge"}'), "spec.config.name"),
        (nad('{"plugins": []}'), "spec.config.plugins"),
        (nad('{"plugins": {}}'), "spec.config.plugins"),
        (nad('{"plugins": [{"type": "a"}, {}]}'), "spec.config.plugins[1].type"),
        (nad('{"plugins": ["a"]}'), "spec.config.plugins[0]: want an object"),
        (nad(name="Foo"), "metadata.name: 'Foo'"),
        (nad(**{RESOURCE_NAME: " "}), f"metadata.annotations[{RESOURCE_NAME}]: an empty resource name"),
        (nad(**{RESOURCE_NAME: "foo bar"}), f"metadata.annotations[{RESOURCE_NAME}]"),
        (nad(**{RESOURCE_NAME: "-foo"}), f"metadata.annotations[{RESOURCE_NAME}]"),
        (nad(**{RESOURCE_NAME: "f" * 64}), f"metadata.annotations[{RESOURCE_NAME}]"),
        (nad(**{"example.com/key": "a b/c"}), "metadata.annotations[example.com/key]"),
        (nad(**{RESOURCE_NAME: "requests.example.com/foo"}), "begins with 'requests.'"),
        (nad(**{NODE_SELECTOR: "a=b=c"}), f"metadata.annotations[{NODE_SELECTOR}]: label 1"),
        ([], "want a JSON object"),
    ],
)
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
async def test_broken_attachments_are_refused(obj: Any, problem: str, operation: str) -> None:
    """The message begins with the path of the field."""
    decision = await review(obj, operation=operation)
    assert not decision.allowed
    assert problem in decision.message
    assert decision.message.isprintable()


async def test_all_problems_come_in_one_message() -> None:
    """Whoever wrote it mends it once."""
    decision = await review(nad("{", name="Foo", **{RESOURCE_NAME: "a b", NODE_SELECTOR: "="}))
    for path in ("metadata.name", RESOURCE_NAME, NODE_SELECTOR, "spec.config"):
        assert path in decision.message
    assert decision.reason == "BrokenAttachment"


@pytest.mark.parametrize(
    ("annotations", "claims", "warned"),
    [
        ({RESOURCE_NAME: "sriov_nic_1"}, False, True),
        ({RESOURCE_NAME: " nic "}, True, True),
        ({RESOURCE_NAME: "nic", "berth.dev/device-class": "vf.example.com"}, False, True),
        ({RESOURCE_NAME: "nic", "berth.dev/device-class": "vf.example.com"}, True, False),
        ({RESOURCE_NAME: "nic", "berth.dev/resource-claim-template": "vf"}, True, False),
        ({RESOURCE_NAME: "nic", "berth.dev/inject": "false"}, True, False),
        ({"example.com/key": "nic"}, False, True),
        ({RESOURCE_NAME: "example.com/nic"}, False, False),
    ],
)
async def test_a_resource_that_no_container_can_ask_for_is_a_warning(
    annotations: dict[str, str], *, claims: bool, warned: bool
) -> None:
    """As the attachments in the demos of dra-driver-sriov are: a claim of the Pod has the device."""
    chain = Chain(checks=[AttachmentCheck((RESOURCE_NAME, "example.com/key"), claims=claims)])
    decision, _ = await chain.review(request_for(nad(**annotations), kind=KIND))
    assert decision.allowed, decision.message
    assert [line.partition(", so")[0].rpartition(" ")[2] for line in decision.warnings] == ["domain"] * warned


async def test_keys_in_another_place_are_a_warning() -> None:
    obj = {"metadata": {"name": "foo", "labels": {RESOURCE_NAME: "foo"}, "annotations": {NETWORKS: "a"}}}
    decision = await review(obj)
    assert list(decision.warnings) == [
        f"metadata.annotations[{NETWORKS}]: read on Pods alone",
        f"metadata.labels[{RESOURCE_NAME}]: read among annotations alone: put it into metadata.annotations",
    ]


async def test_a_dotted_name_is_a_warning() -> None:
    """The API server accepts it; the text form of the annotation cannot say it."""
    decision = await review(nad(name="foo.v2"))
    assert decision.allowed
    assert "JSON form only" in decision.warnings[0]


@pytest.mark.parametrize(
    "fields",
    [
        {"operation": "DELETE", "object": msgspec.Raw(b"null")},
        {"operation": "DELETE"},
        {"operation": "CONNECT"},
        {"sub_resource": "status"},
        {"kind": POD_KIND},
        {"kind": GroupVersionKind("example.com", "v1", "NetworkAttachmentDefinition")},
    ],
)
async def test_neutral_to_everything_else(fields: dict[str, Any]) -> None:
    """A broken attachment can always be deleted."""
    assert (await review(nad("{"), **fields)).allowed


async def test_an_attachment_that_is_being_deleted_can_lose_its_finalizers() -> None:
    """Else a broken old one could never go away."""
    old = nad("{")
    old["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/x"]}
    obj = old | {"metadata": {name: value for name, value in old["metadata"].items() if name != "finalizers"}}
    assert (await updated(obj, old)).allowed


async def test_any_other_change_of_it_is_checked() -> None:
    old = nad("{")
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not (await updated(nad("[") | {"metadata": old["metadata"]}, old)).allowed


async def updated(obj: Any, old: Any) -> Any:
    return await review(obj, operation="UPDATE", old_object=msgspec.Raw(json.dumps(old).encode()))
