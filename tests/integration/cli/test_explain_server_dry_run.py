"""`berth explain --server-dry-run`: what the whole admission of a cluster makes of manifests, and who changed what."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.kube.resources import SERVICE_ACCOUNTS
from app.kube.retry import get_or_none
from app.registration import Terms, pods_to
from tests.support.command_line import berth
from tests.support.control_plane import NAMESPACE, started
from tests.support.hooks import BASE, Hook, patching
from tests.support.real_control_plane import has_control_plane
from tests.support.sandbox import Sandboxed, Served
from tests.support.waiting import eventually, wait_until
from tests.support.webhook_process import ATTACHMENTS, Pki, Webhook, flags_for

_ASSETS = os.environ.get("KUBEBUILDER_ASSETS", "")
JSON = dict[str, Any]
ON_REAL = pytest.mark.parametrize(
    "served",
    [
        pytest.param(
            "real",
            marks=[pytest.mark.conformance, pytest.mark.skipif(not _ASSETS, reason="the sandbox does not have these")],
        )
    ],
    indirect=True,
)
"""For policies and plugins that the sandbox lacks."""
pytestmark = pytest.mark.usefixtures("plain_surroundings")
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": POD["spec"]},
    },
}
SIDECAR = {"op": "add", "path": "/spec/containers/0", "value": {"name": "proxy", "image": "mesh:1"}}
LABEL = {"op": "add", "path": "/metadata/labels", "value": {"mesh": "on"}}
MESH = "webhook pods.mesh.test (MutatingWebhookConfiguration mesh)"
DEFAULTS = "default of the API server"


class Typed:
    """The command, typed in a folder of its own about a namespace of its own."""

    def __init__(self, served: Served, namespace: str, folder: Path) -> None:
        self.served, self.namespace, self.folder = served, namespace, folder

    def run(self, *objects: JSON, words: tuple[str, ...] = (), user: str = "admin", code: int = 0) -> str:
        (self.folder / "given.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
        kubeconfig = self.served.kubeconfig() if user == "admin" else self.served.kubeconfig(user, ())
        command = ("explain", "-f", "given.json", "-n", self.namespace, "--server-dry-run", *words)
        answer = berth(*command, KUBECONFIG=str(kubeconfig))
        assert answer.returncode == code, answer.stdout + answer.stderr
        return answer.stdout + answer.stderr * ("json" not in words)

    def trials(self, *objects: JSON, **options: Any) -> list[JSON]:
        return list(json.loads(self.run(*objects, words=("-o", "json"), **options))["trials"])


@pytest.fixture
def typed(served: Served, namespace: str, manifests: Path) -> Typed:
    return Typed(served, namespace, manifests)


def register(typed: Typed, hook: Hook, name: str, *, phase: str = "mutating", **fields: Any) -> None:
    """A webhook for new Pods of the namespace of the test."""
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    webhook = {
        "name": f"pods.{name}.test",
        "clientConfig": hook.client(name),
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": typed.namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }
    made = typed.served.request(
        "POST", f"{BASE}/{phase}webhookconfigurations", {"metadata": {"name": name}, "webhooks": [webhook]}
    )
    assert made.status == 201, made.body


def by_field(trial: JSON) -> dict[str, list[str]]:
    return {change["field"]: change["by"] for change in trial["changes"]}


def nothing_was_written(typed: Typed) -> None:
    for path in ("/api/v1/namespaces/{}/pods", "/apis/apps/v1/namespaces/{}/deployments"):
        assert typed.served.request("GET", path.format(typed.namespace)).body["items"] == []


def test_fields_are_told_by_who_changed_them(typed: Typed, hook: Hook) -> None:
    register(typed, hook, "mesh")
    hook.answer = lambda _: {**patching(SIDECAR, LABEL), "warnings": ["meshed"]}
    (trial,) = typed.trials(POD)
    origins = by_field(trial)
    assert (trial["admitted"], trial["warnings"]) == (True, ["meshed"])
    assert (origins["spec.containers[proxy]"], origins["metadata.labels.mesh"]) == ([MESH], [MESH])
    assert origins["spec.restartPolicy"] == origins["spec.containers[c].imagePullPolicy"] == [DEFAULTS]
    assert origins["spec.priority"] == ["admission plugin Priority"]
    assert origins["spec.tolerations[node.kubernetes.io/not-ready]"] == ["admission plugin DefaultTolerationSeconds"]
    assert [review["dryRun"] for review in hook.reviews] == [True]
    nothing_was_written(typed)


def test_the_text_has_a_group_for_each_of_them_in_the_order_of_the_api_server(typed: Typed, hook: Hook) -> None:
    register(typed, hook, "mesh")
    hook.answer = lambda _: patching(LABEL)
    text = typed.run(POD)
    lines = text.splitlines()
    assert f"Pod {typed.namespace}/web (given.json:1 item 1): server dry run: would be admitted" in lines
    groups = [line for line in lines if line.startswith("  ") and not line.startswith("    ")]
    assert groups[0] == f"  {DEFAULTS}"
    assert [group for group in groups if group.startswith(("  admission", "  webhook"))][-1] == f"  {MESH}"
    assert lines[lines.index(f"  {MESH}") + 1] == '    metadata.labels.mesh: "on"'
    difference = typed.run(POD, words=("-o", "diff"))
    assert "+  labels:\n+    mesh: 'on'\n" in difference
    assert f"--- Pod {typed.namespace}/web (given.json:1 item 1), as sent\n" in difference


def test_several_webhooks_are_all_named_and_those_that_do_not_match_are_not(typed: Typed, hook: Hook) -> None:
    register(typed, hook, "mesh")
    register(typed, hook, "late")
    register(typed, hook, "other", objectSelector={"matchLabels": {"no": "such"}})
    register(typed, hook, "none", matchConditions=[{"name": "no", "expression": "object.metadata.name == 'no'"}])
    hook.answer = lambda _: patching(LABEL)
    (trial,) = typed.trials(POD)
    late = "webhook pods.late.test (MutatingWebhookConfiguration late)"
    assert by_field(trial)["metadata.labels.mesh"] == [late, MESH]
    assert trial["mutating"] == [late, MESH]


def test_a_workload_is_tried_and_so_is_its_pod(typed: Typed, hook: Hook) -> None:
    register(typed, hook, "mesh")
    hook.answer = lambda _: patching(SIDECAR)
    workload, pod = typed.trials(DEPLOYMENT)
    assert (workload["tried"], pod["tried"]) == ("Deployment", "Pod")
    assert f"the Pod of Deployment {typed.namespace}/web (given.json:1 item 1): server dry run: " in typed.run(
        DEPLOYMENT
    )
    assert "metadata.name" not in by_field(pod)
    assert by_field(workload)["spec.strategy.type"] == [DEFAULTS]
    assert MESH not in workload["mutating"]
    assert by_field(pod)["spec.containers[proxy]"] == [MESH]
    assert {origin for origins in by_field(workload).values() for origin in origins} == {DEFAULTS}
    nothing_was_written(typed)


def test_who_refuses_is_named(typed: Typed, hook: Hook) -> None:
    register(typed, hook, "gate", phase="validating")
    hook.answer = lambda _: {"allowed": False, "status": {"message": "no latest", "code": 403}}
    gate = "webhook pods.gate.test (ValidatingWebhookConfiguration gate)"
    (trial,) = typed.trials(POD, code=1)
    assert (trial["admitted"], trial["refusedBy"], trial["validating"]) == (False, gate, [gate])
    assert trial["message"] == 'admission webhook "pods.gate.test" denied the request: no latest'
    text = typed.run(POD, code=1)
    assert f"server dry run: would be refused by {gate}: {trial['message']}\n" in text
    assert "1 refused" in text


def test_what_admits_is_named_where_it_could_have_refused(typed: Typed, hook: Hook) -> None:
    register(typed, hook, "gate", phase="validating")
    (trial,) = typed.trials(POD)
    assert trial["validating"] == ["webhook pods.gate.test (ValidatingWebhookConfiguration gate)"]


def test_the_validation_of_the_api_server_refuses(typed: Typed, hook: Hook) -> None:
    (trial,) = typed.trials({**POD, "spec": {"containers": [{"name": "C C", "image": "i"}]}}, code=1)
    assert (trial["refusedBy"], "spec.containers[0].name" in trial["message"]) == (
        "the validation of the API server",
        True,
    )


def test_unknown_fields_are_warnings_and_dropped(typed: Typed) -> None:
    (trial,) = typed.trials({**POD, "spec": {**POD["spec"], "nodeSelektor": {}, "replicas": 1}}, code=1)
    assert 'unknown field "spec.replicas"' in trial["warnings"]
    assert by_field(trial)["spec.replicas"] == ["dropped by the API server"]


def test_an_object_that_is_there_is_tried_under_a_generated_name(typed: Typed, hook: Hook) -> None:
    made = typed.served.request("POST", f"/api/v1/namespaces/{typed.namespace}/pods", POD)
    register(typed, hook, "mesh")
    hook.answer = lambda _: patching(LABEL)
    (trial,) = typed.trials(made.body)
    assert (trial["admitted"], by_field(trial)["metadata.labels.mesh"]) == (True, [MESH])
    assert "exists already: tried with generateName web-" in typed.run(POD)


def test_a_right_that_is_missing_is_named(typed: Typed) -> None:
    (trial,) = typed.trials(POD, user="ann", code=3)
    assert trial["admitted"] is None
    assert trial["message"] == f"you have no right to create pods in namespace {typed.namespace}"
    assert "you have no right to list mutatingwebhookconfigurations" in typed.run(POD, user="ann", code=3)


def test_a_webhook_that_speaks_of_rights_has_refused(typed: Typed, hook: Hook) -> None:
    """Its text is its own: it is not that of the API server about the user."""
    register(typed, hook, "rights")
    message = 'user "x" cannot create resource "pods" in API group "" in the namespace "n"'
    hook.answer = lambda _: {"allowed": False, "status": {"code": 403, "message": message}}
    (trial,) = typed.trials(POD, code=1)
    assert trial["refusedBy"] == "webhook pods.rights.test (MutatingWebhookConfiguration rights)"
    assert trial["message"].endswith(message)


def test_a_kind_that_is_not_served_is_said(typed: Typed) -> None:
    template = {"template": {"spec": POD["spec"]}}
    strange = {"apiVersion": "x.test/v1", "kind": "Strange", "metadata": {"name": "s"}, "spec": template}
    first, _ = typed.trials(strange, code=3)
    assert first["message"] == (
        "the API server serves no Strange of x.test/v1: is its definition installed, in this version?"
    )


def test_a_namespace_that_is_not_there_refuses(typed: Typed) -> None:
    (trial,) = typed.trials({**POD, "metadata": {"name": "web", "namespace": "nowhere"}}, code=1)
    assert trial["refusedBy"] == "admission plugin NamespaceLifecycle"


def test_a_webhook_with_side_effects_keeps_dry_runs_out(
    sandboxed: Sandboxed, hook: Hook, manifests: Path, request: pytest.FixtureRequest
) -> None:
    """No API server registers one any more; clusters have them of times when it did."""
    typed = Typed(sandboxed, sandboxed.namespace(), manifests)
    request.addfinalizer(lambda: sandboxed.request("DELETE", f"{BASE}/mutatingwebhookconfigurations/old"))
    register(typed, hook, "old")
    key = ("admissionregistration.k8s.io", "mutatingwebhookconfigurations")

    def age() -> None:
        stored = sandboxed.cluster.storage.get(key, "", "old")
        sandboxed.cluster.storage.update(
            key,
            {**stored, "webhooks": [{**stored["webhooks"][0], "sideEffects": "Some"}]},
            expected=stored["metadata"]["resourceVersion"],
        )

    sandboxed.inside(age)
    (trial,) = typed.trials(POD, code=3)
    assert trial["message"] == (
        "webhook pods.old.test (MutatingWebhookConfiguration old) has sideEffects Some, so that the API server refuses "
        "each dry run for which it is called; this does not concern the creation itself, of which nothing more is known"
    )


@pytest.fixture
def berth_webhook(typed: Typed, pki: Pki, hook: Hook) -> Iterator[Webhook]:
    """Berth, called for Pods of the namespace of the test."""
    folder = typed.folder / "attachments"
    folder.mkdir()
    (folder / "nads.yaml").write_text(ATTACHMENTS)
    webhook = Webhook(pki, *flags_for(pki, folder), "--insecure").until_ready()
    client = {"url": f"{webhook.url}/mutate", "caBundle": base64.b64encode(pki.ca.read_bytes()).decode()}
    body = pods_to(client, name="berth", webhook="pods.berth.dev", terms=Terms(failure_policy="Ignore"))
    body["webhooks"][0]["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": typed.namespace}}
    body["metadata"]["labels"] = {"app.kubernetes.io/part-of": "berth", "app.kubernetes.io/instance": "berth"}
    made = typed.served.request("POST", f"{BASE}/mutatingwebhookconfigurations", body)
    assert made.status == 201, made.body
    yield webhook
    webhook.stop()


NETWORKED = {**POD, "metadata": {"name": "web", "annotations": {"k8s.v1.cni.cncf.io/networks": "default/foo-network"}}}
BERTH = "Berth (pods.berth.dev, MutatingWebhookConfiguration berth)"


def test_what_berth_plans_is_told_from_what_another_webhook_adds(
    typed: Typed, hook: Hook, berth_webhook: Webhook
) -> None:
    register(typed, hook, "mesh")
    hook.answer = lambda _: patching(SIDECAR)
    (trial,) = json.loads(typed.run(NETWORKED, words=("-f", "attachments", "-o", "json")))["trials"]
    origins = by_field(trial)
    assert origins["spec.containers[proxy]"] == [MESH]
    assert origins["spec.containers[c].resources.limits[example.com/foo]"] == [BERTH]
    assert origins["spec.containers[c].resources.requests[example.com/foo]"] == [BERTH]
    assert {tuple(by) for field, by in origins.items() if "podnetinfo" in field} == {(BERTH,)}
    assert (trial["mutating"], trial["missing"]) == ([BERTH, MESH], [])


def test_what_berth_plans_and_the_cluster_lacks_is_a_warning(typed: Typed, berth_webhook: Webhook) -> None:
    """With failurePolicy Ignore the API server goes on without Berth."""
    berth_webhook.stop()
    text = typed.run(NETWORKED, words=("-f", "attachments"))
    path = "spec.containers[c].resources.limits[example.com/foo]"
    assert f"{path}: Berth plans this, and the answer of the API server does not have it\n" in text


@pytest.mark.parametrize("words", [("--offline",), ()])
def test_without_a_cluster_the_flag_is_a_mistake(manifests: Path, words: tuple[str, ...]) -> None:
    answer = berth("explain", "-f", "plain.yaml", "--server-dry-run", *words, KUBECONFIG="")
    assert (answer.returncode, answer.stderr.startswith("Error: --server-dry-run: ")) == (2, True)


def test_forms_that_are_of_berth_alone_are_refused(manifests: Path) -> None:
    answer = berth("explain", "-f", "plain.yaml", "--server-dry-run", "-o", "patch")
    assert answer.stderr == "Error: --server-dry-run: has no form patch: want -o text, json, yaml, diff\n"


def create(typed: Typed, path: str, **body: Any) -> None:
    made = typed.served.request("POST", path, body)
    assert made.status == 201, made.body


def policy(typed: Typed, request: pytest.FixtureRequest, phase: str, name: str, spec: JSON, **binding: Any) -> None:
    """One for new Pods of the namespace of the test, with its binding."""
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": typed.namespace}}
    constraints = {"resourceRules": [rule], "namespaceSelector": selector}
    plural = f"{phase}admissionpolic"
    create(typed, f"{BASE}/{plural}ies", metadata={"name": name}, spec={"matchConstraints": constraints, **spec})
    request.addfinalizer(lambda: typed.served.request("DELETE", f"{BASE}/{plural}ies/{name}"))
    bound = {"policyName": name, **binding}
    create(typed, f"{BASE}/{plural}ybindings", metadata={"name": f"{name}-everywhere"}, spec=bound)
    request.addfinalizer(lambda: typed.served.request("DELETE", f"{BASE}/{plural}ybindings/{name}-everywhere"))


def answer_of(typed: Typed) -> Any:
    """What the API server makes of the Pod, to wait until a policy is in force."""
    return typed.served.request("POST", f"/api/v1/namespaces/{typed.namespace}/pods?dryRun=All", POD)


@ON_REAL
def test_a_policy_that_refuses_is_named_with_its_binding(typed: Typed, request: pytest.FixtureRequest) -> None:
    rules = {"validations": [{"expression": "object.metadata.name != 'web'", "message": "no web"}]}
    policy(typed, request, "validating", "names", rules, validationActions=["Deny"])
    other = {"validations": [{"expression": "true"}], "matchConditions": [{"name": "no", "expression": "false"}]}
    policy(typed, request, "validating", "never", other, validationActions=["Deny"])
    wait_until(lambda: answer_of(typed).status == 422)
    (trial,) = typed.trials(POD, code=1)
    assert trial["refusedBy"] == "ValidatingAdmissionPolicy names (binding names-everywhere)"
    assert trial["message"].endswith("denied request: no web")
    silent = "ValidatingAdmissionPolicy names (ValidatingAdmissionPolicyBinding names-everywhere: Deny)"
    assert trial["validating"] == [silent]
    (trial,) = typed.trials({**POD, "metadata": {"name": "api"}})
    assert (trial["admitted"], trial["validating"]) == (True, [silent])


@ON_REAL
def test_what_a_policy_warns_of_is_shown(typed: Typed, request: pytest.FixtureRequest) -> None:
    rules = {"validations": [{"expression": "false", "message": "not here"}]}
    policy(typed, request, "validating", "warns", rules, validationActions=["Warn"])
    wait_until(lambda: "Warning" in answer_of(typed).headers)
    (trial,) = typed.trials(POD)
    assert trial["warnings"] == [
        "Validation failed for ValidatingAdmissionPolicy 'warns' with binding 'warns-everywhere': not here"
    ]


@ON_REAL
def test_what_a_policy_changes_is_told_from_what_a_webhook_adds(
    typed: Typed, hook: Hook, request: pytest.FixtureRequest
) -> None:
    """A field that the expressions of the policy do not name is not its doing."""
    expression = "Object{metadata: Object.metadata{labels: {'team': 'a'}}}"
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
    policy(typed, request, "mutating", "teams", {"mutations": [mutation], "reinvocationPolicy": "Never"})
    register(typed, hook, "mesh")
    hook.answer = lambda _: patching(SIDECAR)
    wait_until(lambda: "labels" in answer_of(typed).body["metadata"])
    (trial,) = typed.trials(POD)
    teams = "MutatingAdmissionPolicy teams (MutatingAdmissionPolicyBinding teams-everywhere)"
    assert trial["mutating"] == [teams, MESH]
    assert by_field(trial)["spec.containers[proxy]"] == [MESH]
    assert by_field(trial)["metadata.labels.team"] == [teams, MESH]


@ON_REAL
def test_a_policy_that_fails_is_named(typed: Typed, request: pytest.FixtureRequest) -> None:
    patch = {"expression": "[JSONPatch{op: 'remove', path: '/spec/nope'}]"}
    mutation = {"patchType": "JSONPatch", "jsonPatch": patch}
    policy(typed, request, "mutating", "breaks", {"mutations": [mutation], "reinvocationPolicy": "Never"})
    wait_until(lambda: answer_of(typed).status >= 400)
    (trial,) = typed.trials(POD, code=1)
    assert trial["refusedBy"] == "MutatingAdmissionPolicy breaks (binding breaks-everywhere)"


@ON_REAL
def test_limits_and_pod_security_are_told(typed: Typed) -> None:
    limit = {"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "250m"}}
    create(typed, f"/api/v1/namespaces/{typed.namespace}/limitranges", metadata={"name": "l"}, spec={"limits": [limit]})
    wait_until(lambda: "annotations" in answer_of(typed).body["metadata"])
    (trial,) = typed.trials(POD)
    limited = {field for field, by in by_field(trial).items() if by == ["admission plugin LimitRanger"]}
    assert limited == {
        "metadata.annotations[kubernetes.io/limit-ranger]",
        "spec.containers[c].resources.limits.cpu",
        "spec.containers[c].resources.requests.cpu",
    }
    labels = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    merge = "application/merge-patch+json"
    typed.served.request("PATCH", f"/api/v1/namespaces/{typed.namespace}", labels, content_type=merge)
    wait_until(lambda: answer_of(typed).status == 403)
    (trial,) = typed.trials(POD, code=1)
    assert trial["refusedBy"] == "admission plugin PodSecurity"


@pytest.mark.conformance
@pytest.mark.skipif(not has_control_plane(_ASSETS), reason="needs a real control plane")
async def test_the_token_of_the_service_account_is_of_its_plugin(manifests: Path, tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    async with started(tmp_path / "cluster", real=True, accounts=True) as made:
        await eventually(lambda: get_or_none(made.client, SERVICE_ACCOUNTS, "default", namespace=NAMESPACE), bool)
        (manifests / "given.json").write_text(json.dumps(POD))
        words = ("-f", "given.json", "-n", NAMESPACE, "--server-dry-run", "-o", "json")
        answer = await asyncio.to_thread(berth, "explain", *words, KUBECONFIG=str(made.kubeconfig))
    (trial,) = json.loads(answer.stdout)["trials"]
    by_plugin = {field for field, by in by_field(trial).items() if by == ["admission plugin ServiceAccount"]}
    token = next(field for field in by_plugin if field.startswith("spec.volumes[kube-api-access-"))
    assert by_plugin == {
        "spec.serviceAccountName",
        "spec.serviceAccount",
        token,
        f"spec.containers[c].volumeMounts[{token.removeprefix('spec.volumes[')}",
    }
    assert {by for who in by_field(trial).values() for by in who if not by.startswith("admission plugin ")} == {
        DEFAULTS
    }
