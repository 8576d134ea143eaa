"""What is generated of attachments and terms, and what is left out, with the reason."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from app.cel import matchconditions
from app.cel.literals import literal
from app.networks.settings import Injection, Switches
from app.policies.cel import EXPRESSION_LIMIT, SHARD, maps
from app.policies.model import Registration, Terms
from app.policies.objects import CONDITION, OBJECT_LIMIT, generate
from app.policies.settings import parse_config
from app.policies.terms import charted, terms_of
from app.registry import settings_of
from tests.support.chart import Render
from tests.support.policy_stage import chart_entry, network, pod_with

JSON = dict[str, Any]
SELECTOR = "k8s.v1.cni.cncf.io/nodeSelector"


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for member in value.values() for text in _texts(member)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


def _settings(**given: Any) -> Any:
    return settings_of("webhook").load({"manifests": None, **given}, environment=False)


def test_names_are_inlined_and_nothing_is_a_parameter() -> None:
    """kubernetes#133383: a policy is evaluated once for each parameter and binding."""
    generated = generate([network("foo", "example.com/foo"), network("plain")], Terms())
    kinds = [obj["kind"] for obj in generated.objects]
    assert kinds == [
        "MutatingAdmissionPolicy",
        *["ValidatingAdmissionPolicy"] * 3,
        "MutatingAdmissionPolicyBinding",
        *["ValidatingAdmissionPolicyBinding"] * 3,
    ]
    assert not {"paramKind", "paramRef"} & set(re.findall(r'"(\w+)":', json.dumps(generated.objects)))
    variables = {one["name"]: one["expression"] for one in generated.objects[0]["spec"]["variables"]}
    assert variables["resources0"] == "{'default/foo': 'example.com/foo', 'default/plain': ''}"


@pytest.mark.parametrize(
    ("attachment", "terms", "reason"),
    [
        (network("a.b", "example.com/foo"), Terms(), "dots"),
        (network("foo", "broken name/x"), Terms(), "prefix"),
        (network("foo", "short"), Terms(), "no domain"),
        (
            network("foo", "example.com/a", b="example.com/b"),
            Terms(resource_name_keys=("k8s.v1.cni.cncf.io/resourceName", "b")),
            "2 resources",
        ),
        (network("foo", "example.com/foo", **{SELECTOR: "=x"}), Terms(), "no key"),
        (
            network("foo", "example.com/foo", **{SELECTOR: ",".join(f"k{index}" for index in range(3_500))}),
            Terms(),
            "3500 labels; policies take up to 8",
        ),
        (network("foo", "", **{"berth.dev/device-class": "nic"}), Terms(claims=True), "claim"),
        (network("foo", "example.com/foo", **{"berth.dev/inject": "false"}), Terms(claims=True), "not by Berth"),
        (network("foo", "deviceclass.resource.kubernetes.io/nic"), Terms(claims=True), "DeviceClass"),
        (network("foo' in x || '", "example.com/foo"), Terms(), "not a valid name"),
        (network("foo", "example.com/foo", "a'] + ['b"), Terms(), "not a valid name"),
        (network("foo", "example.com/fo\\"), Terms(), "not a qualified name"),
        (network("foo", "example.com/foo", **{SELECTOR: "a=b'}"}), Terms(), "label 1"),
        (network("f\u00f6\u00f6", "example.com/foo"), Terms(), "not a valid name"),
    ],
)
def test_an_attachment_that_is_left_does_not_stop_its_neighbors(attachment: JSON, terms: Terms, reason: str) -> None:
    """And nothing of it is in any expression."""
    neighbor = network("neighbor", "example.com/neighbor")
    alone, beside = generate([neighbor], terms), generate([attachment, neighbor], terms)
    assert [network.key for network in beside.networks] == ["default/neighbor"]
    (left,) = beside.left
    assert reason in left.reason
    assert beside.objects == alone.objects


def test_the_last_of_two_attachments_with_one_name_counts() -> None:
    generated = generate([network("foo", "no"), network("foo", "example.com/foo")], Terms())
    assert not generated.left
    assert [one.resource for one in generated.networks] == ["example.com/foo"]


@pytest.mark.parametrize(
    "text", ["it's", 'a"b', "a\\", "\\'", "{values}", "\n\r\t", "\u00e9\u2028", "\U0001f600", "\x00\x7f"]
)
def test_a_literal_is_one_string_whatever_it_holds(text: str) -> None:
    """As CEL reads it: what the subset of `app.cel` compares with the text itself."""
    written = literal(text)
    assert written.isascii()
    assert written.isprintable()
    attributes = matchconditions.Attributes(
        "CREATE", "", "v1", "Pod", "pods", "", "default", text, True, matchconditions.UserInfo("x"), None, None
    )
    conditions = [{"name": "same", "expression": f"request.name == {written}"}]
    assert matchconditions.holds(conditions, attributes, None)


def test_a_surrogate_is_no_character() -> None:
    with pytest.raises(ValueError, match="U\\+D800"):
        literal("\ud800")


def test_a_long_map_is_several_variables() -> None:
    entries = [(f"default/network-{index:05}", literal("example.com/foo")) for index in range(10_000)]
    split = maps("resources", entries)
    assert len(split.texts) > 1
    assert max(map(len, split.texts)) <= SHARD + 100 < EXPRESSION_LIMIT
    joined = ", ".join(text[1:-1] for text in split.texts)
    assert joined == ", ".join(f"{literal(key)}: {value}" for key, value in entries)
    assert split.has("key").count("||") == len(split.texts) - 1


@pytest.mark.parametrize("mode", ["policies", "both"])
def test_what_does_not_fit_is_left_and_said(mode: Any) -> None:
    """Sizes are computed before anything is written; in the condition of the webhook is what fits."""
    attachments = [
        network(f"network-{index:05}", f"example.com/resource-{index:05}", **{SELECTOR: f"example.com/label={index}"})
        for index in range(15_000)
    ]
    generated = generate(attachments, Terms(mode=mode))
    assert 0 < len(generated.networks) < len(attachments)
    assert len(generated.networks) + len(generated.left) == len(attachments)
    assert OBJECT_LIMIT * 0.9 < max(generated.sizes.values()) <= OBJECT_LIMIT
    assert generated.longest <= EXPRESSION_LIMIT
    assert len(generated.condition) <= EXPRESSION_LIMIT
    assert (generated.unconditional > 0) == (mode == "both")
    last = generated.networks[len(generated.networks) - generated.unconditional - 1].key
    assert (f"'{last}'" in generated.condition) == (mode == "both")


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_without_a_webhook_a_pod_that_is_left_is_refused_or_warned_about(policy: str) -> None:
    """As the failurePolicy says what happens while Berth does not answer."""
    registration = Registration(failure_policy=policy)
    terms = Terms(registration=registration, attachments=registration)
    generated = generate([network("foo", "example.com/foo")], terms)
    (binding,) = (
        obj for obj in generated.objects if obj["metadata"]["name"] == "berth-left" and "Binding" in obj["kind"]
    )
    assert binding["spec"]["validationActions"] == ["Deny" if policy == "Fail" else "Warn"]
    validations = generated.objects[1]["spec"]["validations"]
    assert len(validations) == (2 if policy == "Fail" else 1)  # the second refuses what lacks its networks
    assert {obj["spec"]["failurePolicy"] for obj in generated.objects if "Binding" not in obj["kind"]} == {policy}


def test_policies_select_as_the_webhook_is_registered() -> None:
    """Selectors and conditions are carried over; the condition that leaves Pods to the webhook is not for policies."""
    entry = {
        "name": "pods.berth.dev",
        "namespaceSelector": {"matchLabels": {"team": "a"}},
        "objectSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]},
        "matchConditions": [
            {"name": "mine", "expression": "object.kind == 'Pod'"},
            {"name": CONDITION, "expression": "'never' == ''"},
        ],
        "failurePolicy": "Ignore",
    }
    generated = generate([network("foo", "example.com/foo")], Terms(registration=Registration.of(entry)))
    for obj in generated.objects[:3]:
        assert obj["spec"]["matchConstraints"]["namespaceSelector"] == entry["namespaceSelector"]
        assert obj["spec"]["matchConstraints"]["objectSelector"] == entry["objectSelector"]
        (condition,) = obj["spec"]["matchConditions"]
        assert condition["expression"].startswith("(object.kind == 'Pod') && (")
        assert "never" not in condition["expression"]


@pytest.mark.parametrize(("policy", "exempt"), [("Fail", "left-alone"), ("Ignore", "other")])
def test_attachments_are_checked_as_the_chart_registers_it(render: Render, policy: str, exempt: str) -> None:
    """Not as Pods: what fails open for one may fail closed for the other, and each namespace selector is its own."""
    terms = {"enabled": True, "failurePolicy": policy, "timeoutSeconds": 10}
    webhook = {"exemptNamespaces": [exempt], "webhooks": {"attachments": terms}}
    entries = render({"webhook": webhook}).one("ValidatingWebhookConfiguration")["webhooks"]
    (entry,) = (entry for entry in entries if entry["name"] == "attachments.berth.dev")
    checking = _checking(render, {**webhook, "enabled": False})
    assert checking is not None
    assert checking["failurePolicy"] == policy
    assert checking["matchConstraints"]["namespaceSelector"] == entry["namespaceSelector"]
    assert exempt in str(entry["namespaceSelector"])


def test_attachments_that_the_chart_does_not_register_are_not_checked(render: Render) -> None:
    terms = {"enabled": False, "failurePolicy": "Fail", "timeoutSeconds": 10}
    assert _checking(render, {"enabled": False, "webhooks": {"attachments": terms}}) is None


def _checking(render: Render, webhook: JSON) -> JSON | None:
    """The policy for attachments that the controller makes of the chart's ConfigMap."""
    keeping = {"enabled": True, "args": {"controllers": ["policies"]}}
    rendered = render({"mode": "policies", "controller": keeping, "webhook": webhook})
    (config_map,) = (obj for obj in rendered.of("ConfigMap") if "policies.yaml" in obj["data"])
    terms = parse_config(config_map).terms(Switches(), name="berth", registered=None, namespace="berth-system")
    named = {(obj["kind"], obj["metadata"]["name"]): obj for obj in generate([], terms).objects}
    policy = named.get(("ValidatingAdmissionPolicy", "berth-attachments"))
    assert (policy is None) == (("ValidatingAdmissionPolicyBinding", "berth-attachments") not in named)
    return None if policy is None else policy["spec"]


@pytest.mark.parametrize("attachments", ["yes", True, []])
def test_a_config_that_does_not_say_how_attachments_are_registered_is_refused(attachments: object) -> None:
    text = json.dumps({"mode": "policies", "attachments": attachments})
    with pytest.raises(ValueError, match="attachments: want false, or a map"):
        parse_config({"data": {"policies.yaml": text}})


def test_conditions_that_are_too_long_for_one_stay_apart() -> None:
    entry = {"matchConditions": [{"name": "mine", "expression": f"'{'x' * EXPRESSION_LIMIT}' != ''"}]}
    policy = generate([], Terms(registration=Registration.of(entry))).objects[0]
    first, second = policy["spec"]["matchConditions"]
    assert first["expression"] == entry["matchConditions"][0]["expression"]
    assert first["name"] != second["name"]


def test_files_have_names_that_no_object_of_the_api_may_have() -> None:
    """KEP-5793 keeps the suffix for them."""
    generated = generate([network("foo", "example.com/foo")], Terms(static=True))
    for obj in generated.objects:
        assert obj["metadata"]["name"].endswith(".static.k8s.io")
        assert obj["spec"].get("policyName", ".static.k8s.io").endswith(".static.k8s.io")


@pytest.mark.parametrize(
    "terms",
    [
        Terms(existing_resources="add"),
        Terms(existing_resources="skip"),
        Terms(annotates=True),
        Terms(switches=Switches(honor_existing=True)),
    ],
)
def test_some_settings_leave_every_pod_to_the_webhook(terms: Terms) -> None:
    generated = generate([network("foo", "example.com/foo")], terms)
    assert generated.objects == []
    assert generated.left[0].subject == "every Pod"


def test_the_terms_without_a_cluster_are_those_of_the_chart(render: Render) -> None:
    """Selectors and conditions of the webhook as a release in berth-system registers it."""
    switches = Switches(injections=(Injection("sriov", {"a": "b"}),))
    for arguments in ({}, {"claims": True}, {"rmdBackend": "auto"}, {"confineTenants": True}):
        values = {"webhook": {"args": arguments, "injectionLabels": ["sriov"]}}
        configuration = render(values).one("MutatingWebhookConfiguration")
        (entry,) = (one for one in configuration["webhooks"] if one["name"] == "pods.berth.dev")
        flags = {re.sub("([A-Z])", r"_\1", key).lower(): value for key, value in arguments.items()}
        ours = charted(_settings(**flags).model_dump(), switches)
        for field in ("namespaceSelector", "objectSelector", "matchConditions", "failurePolicy"):
            assert ours.get(field, {}) == entry.get(field, {}), (arguments, field)


def test_terms_follow_the_settings(render: Render) -> None:
    """What Pods ask of other wings is left where these are on."""
    entry = chart_entry(render)
    terms = terms_of(_settings(node_selector_conflict="deny", claims=True), Switches(), registered=entry, mode="both")
    assert terms.registration == Registration.of(entry)
    assert terms.node_selector_conflict == "deny"
    assert terms.claims
    assert not terms.annotates
    assert terms_of(_settings(injected_annotation=True), Switches(), registered=entry).annotates
    assert terms.annotations == ("berth.dev/dpu-of-host",)
    assert any("berth.dev/" in ask for ask in terms.asks)
    assert not terms_of(_settings(), Switches(), registered=entry).asks


NETINFO = [{"name": "podnetinfo", "downwardAPI": {}}]
MOUNTED = [{"name": "app", "volumeMounts": [{"name": "x", "mountPath": f"/{index}"} for index in range(513)]}]


def _asking(amount: str, **more: Any) -> JSON:
    return {"name": "app", "resources": {"limits": {"example.com/foo": amount}}, **more}


FOO = [_asking("1")]


@pytest.mark.parametrize(
    ("pod", "left"),
    [
        (pod_with("foo", volumes=NETINFO, containers=FOO), False),
        (pod_with("plain"), False),
        (pod_with(None), False),
        (pod_with("foo"), True),
        (pod_with("foo", containers=FOO), True),
        (pod_with("foo", volumes=NETINFO), True),
        (pod_with("foo,foo", volumes=NETINFO, containers=FOO), True),
        (pod_with("foo,foo", volumes=NETINFO, containers=[_asking("1k")]), False),
        (pod_with("foo,foo", volumes=NETINFO, containers=[_asking("1500m")]), True),
        (pod_with("foo,foo", volumes=NETINFO, containers=[*FOO, _asking("1", name="b")]), False),
        (pod_with("foo", volumes=NETINFO, initContainers=[_asking("1", restartPolicy="Always")]), False),
        (pod_with("foo", volumes=NETINFO, initContainers=FOO), True),
        (pod_with("labeled"), True),
        (pod_with("labeled", nodeSelector={"zone": "x"}), True),
        (pod_with("labeled", nodeSelector={"k": "other"}), True),
        (pod_with("labeled,foo", volumes=NETINFO, containers=FOO), True),
        (pod_with("labeled", nodeSelector={"zone": "x", "k": "v"}), False),
        (pod_with("missing", volumes=NETINFO, containers=FOO), True),
        (pod_with('[{"name": "foo"}]', volumes=NETINFO, containers=FOO), True),
        (pod_with("foo", volumes=NETINFO, containers=MOUNTED), True),
    ],
)
@pytest.mark.parametrize("others", [0, 1_500])
def test_the_condition_leaves_out_pods_that_have_what_their_networks_ask_for(
    pod: JSON, *, left: bool, others: int
) -> None:
    """And no other: nothing may have served it. The sandbox, doctor and explain evaluate the condition themselves."""
    known = [network(f"other-{index:05}", "example.com/foo") for index in range(others)]
    served = [network("foo", "example.com/foo"), network("labeled", **{SELECTOR: "k=v"}), network("plain"), *known]
    generated = generate(served, Terms(mode="both"))
    conditions = [{"name": CONDITION, "expression": generated.condition}]
    assert matchconditions.holds(conditions, POD, pod) is left


USER = matchconditions.UserInfo("x")
POD = matchconditions.Attributes("CREATE", "", "v1", "Pod", "pods", "", "default", "demo", True, USER, None, None)


def test_a_label_of_the_switches_ends_no_text_of_the_condition() -> None:
    """Its text comes from a ConfigMap; the chart and Berth write it into CEL."""
    hostile = "x'] || true || ['"
    entry = charted(_settings().model_dump(), Switches(injections=(Injection(hostile, {"a": "b"}),)))
    (condition,) = entry["matchConditions"]
    assert hostile not in condition["expression"]
    assert literal(hostile) in condition["expression"]
