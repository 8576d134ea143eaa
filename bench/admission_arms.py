"""What is compared at one API server: an arm is a namespace, what admits its Pods, and the Pod that is created there.

The registration of the webhook is the chart's, with a URL in place of the Service and the namespace of its arms in
place of all namespaces. The policies are those of `berth policies generate`, bound in the same way.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import aiohttp
import helm_python
import yaml

from app.devtools.clusters.definitions import install
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import MUTATING_WEBHOOKS, NAMESPACES, NETWORK_ATTACHMENTS, PODS, Resource
from app.kube.transport import connect
from app.wire import load_yaml
from bench.creations import Arm, Server
from bench.servers import ROOT, ServerError
from bench.surroundings import RESOURCES, Surroundings, attachment
from tests.support.chart import rendering

JSON = dict[str, Any]
_KINDS = {
    kind: Resource("admissionregistration.k8s.io", "v1", plural, kind, namespaced=False)
    for kind, plural in (
        ("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
        ("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    )
}
_ADMITTED_BY = "bench.berth.dev/admitted-by"
"""The label of a namespace that says what admits its Pods."""
_POD = ROOT / "examples" / "webhook-demo.yaml"
_NOTHING = 'false ? [JSONPatch{op: "add", path: "/metadata/labels", value: {}}] : []'
"""A list of no operations; the API server wants the type of its elements."""
_DEVICES = {"example.com/foo": "2"}
_ADDED = {
    "/spec/containers/0/resources": {"limits": _DEVICES, "requests": _DEVICES},
    "/spec/containers/0/volumeMounts": [{"name": "podnetinfo", "readOnly": True, "mountPath": "/etc/podnetinfo"}],
    "/spec/volumes": [
        {
            "name": "podnetinfo",
            "downwardAPI": {"items": [{"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}}]},
        }
    ],
}
"""What Berth adds to the Pod."""


def _cel(value: object) -> str:
    """JSON as CEL; values of a map may differ in their types."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(key)}: dyn({_cel(member)})' for key, member in value.items())}}}"
    return f"[{', '.join(map(_cel, value))}]" if isinstance(value, list) else json.dumps(value)


def _patch(added: dict[str, object]) -> str:
    operations = (f'JSONPatch{{op: "add", path: "{path}", value: {_cel(value)}}}' for path, value in added.items())
    return f"[{', '.join(operations)}]"


_IN_FORCE_SECONDS = 60.0
_PATIENCE = aiohttp.ClientTimeout(total=600)
_SERIES = re.compile(
    r"^apiserver_(?:admission_webhook_admission|mutating_admission_policy_check|admission_match_condition_evaluation)"
    r"_(?:duration_)?seconds_(sum|count)\{(.*)\} (\S+)$"
)


def _pod(*, networks: bool) -> str:
    """The Pod of `examples/webhook-demo.yaml`; without networks it asks for nothing."""
    pod = load_yaml(_POD.read_text())
    pod["metadata"]["name"] = "webhook-demo-{n}"
    if not networks:
        del pod["metadata"]["annotations"]
    return json.dumps(pod)


_ASKS, _PLAIN = _pod(networks=True), _pod(networks=False)
ARMS = {
    arm.name: arm
    for arm in (
        Arm("none", "bench-none", _ASKS),
        Arm("webhook", "bench-webhook", _ASKS),
        Arm("empty webhook", "bench-empty", _ASKS),
        Arm("policies", "bench-policies", _ASKS),
        Arm("identity policy", "bench-identity", _ASKS),
        Arm("constant policy", "bench-constant", _ASKS),
        Arm("none, plain Pod", "bench-none", _PLAIN),
        Arm("webhook, plain Pod", "bench-webhook", _PLAIN),
    )
}
"""By name. A plain Pod asks for nothing: the match conditions of the registration leave it out."""
PAIRS = (
    ("webhook", "none"),
    ("empty webhook", "none"),
    ("webhook", "empty webhook"),
    ("policies", "none"),
    ("identity policy", "none"),
    ("policies", "identity policy"),
    ("policies", "constant policy"),
    ("webhook, plain Pod", "none, plain Pod"),
)
"""The differences that are told."""


def namespaces_of(names: Collection[str]) -> list[str]:
    return sorted({ARMS[name].namespace for name in names})


class Registrar:
    """Prepares the API server of a kubeconfig for the arms."""

    def __init__(self, kubeconfig: Path, around: Surroundings, *, attachments: int) -> None:
        self._kubeconfig, self._around, self._attachments = kubeconfig, around, attachments
        self.server = Server.of(kubeconfig)

    async def prepare(self) -> None:
        """Namespaces, and attachments in each of them."""
        async with await connect(kubeconfig=str(self._kubeconfig)) as client:
            await install(client, [NETWORK_ATTACHMENTS])
            for name in namespaces_of(ARMS):
                labels = {_ADMITTED_BY: name.removeprefix("bench-")}
                await client.apply(NAMESPACES, name, NAMESPACES.body({"name": name, "labels": labels}))
                for number in range(self._attachments):
                    body = self._attachment(name, number)
                    await client.apply(NETWORK_ATTACHMENTS, body["metadata"]["name"], body, namespace=name)

    @staticmethod
    def _attachment(namespace: str, number: int) -> JSON:
        """The attachments that the Pods select come first."""
        named = list(RESOURCES.items())
        name, resource = (
            named[number] if number < len(named) else (f"network-{number}", f"example.com/pool-{number % 16}")
        )
        body: JSON = attachment(namespace, name, resource)
        del body["metadata"]["resourceVersion"]
        return body

    async def register(self, *, berth: int, empty: int, arms: Collection[str]) -> None:
        """Have the API server ask Berth and the empty webhook at these ports, and evaluate the policies."""
        chart = helm_python.Chart.load(ROOT / "charts" / "berth")
        (configuration,) = rendering(chart)({}).of("MutatingWebhookConfiguration")
        (webhook,) = [entry for entry in configuration["webhooks"] if entry["name"] == "pods.berth.dev"]
        async with await connect(kubeconfig=str(self._kubeconfig)) as client:
            for name, port in (("webhook", berth), ("empty", empty)):
                entry = webhook | {
                    "name": f"{name}.bench.berth.dev",
                    "clientConfig": {
                        "url": f"https://127.0.0.1:{port}/mutate",
                        "caBundle": base64.b64encode(self._around.certificate.read_bytes()).decode(),
                    },
                    "namespaceSelector": {"matchLabels": {_ADMITTED_BY: name}},
                }
                body = MUTATING_WEBHOOKS.body({"name": f"bench-{name}"}, webhooks=[entry])
                await client.apply(MUTATING_WEBHOOKS, body["metadata"]["name"], body)
            fixed = [*_fixed("identity", webhook, _NOTHING), *_fixed("constant", webhook, _patch(_ADDED))]
            for body in [*fixed, *(self._policies() if "policies" in arms else ())]:
                await client.apply(_KINDS[body["kind"]], body["metadata"]["name"], body)
            for name in ("webhook", "policies"):
                if name in arms:
                    await self._in_force(client, ARMS[name])

    @staticmethod
    async def _in_force(client: KubeClient, arm: Arm) -> None:
        """Return when the Pods of an arm get what their networks need: an API server learns of that a while later."""
        body, end = json.loads(arm.body.replace("{n}", "first")), time.monotonic() + _IN_FORCE_SECONDS
        while time.monotonic() < end:
            # Until the policies inject, those that check refuse the Pod.
            with contextlib.suppress(ApiError):
                pod, _ = await client.dry_run(PODS, body, namespace=arm.namespace)
                limits = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
                if limits.keys() & set(RESOURCES.values()):
                    return
            await asyncio.sleep(0.2)
        raise ServerError(f"{arm.name}: its Pods do not get their resources within {_IN_FORCE_SECONDS:g} s")

    def _policies(self) -> list[JSON]:
        """What Berth generates from the attachments of the arm, bound to its namespace alone."""
        manifests = self._around.directory / "attachments.yaml"
        bodies = [self._attachment("bench-policies", number) for number in range(self._attachments)]
        manifests.write_text("\n---\n".join(json.dumps(body) for body in bodies))
        command = [sys.executable, "-m", "app", "policies", "generate", "-f", str(manifests)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ServerError(f"berth policies generate: {done.stderr}")
        bodies = list(yaml.safe_load_all(done.stdout))
        for body in bodies:
            if body["kind"].endswith("Binding"):
                body["spec"]["matchResources"] = {"namespaceSelector": {"matchLabels": {_ADMITTED_BY: "policies"}}}
        return bodies

    async def admission_seconds(self) -> dict[str, tuple[float, float]]:
        """Seconds and calls so far, by the name of the webhook or the policy, as the API server counts them."""
        return sums_of(await self._raw("GET", "/metrics"))

    async def delete_pods(self, namespaces: Collection[str]) -> None:
        for namespace in namespaces:
            await self._raw("DELETE", f"{PODS.path(namespace=namespace)}?gracePeriodSeconds=0")

    async def _raw(self, method: str, path: str) -> str:
        """What Berth's own client does not ask for."""
        server = self.server
        async with (
            aiohttp.ClientSession(timeout=_PATIENCE) as session,
            session.request(method, f"https://{server.host}:{server.port}{path}", ssl=server.tls) as answer,
        ):
            answer.raise_for_status()
            return await answer.text()


def sums_of(text: str) -> dict[str, tuple[float, float]]:
    """The sums and counts of the API server's histograms of admission, by what was called."""
    sums: dict[str, list[float]] = {}
    for line in text.splitlines():
        if series := _SERIES.match(line):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', series[2]))
            name = labels.get("name") or labels.get("policy") or ""
            sums.setdefault(name, [0.0, 0.0])[series[1] == "count"] += float(series[3])
    return {name: (seconds, count) for name, (seconds, count) in sums.items()}


def _fixed(arm: str, webhook: JSON, patch: str) -> list[JSON]:
    """A policy for the same Pods that looks at nothing of them: the least that any policy with this patch costs."""
    name = f"bench-{arm}.berth.dev"
    policy = _KINDS["MutatingAdmissionPolicy"].body(
        {"name": name},
        spec={
            "matchConstraints": {"resourceRules": webhook["rules"]},
            "matchConditions": webhook.get("matchConditions", []),
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
        },
    )
    selector = {"namespaceSelector": {"matchLabels": {_ADMITTED_BY: arm}}}
    return [
        policy,
        _KINDS["MutatingAdmissionPolicyBinding"].body(
            {"name": name}, spec={"policyName": name, "matchResources": selector}
        ),
    ]
