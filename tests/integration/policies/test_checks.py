"""What policies refuse of attachments is what the webhook refuses: judged by real API servers both ways."""

from __future__ import annotations

import base64
import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.admission.pods import INJECT
from app.kube.resources import NETWORK_ATTACHMENTS, VALIDATING_WEBHOOKS
from app.networks.model import CLAIM_TEMPLATE, DEVICE_CLASS, NODE_SELECTOR, RESOURCE_NAME
from app.policies.model import Terms
from app.policies.objects import generate
from app.policies.refusals import JUDGED_CHARACTERS, JUDGED_LABELS
from app.wire import load_yaml
from tests.support.chart import ASSETS, Render
from tests.support.paths import ROOT
from tests.support.policy_stage import JSON, Api, network
from tests.support.real_apiserver import real_api_servers
from tests.support.real_parts import needs, since
from tests.support.waiting import wait_until
from tests.support.webhook_process import Pki, Webhook
from tests.unit.networks.test_goldens import CASES, GOLDENS

pytestmark = [*needs("etcd", "kube-apiserver"), since(36)]
PATH = NETWORK_ATTACHMENTS.path(namespace="default")
KEYS = (RESOURCE_NAME, "example.com/resource")
ATTACHMENTS = 3_000


@dataclass(frozen=True)
class Judges:
    """Two API servers: one calls the real webhook, the other has the policies."""

    webhook: Api
    policies: Api

    def judged(self, obj: JSON) -> tuple[str, str]:
        """What each answers to a creation in a dry run, "" where it is admitted."""
        answers = [api.call("POST", f"{PATH}?dryRun=All", obj) for api in (self.webhook, self.policies)]
        by_webhook, by_policy = ("" if status == 201 else answer["message"] for status, answer in answers)
        return by_webhook, by_policy


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory, render: Render) -> Iterator[Judges]:
    directory = tmp_path_factory.mktemp("checks")
    definition = load_yaml((ROOT / "app/networks/crds/network-attachment-definitions.yaml").read_text())
    (configuration,) = render({}).of("ValidatingWebhookConfiguration")
    (entry,) = (webhook for webhook in configuration["webhooks"] if webhook["name"] == "attachments.berth.dev")
    pki, empty = Pki(directory / "pki"), directory / "manifests"
    empty.mkdir()
    files = (f"--tls-cert-file={pki.certificate}", f"--tls-private-key-file={pki.key}", f"--manifests={empty}")
    ports = ("--bind-address=127.0.0.1", "--port=0", "--health-check-port=0", "--insecure")
    flags = ("--claims", f"--network-resource-name-keys={','.join(KEYS)}")
    with real_api_servers(Path(ASSETS), directory, ["webhook", "policies"]) as kubeconfigs:
        judges = Judges(Api(kubeconfigs["webhook"]), Api(kubeconfigs["policies"]))
        for api in (judges.webhook, judges.policies):
            status, answer = api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
            assert status == 201, answer
            wait_until(lambda api=api: _makes_a_wrong_one(api))
        webhook = Webhook(pki, *ports, *files, *flags).until_ready()
        try:
            url = f"https://localhost:{webhook.address[1]}{entry['clientConfig']['service']['path']}"
            called = {"url": url, "caBundle": base64.b64encode(pki.ca.read_bytes()).decode()}
            judges.webhook.apply(
                VALIDATING_WEBHOOKS.body({"name": "berth"}, webhooks=[entry | {"clientConfig": called}])
            )
            for obj in generate([], Terms(claims=True, resource_name_keys=KEYS)).objects:
                judges.policies.apply(obj)
            wait_until(lambda: all("metadata.annotations" in text for text in judges.judged(network("x", "no name/"))))
            yield judges
        finally:
            webhook.stop()


def _makes_a_wrong_one(api: Api) -> bool:
    """Before anything judges it, and as soon as its definition is served: until then the answer is no JSON."""
    wrong = network("going", "no name/")
    wrong["metadata"]["finalizers"] = ["example.com/kept"]
    try:
        return api.call("POST", PATH, wrong)[0] == 201
    except json.JSONDecodeError:
        return False


def _fields(message: str) -> set[str]:
    """The annotations that a message names."""
    return {key for key in (*KEYS, NODE_SELECTOR, CLAIM_TEMPLATE, DEVICE_CLASS) if f"[{key}]: " in message}


def _compared(judges: Judges, obj: JSON) -> str:
    by_webhook, by_policy = judges.judged(obj)
    assert bool(by_webhook) == bool(by_policy), (obj, by_webhook, by_policy)
    if not by_policy:
        return "admitted"
    assert "berth-attachments" in by_policy, by_policy
    named = _fields(by_policy)
    assert named, by_policy  # one of those that the webhook names: an API server tells the first
    assert named <= _fields(by_webhook), (by_webhook, by_policy)
    return "refused"


def test_goldens(judges: Judges) -> None:
    """The attachments of each golden."""
    outcomes = Counter[str]()
    for case in CASES:
        for obj in load_all(GOLDENS / case / "attachments.yaml"):
            obj["metadata"] |= {"namespace": "default"}
            outcomes[_compared(judges, obj)] += 1
    assert outcomes["admitted"] > 50, outcomes
    assert outcomes["refused"] > 5, outcomes


def load_all(path: Path) -> list[JSON]:
    return [obj for obj in yaml.safe_load_all(path.read_text()) if obj]


_LONG = "a" * 64
_WORDS = (
    *("example.com/foo", "foo", "a", "A", "9", "a.b", "a_b", "-a", "a-", ".", "", "example.com/", "/foo", "a/b/c"),
    *("Example.com/foo", "example..com/foo", "requests.example.com/foo", "kubernetes.io/foo", "x.kubernetes.io/foo"),
    *(_LONG, _LONG[1:], f"example.com/{_LONG}", f"example.com/{_LONG[1:]}", "f\u00f6o", "a b", "a\nb", "\u0131"),
    *(f"{'a' * 244}/foo", f"{'a' * 245}/foo", f"{'a' * 253}/foo", f"{'a' * 254}/foo", "example.com/requests.foo"),
    *(f"{'a' * 245}.kubernetes.io/foo", f"{'a' * 239}.kubernetes.io/foo", "kubernetes.io", "a\\b", "it's", "a''"),
)
_SPACES = (
    "",
    "",
    "",
    " ",
    "\t",
    "\n",
    "\r",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x1f",
    "\x85",
    "\u00a0",
    "\u2003",
    "\u3000",
    "\u200b",
)


def _word(chance: random.Random) -> str:
    return chance.choice(_SPACES) + chance.choice(_WORDS) + chance.choice(_SPACES)


def _label(chance: random.Random) -> str:
    return _word(chance) + "".join(f"={_word(chance)}" for _ in range(chance.choice((0, 1, 1, 1, 2))))


def _attachment(chance: random.Random) -> JSON:
    annotations: dict[str, str] = {}
    for key in KEYS:
        if chance.random() < 0.4:
            annotations[key] = _word(chance)
    if chance.random() < 0.5:
        labels = [_label(chance) for _ in range(chance.choice((0, 1, 1, 2)))]
        good = ["disk=nvme", "rack", "example.com/zone=a.b", " disk = nvme ", "disk=ssd", "disk="]
        annotations[NODE_SELECTOR] = ",".join(
            chance.choice((labels, good[: chance.randrange(6)], chance.sample(good, 2)))
        )
    if chance.random() < 0.3:
        annotations[CLAIM_TEMPLATE] = _word(chance)
    if chance.random() < 0.2:
        annotations[DEVICE_CLASS] = _word(chance)
    if chance.random() < 0.1:
        annotations[INJECT] = chance.choice(("false", " False\t", "no", ""))
    obj = network("generated", **annotations)
    config: Any = chance.choice((None, None, "", '{"type": "sriov", "cniVersion": "1.0.0"}', ' {\n"type": "x"}\t'))
    if config is not None:
        obj["spec"] = {"config": config}
    return obj


def test_attachments_at_random(judges: Judges) -> None:
    chance, outcomes = random.Random(37), Counter[str]()
    for _ in range(ATTACHMENTS):
        outcomes[_compared(judges, _attachment(chance))] += 1
    assert min(outcomes["admitted"], outcomes["refused"]) > ATTACHMENTS / 10, outcomes


@pytest.mark.parametrize(
    ("config", "by_policy"),
    [
        ("[]", True),
        ("name: x", True),
        ('"{}"', True),
        ("{", True),
        ("\u00a0{}", True),
        ("{]}", False),
        ('{"cniVersion": 1}', False),
        ('{"name": "-"}', False),
    ],
)
def test_of_the_config_policies_see_whether_it_can_be_an_object(
    judges: Judges, config: str, *, by_policy: bool
) -> None:
    """The webhook reads it, and refuses all of these."""
    by_webhook, refused = judges.judged(network("config") | {"spec": {"config": config}})
    assert "spec.config" in by_webhook
    assert ("spec.config: want a JSON object" in refused) == by_policy, refused


@pytest.mark.parametrize(
    ("selector", "judged"),
    [
        (",".join(f"k{index}=v" for index in range(JUDGED_LABELS - 1)) + ",=x", True),
        (",".join(f"k{index}=v" for index in range(JUDGED_LABELS)) + ",=x", False),
        ("=" + "x" * (JUDGED_CHARACTERS - 1), True),
        ("=" + "x" * JUDGED_CHARACTERS, False),
        (",".join(f"{'p' * 60}.{index}/{'n' * 60}={'v' * 60}" for index in range(42)) + ",=x", True),
    ],
)
def test_a_node_selector_costs_less_than_an_api_server_allows(judges: Judges, selector: str, *, judged: bool) -> None:
    by_webhook, by_policy = judges.judged(network("labels", **{NODE_SELECTOR: selector}))
    assert f"[{NODE_SELECTOR}]" in by_webhook
    assert "budget" not in by_policy
    assert (f"[{NODE_SELECTOR}]: want key=value" in by_policy) == judged, by_policy


def test_an_attachment_that_is_being_deleted_may_be_wrong(judges: Judges) -> None:
    """Its finalizers have to be removable; anything else that changes is judged."""
    for api in (judges.webhook, judges.policies):
        assert api.call("DELETE", f"{PATH}/going")[0] == 200
    merge = "application/merge-patch+json"
    broken: JSON = {"metadata": {"annotations": {RESOURCE_NAME: "nor this/"}}}
    for api in (judges.webhook, judges.policies):
        status, answer = api.call("PATCH", f"{PATH}/going?dryRun=All", broken, kind=merge)
        assert status != 200, answer
        status, answer = api.call("PATCH", f"{PATH}/going", {"metadata": {"finalizers": []}}, kind=merge)
        assert status == 200, json.dumps(answer)
