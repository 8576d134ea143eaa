"""The commands that findings name and that depend on how Berth is installed. Each can be pasted into a shell.

Commands that are always the same are in the catalog.

Helm 4 uses server-side apply: its next upgrade fails with a conflict on a field that kubectl has written. Helm 3
overwrites such a field. For objects of the chart, a command therefore applies the release's own manifest under the name
of Helm's field manager. Wrong values of the release are changed by `helm upgrade`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from app.doctor import objects
from app.doctor.cluster import Cluster
from app.doctor.installed import Installed
from app.doctor.objects import COMPONENT, labels, plural
from app.doctor.webhooks import Registered
from app.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from app.kube.secrets import FILES
from app.wire import JSON, encode_json

_CHART = "charts/berth"


def kubectl(*words: str, namespace: str = "") -> str:
    """A command line of kubectl, each word quoted where the shell wants it."""
    return shlex.join(["kubectl", *(["--namespace", namespace] if namespace else []), *words])


def set_label(kind: str, name: str, key: str, value: str, *, namespace: str = "") -> str:
    return kubectl("label", kind, name, f"{key}={value}", "--overwrite", namespace=namespace)


def edit(resource: Resource, name: str, *, namespace: str = "") -> str:
    return kubectl("edit", plural(resource), name, namespace=namespace)


_SHOWS = re.compile(
    r"(berth (doctor|explain|status|tenant (list|show))|kubectl (auth (can-i|whoami)|describe|get|logs|top)|grep"
    r"|sed(?!.* (--in-place|-[a-zA-Z]*i)))(?=\s|$)(?!.*(>|\$\(|`))"
)
"""Not what writes a file, or calls another command for its arguments."""
_FLAGS_BEFORE = re.compile(r"(?<=^kubectl)( --(namespace|context|kubeconfig)[ =]\S+)+")


def shows_only(command: str) -> bool:
    """Whether a command, each part of it, reads and changes nothing: it shows a cause, and does not end it."""
    parts = [part.strip() for part in re.split(r"&&|[|;\n]", command)]
    return all(_SHOWS.match(_FLAGS_BEFORE.sub("", part)) for part in parts if part)


def rewrite(
    kind: str, name: str, *, namespace: str = "", without: Sequence[str] = (), fields: Sequence[str] = ()
) -> str:
    """Opens an object whose fields cannot be changed in an editor, deletes it, and creates it anew as it was saved.

    An object that was saved as it was, or not saved, stays: editors exit with 0 there too. The lines that match one of
    `without` are left out: an API server refuses what it has written itself, or follows it. So are the `fields`, JSON
    pointers to fields that the object has.
    """
    lines = kubectl("get", kind, name, "--output", "yaml", namespace=namespace)
    if without:
        lines += f" | {shlex.join(['sed', *(word for line in without for word in ('-e', f'/{line}/d'))])}"
    if fields:
        removed = encode_json([{"op": "remove", "path": path} for path in fields]).decode()
        patched = ("--local", "--filename=-", "--type=json", f"--patch={removed}", "--output=yaml")
        lines += f" | {kubectl('patch', *patched)}"
    edited = 'cp "$file" "$file.orig" && ${EDITOR:-vi} "$file" && ! cmp -s "$file" "$file.orig"'
    return f'file=$(mktemp) && {lines} >"$file" && {edited} && kubectl replace --force -f "$file"'


_DELETES = re.compile(r"\bkubectl\b[^|;&\n]* (delete|replace --force)(?!\S)")


def deletes(command: str) -> bool:
    """Whether a part of a command deletes objects, also those that it creates again."""
    return bool(_DELETES.search(command))


def restart(cluster: Cluster, deployment: Installed) -> str:
    """Restarts its Pods; starts some where it is scaled to 0, which a restart would leave so."""
    if deployment.stopped:
        return scale_up(cluster, deployment)
    return kubectl("rollout", "restart", f"deployment/{deployment.name}", namespace=deployment.namespace)


def scale_up(cluster: Cluster, deployment: Installed) -> str:
    """Two replicas. Of a release of Helm the value is changed: its next upgrade would set another number back."""
    if deployment.by_helm:
        return helm_upgrade(cluster, f"{deployment.role}.replicas=2")
    return kubectl("scale", f"deployment/{deployment.name}", "--replicas=2", namespace=deployment.namespace)


def look_at(cluster: Cluster, deployment: Installed) -> str:
    """For a role that has no ready replica."""
    if deployment.stopped:
        return scale_up(cluster, deployment)
    return describe_pods(deployment.namespace, deployment.pod_labels)


def describe_pods(namespace: str, selector: dict[str, str]) -> str:
    """What keeps Pods from being ready is in their events."""
    labels = ",".join(f"{key}={value}" for key, value in selector.items())
    return kubectl("describe", "pods", "--selector", labels, namespace=namespace)


def write_secret(
    name: str, *, namespace: str, folder: str = "", kind: str = "Opaque", files: Sequence[str] = FILES
) -> str:
    """Writes the files of a certificate in `folder` into a Secret. The type of one that is there cannot be changed."""
    words = [*(f"--from-file={folder}{file}" for file in files), f"--type={kind}"]
    made = kubectl("create", "secret", "generic", name, *words, "--dry-run=client", "--output=yaml")
    return f"{made} | {kubectl('apply', '--filename=-', namespace=namespace)}"


def set_clock(node: str) -> str:
    return f"kubectl debug node/{node} -it --image=busybox -- chroot /host timedatectl set-ntp true"


async def restart_role(cluster: Cluster, role: str) -> str:
    """Restarts the role; shows where it runs, where it was not found here."""
    if running := await cluster.running(role):
        return restart(cluster, running[0])
    return kubectl("get", "deployments", "--all-namespaces", "--selector", f"{COMPONENT}={role}")


def helm_upgrade(cluster: Cluster, *values: str, install: bool = False) -> str:
    """Upgrades the release; with `install` where there is none, for which an upgrade alone would find nothing.

    Deployments in which others than Helm have written are restored first: the upgrade would meet conflicts there.
    """
    if cluster.contested and not install:
        return retake(cluster, cluster.contested[0].object, values=values)
    return _upgrade(cluster, *values, install=install)


def _upgrade(cluster: Cluster, *values: str, install: bool = False) -> str:
    flags = ("--install ", "--create-namespace") if install else ("", "--reset-then-reuse-values")
    changed = "".join(f" --set {shlex.quote(value)}" for value in values)
    return f"helm upgrade {flags[0]}{cluster.release} {_CHART} --namespace {cluster.namespace} {flags[1]}{changed}"


async def helm(cluster: Cluster, *values: str) -> str:
    """Upgrades the release where there is one; else installs it."""
    return helm_upgrade(cluster, *values, install=not await cluster.by_chart(unknown=True))


async def recreate(cluster: Cluster, webhook: Registered, value: str) -> str:
    """Writes again what a registration calls, by the method of the installation.

    Without a release or an installer that could own it, the command deletes the registration.
    """
    if webhook.installer_name:
        return certs_install(webhook)
    if webhook.by_chart or await cluster.by_chart(unknown=True):
        return await helm(cluster, value)
    return unregister(webhook.name)


def certs_install(webhook: Registered, *, namespace: str = "") -> str:
    """Writes Secret, Service and registrations of an installation without the chart again.

    Without a namespace it is that of the Service that the registration calls.
    """
    namespace = namespace or (webhook.service[0] if webhook.service else "")
    return install_without_chart(namespace, webhook.installer_name, webhook.webhook.get("failurePolicy") or "Fail")


def install_without_chart(namespace: str, name: str, failure_policy: str = "Fail") -> str:
    flags = f"--berth-namespace {namespace} --name {name} --failure-policy {failure_policy}"
    return f'berth certs install {flags} --dir "$(mktemp -d)"'


def unregister(*names: str) -> str:
    """The command that deletes webhook configurations, so that Pods can be created although no webhook answers."""
    kinds = f"{MUTATING_WEBHOOKS.kind},{VALIDATING_WEBHOOKS.kind}".lower()
    return kubectl("delete", kinds, *dict.fromkeys(names), "--ignore-not-found")


def fix(cluster: Cluster, webhook: Registered, field: str, value: object, *values: str) -> str:
    """The command that sets a field of a webhook to `value`.

    For a webhook of the chart, the command restores the chart's state, with these `values` changed.
    """
    return again(cluster, webhook, *values) if webhook.by_chart else patch_webhook(webhook, field, value)


def again(cluster: Cluster, webhook: Registered, *values: str) -> str:
    """The command that restores a configuration to the chart's state, with these `values` changed.

    Fields that other managers have written are overwritten.
    """
    if not edited(webhook.configuration):
        return helm_upgrade(cluster, *values)
    component = labels(webhook.configuration).get(COMPONENT) or "webhook"
    return retake(cluster, webhook.configuration, component, values=values)


def retake(cluster: Cluster, example: JSON, *components: str, values: tuple[str, ...] = ()) -> str:
    """The command that restores the objects of these components of the release; `example` is one of them.

    So it does with the components whose Deployments others have written.
    """
    components = tuple(dict.fromkeys((*components, *(deployment.role for deployment in cluster.contested))))
    selector = f"{COMPONENT} in ({','.join(components)})" if len(components) > 1 else f"{COMPONENT}={components[0]}"
    manager = shlex.quote(objects.helm_manager(example))
    apply = f"kubectl apply --server-side --force-conflicts --field-manager={manager}"
    manifest = f"helm get manifest {cluster.release} --namespace {cluster.namespace}"
    # The manifest lacks the annotations that Helm adds to its objects; the upgrade adds them again.
    return f"{manifest} | {apply} --selector {shlex.quote(selector)} --filename - && {_upgrade(cluster, *values)}"


def patch_webhook(webhook: Registered, field: str, value: object) -> str:
    """Sets one field of one webhook; the name is tested, so that another that took its place stays as it is."""
    path = f"/webhooks/{webhook.index}"
    test = {"op": "test", "path": f"{path}/name", "value": webhook.webhook.get("name")}
    return json_patch(
        webhook.resource.plural, webhook.name, [test, {"op": "add", "path": f"{path}/{field}", "value": value}]
    )


def drop_condition(webhook: Registered, name: str) -> str:
    """Removes the match condition of this name from one webhook; "" where it has none.

    Both names are tested, so that nothing is removed where the lists have changed since.
    """
    names = [condition.get("name") for condition in webhook.conditions]
    if name not in names:
        return ""
    path = f"/webhooks/{webhook.index}"
    condition = f"{path}/matchConditions/{names.index(name)}"
    operations: list[JSON] = [
        {"op": "test", "path": f"{path}/name", "value": webhook.webhook.get("name")},
        {"op": "test", "path": f"{condition}/name", "value": name},
        {"op": "remove", "path": condition},
    ]
    return json_patch(webhook.resource.plural, webhook.name, operations)


def release(kind: str, name: str, finalizers: Sequence[str], finalizer: str, *, namespace: str = "") -> str:
    """Removes one of the finalizers that an object has, and leaves those of others.

    It is tested, so that nothing is removed where the list has changed since.
    """
    path = f"/metadata/finalizers/{list(finalizers).index(finalizer)}"
    operations = [{"op": "test", "path": path, "value": finalizer}, {"op": "remove", "path": path}]
    return json_patch(kind, name, operations, namespace=namespace)


def json_patch(kind: str, name: str, operations: list[JSON], *, namespace: str = "") -> str:
    patch = encode_json(operations).decode()
    return kubectl("patch", kind, name, "--type=json", "--patch", patch, namespace=namespace)


def edited(configuration: JSON) -> bool:
    """Whether a manager other than Helm has written more than a caBundle; True without managedFields."""
    entries, owner = configuration["metadata"].get("managedFields"), objects.helm_manager(configuration)
    others = [entry for entry in entries or () if entry.get("manager") != owner]
    return not entries or any(_writes((entry.get("fieldsV1") or {}).get("f:webhooks")) for entry in others)


def _writes(fields: Any) -> bool:
    if not isinstance(fields, dict):
        return False
    return any(_writes(below) if below else name not in ("f:caBundle", ".", "f:name") for name, below in fields.items())
