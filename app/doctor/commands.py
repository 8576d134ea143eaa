"""The commands that findings name, written once. Each can be pasted into a shell as it stands. Pure."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from app.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from app.wire import encode_json

if TYPE_CHECKING:
    from app.doctor.cluster import Cluster
    from app.doctor.webhooks import Registered
    from app.wire import JSON

CHART = "charts/berth"


def helm_upgrade(cluster: Cluster, *values: str) -> str:
    """The release as it is, with these values (`key=value`) changed."""
    changed = "".join(f" --set {shlex.quote(value)}" for value in values)
    return f"helm upgrade {cluster.release} {CHART} --namespace {cluster.namespace} --reset-then-reuse-values{changed}"


def helm_install(cluster: Cluster, *values: str) -> str:
    changed = "".join(f" --set {shlex.quote(value)}" for value in values)
    return (
        f"helm upgrade --install {cluster.release} {CHART} --namespace {cluster.namespace} --create-namespace{changed}"
    )


def helm(cluster: Cluster, *values: str, present: bool) -> str:
    """Upgrades the release where it is `present`; else installs it, for which an upgrade alone would find nothing."""
    return helm_upgrade(cluster, *values) if present else helm_install(cluster, *values)


def unregister(*names: str) -> str:
    """The command that deletes webhook configurations, so that Pods can be created although no webhook answers."""
    kinds = f"{MUTATING_WEBHOOKS.kind},{VALIDATING_WEBHOOKS.kind}".lower()
    return shlex.join(["kubectl", "delete", kinds, *dict.fromkeys(names), "--ignore-not-found"])


def certs_install(namespace: str, name: str, *, failure_policy: str = "Fail") -> str:
    """Writes Secret, Service and registrations of an installation without the chart again."""
    flags = f"--namespace {namespace} --name {name} --failure-policy {failure_policy}"
    return f'berth certs install {flags} --dir "$(mktemp -d)"'


def restart(namespace: str, deployment: str) -> str:
    return f"kubectl --namespace {namespace} rollout restart deployment/{deployment}"


def patch_webhook(one: Registered, field: str, value: object) -> str:
    """Sets one field of one webhook; the name is tested, so that another that took its place stays as it is."""
    test = {"op": "test", "path": f"/webhooks/{one.index}/name", "value": one.webhook.get("name")}
    operation = {"op": "add", "path": f"/webhooks/{one.index}/{field}", "value": value}
    return patch_configuration(one, [test, operation])


def patch_configuration(one: Registered, operations: list[JSON]) -> str:
    """Changes the configuration that a webhook is in, by a JSON patch."""
    patch = shlex.quote(encode_json(operations).decode())
    return f"kubectl patch {one.resource.plural} {one.name} --type=json --patch {patch}"


def patch_trust(one: Registered, namespace: str, secret: str, *, key: str) -> str:
    """Has a configuration trust the CA that a Secret holds; `key` is the name under which it holds it."""
    reading = f"kubectl --namespace {namespace} get secret {secret} --output"
    template = f"go-template={{{{index .data {encode_json(key).decode()} | base64decode}}}}"
    service = f" --service {one.service[0]}/{one.service[1]}" if one.service else ""
    return f"{reading} {shlex.quote(template)} | berth certs patch --ca /dev/stdin{service} {one.name}"


def describe_pods(namespace: str, selector: dict[str, str]) -> str:
    """What keeps Pods from being ready is in their events."""
    labels = ",".join(f"{key}={value}" for key, value in selector.items())
    return f"kubectl --namespace {namespace} describe pods --selector {shlex.quote(labels)}"
