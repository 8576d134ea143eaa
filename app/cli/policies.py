"""`berth policies`: prints admission policies in place of the webhook. The work is in `app.policies`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
import yaml

from app.cli import cluster, options, roles
from app.errors import UsageError
from app.explain import manifests, reading
from app.kube.release import release_of, unserved
from app.kube.resources import CONFIG_MAPS, MUTATING_POLICIES, NETWORK_ATTACHMENTS
from app.networks.settings import CONFIG_MAP_NAME, NetworksSettings, Switches, parse_switches, text_of
from app.policies.cel import EXPRESSION_LIMIT
from app.policies.model import PolicyMode, Terms
from app.policies.objects import OBJECT_LIMIT, Generated, generate
from app.policies.refusals import NOT_JUDGED
from app.policies.terms import terms_of
from app.registry import settings_of
from app.settings.source import RoleSettings, settings_as
from app.wire import JSON

if TYPE_CHECKING:
    from app.kube.client import KubeClient

Output = Literal["apply", "manifests", "values"]
_CONFIGURATION = "apiserver.config.k8s.io/v1"
policies_app = options.group(
    "policies",
    "Have the API server inject networks itself, by admission policies in place of the webhook.",
    epilog=options.epilog(
        "berth policies generate --kubeconfig ~/.kube/config | kubectl apply --server-side -f -",
        "berth policies generate -f nads.yaml -o manifests --dir /etc/kubernetes/policies > admission.yaml",
    ),
)


@policies_app.command(
    "generate",
    epilog=options.epilog(
        "berth policies generate -f nads.yaml",
        "berth policies generate --kubeconfig ~/.kube/config | kubectl apply --server-side -f -",
        "berth policies generate --kubeconfig ~/.kube/config --mode both -o values > left.yaml",
        text="""Without -f the attachments are those of the cluster.

Wants Kubernetes 1.36 or newer. What policies do not do is listed on standard error, by object, with the
reason. Nothing is written to the cluster.""",
    ),
)
def generate_policies(
    *,
    files: options.Manifests = None,
    recursive: options.Recursive = False,
    namespace: Annotated[
        str | None,
        cluster.namespace_option("-n", "--namespace", text="Namespace of objects that name none (default: default)"),
    ] = None,
    kubeconfig: cluster.Kubeconfig = None,
    context: cluster.Context = None,
    output: Annotated[
        Output,
        typer.Option(
            "-o",
            "--output",
            help="apply: for kubectl apply; manifests: files for the API server, below --dir; values: those of the "
            "chart with the condition that leaves the other Pods to the webhook",
        ),
    ] = "apply",
    mode: Annotated[
        PolicyMode, typer.Option("--mode", help="policies: there is no webhook; both: what they leave is the webhook's")
    ] = "policies",
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Directory of the files of -o manifests", show_default=False)
    ] = None,
    name: Annotated[
        str,
        typer.Option("--name", help="What the names of the objects begin with", callback=cluster.dns_label("--name")),
    ] = "berth",
    existing_resources: Annotated[str | None, roles.as_webhook("existing_resources")] = None,
    honor_resources: Annotated[bool | None, roles.as_webhook("honor_resources")] = None,
    node_selector_conflict: Annotated[str | None, roles.as_webhook("node_selector_conflict")] = None,
    network_resource_name_keys: Annotated[str | None, roles.as_webhook("network_resource_name_keys")] = None,
    inject_hugepage_down_api: Annotated[bool | None, roles.as_webhook("inject_hugepage_down_api")] = None,
    claims: Annotated[bool | None, roles.as_webhook("claims")] = None,
) -> None:
    """Print admission policies that do what the webhook does in the simple case."""
    if files and (kubeconfig or context):
        raise UsageError("-f and --kubeconfig: attachments come from one place: use one of them")
    if output == "values" and mode != "both":
        raise UsageError("-o values: has the condition of the webhook, which --mode both alone has; add --mode both")
    if (output == "manifests") != (directory is not None):
        raise UsageError("-o manifests and --dir: the files are written to a directory: use both or none of them")
    flags = {
        "existing_resources": existing_resources,
        "honor_resources": honor_resources,
        "node_selector_conflict": node_selector_conflict,
        "network_resource_name_keys": network_resource_name_keys,
        "inject_hugepage_down_api": inject_hugepage_down_api,
        "claims": claims,
    }
    given = {field: value for field, value in flags.items() if value is not None}

    if files:
        attachments, terms = _of_files(files, given, mode, recursive=recursive, namespace=namespace or "default")
    else:
        attachments, terms = cluster.in_cluster(lambda client: _of_cluster(client, given, mode), kubeconfig, context)
    generated = generate(attachments, replace(terms, name=name, static=output == "manifests"))
    _say(generated, mode)
    if directory is not None:
        print(_yaml([_written(generated, directory.resolve(), name)]), end="")
    elif output == "values":
        print(_yaml([{"webhook": {"matchConditions": {"leftByPolicies": generated.condition}}}]), end="")
    elif generated.objects:
        print(_yaml(generated.objects), end="")


_Read = tuple[list[JSON], Terms]
"""The attachments, and the terms of the webhook."""


def _of_files(files: list[str], given: dict[str, Any], mode: PolicyMode, *, recursive: bool, namespace: str) -> _Read:
    source = reading.read_all(files, recursive=recursive)
    if source.faults:
        raise UsageError("; ".join(source.faults))
    objects = manifests.sort_objects(source, namespace=namespace)
    settings = _settings(given)
    texts = [text_of(obj) for obj in objects.of(CONFIG_MAPS.kind) if obj["metadata"].get("name") == CONFIG_MAP_NAME]
    switches = _switches(settings, next(iter(texts), None))
    return objects.of(NETWORK_ATTACHMENTS.kind), terms_of(settings, switches, mode=mode)


async def _of_cluster(client: KubeClient, given: dict[str, Any], mode: PolicyMode) -> _Read:
    # Imported late, with all wings: they take longer to import than the flags to parse.
    from app.doctor.cluster import Cluster, locate  # noqa: PLC0415
    from app.doctor.policies import terms_in  # noqa: PLC0415

    release = await release_of(client)
    if release.is_older(MUTATING_POLICIES.since):
        raise UsageError(f"{client.source}: {unserved(MUTATING_POLICIES, release)}; -f generates for another cluster")
    examined = Cluster(client, "")
    await locate(examined)
    return await examined.listed(NETWORK_ATTACHMENTS), await terms_in(examined, given, mode, "")


def _settings(given: dict[str, Any]) -> RoleSettings:
    return settings_of("webhook").load({"manifests": None, **given}, environment=False)


def _switches(settings: RoleSettings, text: str | None) -> Switches:
    return parse_switches(text, initial=settings_as(settings, NetworksSettings).initial_switches)


def _written(generated: Generated, directory: Path, name: str) -> JSON:
    """Writes a file for each of the two plugins of the API server; returns the configuration that names their folders.

    An API server reads a folder again when it changes, so a file is there as a whole or not at all.
    """
    plugins: list[JSON] = []
    for plugin in ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"):
        folder = directory / plugin.lower()
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f"{name}.yaml.new"
        fresh.write_text(_yaml([obj for obj in generated.objects if obj["kind"].startswith(plugin)]))
        fresh.replace(folder / f"{name}.yaml")
        configuration = {
            "apiVersion": _CONFIGURATION,
            "kind": f"{plugin}Configuration",
            "staticManifestsDir": str(folder),
        }
        plugins.append({"name": plugin, "configuration": configuration})
    return {"apiVersion": _CONFIGURATION, "kind": "AdmissionConfiguration", "plugins": plugins}


def _yaml(documents: list[JSON]) -> str:
    text: str = yaml.safe_dump_all(documents, sort_keys=False)
    return text


def _say(generated: Generated, mode: PolicyMode) -> None:
    for left in NOT_JUDGED if mode == "policies" else ():
        print(f"not judged by policies: {left.subject}: {left.reason}", file=sys.stderr)
    for left in generated.left:
        print(f"left to the webhook: {left.subject}: {left.reason}", file=sys.stderr)
    if generated.unconditional:
        print(
            f"{generated.unconditional} attachments do not fit into the webhook's condition: for Pods that select them "
            "it is called too, and finds nothing missing",
            file=sys.stderr,
        )
    count, largest = len(generated.networks), max(generated.sizes.values(), default=0)
    print(
        f"{count} attachments in {len(generated.objects)} objects: the largest has {largest} of {OBJECT_LIMIT} bytes, "
        f"the longest expression {generated.longest} of {EXPRESSION_LIMIT} characters",
        file=sys.stderr,
    )
