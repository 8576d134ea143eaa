"""Two real API servers that judge the same Pods: one calls the real webhook, the other has the policies."""

from __future__ import annotations

import base64
import contextlib
import copy
import json
import ssl
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import urllib3
import yaml

from app.kube.resources import MUTATING_WEBHOOKS
from app.policies.model import Registration, Terms
from app.policies.objects import CONDITION, POLICIES_OF, Generated, generate
from app.policies.terms import WEBHOOK
from tests.support.chart import Render
from tests.support.real_apiserver import real_api_servers
from tests.support.waiting import PATIENCE
from tests.support.webhook_process import Pki, Webhook

JSON = dict[str, Any]
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
BY_WEBHOOK, BY_POLICY = "webhook", "policies"
_EVALUATIONS = "apiserver_mutating_admission_policy_check_total{"
_OWN = ("uid", "creationTimestamp", "managedFields", "generation", "resourceVersion")
"""Members of the metadata that differ between any two Pods."""
PROBES = "probes"
"""The namespace of the Pods that show which policies are in force."""


class Verdict(NamedTuple):
    """What an API server makes of a Pod: it as it is stored, None for one that is refused, and by what."""

    pod: JSON | None
    by: str = ""
    message: str = ""

    @property
    def left(self) -> bool:
        """Whether policies leave it to the webhook."""
        return self.by == "left"


class Api:
    """An API server as its administrator sees it."""

    def __init__(self, kubeconfig: Path) -> None:
        directory = kubeconfig.parent
        context = ssl.create_default_context(cafile=str(directory / "ca.crt"))
        context.load_cert_chain(directory / "admin.crt", directory / "admin.key")
        self._pool = urllib3.PoolManager(ssl_context=context, retries=False, maxsize=8)
        self._url = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]

    def call(self, method: str, path: str, body: object = None, *, kind: str = "application/json") -> tuple[int, Any]:
        content = None if body is None else json.dumps(body).encode()
        answer = self._pool.request(method, self._url + path, body=content, headers={"Content-Type": kind})
        return answer.status, json.loads(answer.data)

    def evaluations(self) -> int:
        """How often it has evaluated mutations of policies."""
        answer = self._pool.request("GET", f"{self._url}/metrics")
        lines = answer.data.decode().splitlines()
        return sum(int(float(line.rpartition(" ")[2])) for line in lines if line.startswith(_EVALUATIONS))

    def apply(self, obj: JSON) -> None:
        """As `kubectl apply --server-side`."""
        kind = obj["kind"]
        plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
        path = f"{ADMISSION}/{plural.lower()}/{obj['metadata']['name']}?fieldManager=test&force=true"
        status, answer = self.call("PATCH", path, obj, kind="application/apply-patch+yaml")
        assert status in (200, 201), answer["message"]

    def make_namespaces(self, names: Sequence[str], labels: dict[str, str] | None = None) -> None:
        for name in names:
            status, answer = self.call(
                "POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels or {}}}
            )
            assert status in (201, 409), answer

    def judged(self, pod: JSON, namespace: str) -> Verdict:
        """The Pod as a dry run creates it."""
        status, answer = self.call("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
        if status == 201:
            answer["metadata"] = {key: value for key, value in answer["metadata"].items() if key not in _OWN}
            return Verdict(answer)
        message = answer["message"]
        if "ValidatingAdmissionPolicy 'berth-left'" in message:
            return Verdict(None, "left", message)
        return Verdict(None, "admission" if "admission" in message.lower() or status == 400 else "validation", message)


class Stage:
    """What both API servers have. Pods of all namespaces but those that the chart exempts are reviewed."""

    def __init__(self, webhook: Api, policies: Api, entry: JSON, directory: Path) -> None:
        self.webhook, self.policies = webhook, policies
        self.registration = Registration.of(entry)
        self.generated = Generated()
        self._entry, self._directory, self._called = entry, directory, JSON()
        self._pki = Pki(directory / "pki")
        self._running: Webhook | None = None
        self._round = 0
        self.last = Verdict(None)
        for api in (webhook, policies):
            api.make_namespaces([PROBES])

    def serve(
        self,
        attachments: Sequence[JSON],
        terms: Terms,
        *flags: str,
        switches: JSON | None = None,
        entry: JSON | None = None,
    ) -> None:
        """Have the webhook and the policies serve these attachments; returns when both do.

        The API server with policies calls the webhook for what they leave, in the mode `both`.
        """
        self._round += 1
        entry = entry or self._entry
        probe = network(f"probe-{self._round}", f"example.com/probe-{self._round}", PROBES)
        every = [*attachments, probe]
        self._serve_webhook(every, entry, *flags, switches=switches)
        self.generated = generate(every, replace(terms, registration=Registration.of(entry)))
        both = terms.mode == "both"
        if both:
            self._remove("validatingadmissionpolicybindings/berth-left")
        self._remove("mutatingwebhookconfigurations/berth")
        for obj in self.generated.objects:
            self.policies.apply(obj)
        name = f"probe-{self._round}"
        expected = [(name, ""), (f"{name}@lo", "admission")]
        expected += [] if both else [(f'[{{"name": "{name}"}}]', "left")]
        for value, by in expected:
            pod = pod_with(value)
            self._until(lambda pod=pod, by=by: self._in_force(pod, by))
        if both:
            left = {"name": CONDITION, "expression": self.generated.condition}
            conditions = [*entry.get("matchConditions", []), left]
            called = entry | {"clientConfig": self._called, "matchConditions": conditions}
            self.policies.apply(MUTATING_WEBHOOKS.body({"name": "berth"}, webhooks=[called]))
            pod = pod_with(f'[{{"name": "probe-{self._round}"}}]')
            self._until(lambda: "podnetinfo" in json.dumps(self.policies.judged(pod, PROBES).pod))

    def _remove(self, path: str) -> None:
        status, answer = self.policies.call("DELETE", f"{ADMISSION}/{path}")
        assert status in (200, 404), answer

    def remove_policies(self) -> None:
        """Returns when no policy serves Pods any more, so that the webhook is called for them."""
        kinds = ("mutatingadmissionpolicybindings", "validatingadmissionpolicybindings")
        kinds += ("mutatingadmissionpolicies", "validatingadmissionpolicies")
        for kind in kinds:
            status, answer = self.policies.call("DELETE", f"{ADMISSION}/{kind}?labelSelector={POLICIES_OF}")
            assert status == 200, answer
        pod = pod_with(f"probe-{self._round}")
        before = self.reviews
        self._until(lambda: self.policies.judged(pod, PROBES).pod is not None and self.reviews > before)

    @property
    def reviews(self) -> int:
        """How many reviews the webhook has answered."""
        assert self._running is not None
        return int(
            sum(value for name, value in self._running.metrics().items() if name.startswith("admission_requests_total"))
        )

    def _in_force(self, pod: JSON, by: str) -> bool:
        self.last = verdict = self.policies.judged(pod, PROBES)
        return verdict.by == by and (by != "" or "podnetinfo" in json.dumps(verdict.pod))

    def _serve_webhook(self, attachments: Sequence[JSON], entry: JSON, *flags: str, switches: JSON | None) -> None:
        self.stop()
        directory = self._directory / f"manifests-{self._round}"
        directory.mkdir()
        objects = list(attachments)
        if switches is not None:
            metadata = {"name": "nri-control-switches", "namespace": "kube-system"}
            data = {"config.json": json.dumps(switches)}
            objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        (directory / "objects.yaml").write_text(yaml.safe_dump_all(objects))
        pki = self._pki
        files = (f"--tls-cert-file={pki.certificate}", f"--tls-private-key-file={pki.key}", f"--manifests={directory}")
        ports = ("--bind-address=127.0.0.1", "--port=0", "--health-check-port=0", "--insecure")
        self._running = Webhook(pki, *ports, *files, *flags).until_ready()
        called = {
            "url": f"https://localhost:{self._running.address[1]}/mutate",
            "caBundle": base64.b64encode(pki.ca.read_bytes()).decode(),
        }
        self._called = called
        self.webhook.apply(MUTATING_WEBHOOKS.body({"name": "berth"}, webhooks=[entry | {"clientConfig": called}]))
        pod = pod_with(f"probe-{self._round}")
        self._until(lambda: "podnetinfo" in json.dumps(self.webhook.judged(pod, PROBES).pod))

    def _until(self, true: Any) -> None:
        pause, patience = threading.Event(), int(PATIENCE / 0.2)
        assert any(true() or pause.wait(0.2) for _ in range(patience)), self.last

    def judged(self, pod: JSON, namespace: str) -> tuple[Verdict, Verdict]:
        """What webhook and policies make of it."""
        return self.webhook.judged(pod, namespace), self.policies.judged(pod, namespace)

    def again(self, verdict: Verdict, namespace: str) -> Verdict:
        """What the policies make of a Pod that is as they made it."""
        pod = copy.deepcopy(verdict.pod)
        assert pod is not None
        pod.pop("status", None)
        return self.policies.judged(pod, namespace)

    def stop(self) -> None:
        if self._running is not None:
            self._running.stop()


@contextlib.contextmanager
def policy_stage(assets: Path, directory: Path, entry: JSON) -> Iterator[Stage]:
    """`entry` is the webhook for Pods, as the chart registers it."""
    with real_api_servers(assets, directory, [BY_WEBHOOK, BY_POLICY]) as kubeconfigs:
        stage = Stage(Api(kubeconfigs[BY_WEBHOOK]), Api(kubeconfigs[BY_POLICY]), entry, directory)
        try:
            yield stage
        finally:
            stage.stop()


def chart_entry(render: Render, *labels: str) -> JSON:
    """The webhook for Pods, as the chart registers it where these labels inject."""
    configuration = render({"webhook": {"injectionLabels": list(labels)}}).one("MutatingWebhookConfiguration")
    return next(webhook for webhook in configuration["webhooks"] if webhook["name"] == WEBHOOK)


def network(name: str, resource: str = "", namespace: str = "default", **annotations: str) -> JSON:
    """A NetworkAttachmentDefinition."""
    values = {"k8s.v1.cni.cncf.io/resourceName": resource} if resource else {}
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name, "namespace": namespace, "annotations": values | annotations},
    }


def pod_with(networks: str | None, **spec: Any) -> JSON:
    """A Pod of one container that selects these networks."""
    annotations = {} if networks is None else {"k8s.v1.cni.cncf.io/networks": networks}
    container = {"name": "app", "image": "registry.example/app"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "demo", "annotations": annotations},
        "spec": {"containers": [container], **spec},
    }


def late_networks(networks: str) -> list[JSON]:
    """A policy that adds the annotation to Pods without one when those of Berth have run, as webhooks of others do."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    annotations = f"{{'k8s.v1.cni.cncf.io/networks': '{networks}'}}"
    expression = f"Object{{metadata: Object.metadata{{annotations: {annotations}}}}}"
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "bare", "expression": "!has(object.metadata.annotations)"}],
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
    }
    shared = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "late"}}
    return [
        shared | {"kind": "MutatingAdmissionPolicy", "spec": spec},
        shared | {"kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": "late"}},
    ]
