"""`berth explain`: parses the flags, reads the manifests, prints what the webhook would do with them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from app.cli import cluster, options, roles
from app.errors import Transient, UsageError
from app.explain import answer, explaining, manifests, reading, rehearsal, rendering, trials
from app.explain.callees import Marks
from app.registry import settings_of
from app.settings.source import RoleSettings, settings_as
from app.settings.webhook import WebhookSettings

if TYPE_CHECKING:
    from app.kube.client import KubeClient

T = TypeVar("T")
FAILED, CLUSTER = 1, 3
_WITHOUT = "--offline explains with the files alone"

_OF_TRIALS = ("text", "json", "yaml", "diff")

explain_app = options.alone()


@explain_app.command()
def explain(
    *,
    files: options.Manifests = None,
    kustomizations: Annotated[
        list[str] | None,
        typer.Option(
            "-k",
            "--kustomize",
            metavar="DIR",
            help="Directory of a kustomization, which kubectl kustomize builds; repeatable",
        ),
    ] = None,
    recursive: options.Recursive = False,
    namespace: Annotated[
        str | None,
        cluster.namespace_option(
            "-n",
            "--namespace",
            text="Namespace of objects that name none (default: that of the kubeconfig's context, or default)",
        ),
    ] = None,
    output: Annotated[rendering.Form, options.output_option()] = "text",
    kubeconfig: cluster.Kubeconfig = None,
    context: cluster.Context = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no cluster, that of $KUBECONFIG neither", show_default=False)
    ] = False,
    server_dry_run: Annotated[
        bool,
        typer.Option(
            "--server-dry-run",
            help="Show too what all webhooks and policies of the cluster make of Pods and of what makes Pods",
            show_default=False,
        ),
    ] = False,
    home: cluster.Home = None,
    release: cluster.Release = "berth",
    _webhook_namespace: Annotated[str | None, typer.Option("--webhook-namespace", hidden=True)] = None,
    existing_resources: Annotated[str | None, roles.as_webhook("existing_resources")] = None,
    honor_resources: Annotated[bool | None, roles.as_webhook("honor_resources")] = None,
    node_selector_conflict: Annotated[str | None, roles.as_webhook("node_selector_conflict")] = None,
    default_network_namespace: Annotated[str | None, roles.as_webhook("default_network_namespace")] = None,
    network_resource_name_keys: Annotated[str | None, roles.as_webhook("network_resource_name_keys")] = None,
    inject_hugepage_down_api: Annotated[bool | None, roles.as_webhook("inject_hugepage_down_api")] = None,
    rmd_backend: Annotated[str | None, roles.as_webhook("rmd_backend")] = None,
    rmd_unreserved: Annotated[str | None, roles.as_webhook("rmd_unreserved")] = None,
    rmd_classes: Annotated[str | None, roles.as_webhook("rmd_classes")] = None,
    claims: Annotated[bool | None, roles.as_webhook("claims")] = None,
    claim_templates: Annotated[str | None, roles.as_webhook("claim_templates")] = None,
) -> int:
    """Show what would be injected into Pods and everything that makes Pods, field by field and why.

    Of an AppWrapper: its podSets, what they request in all, and which rights its user would be asked for. Of a rule:
    which workloads match, what keeps the others out, and their companions. Of a UVS object: what it makes. Attachments,
    Services on networks, what configures Berth, API versions, fields and keys of labels and annotations are checked.

    Examples:

      berth explain -f pod.yaml -f nads.yaml

      berth explain -R -f manifests -o diff

      berth explain -k overlays/production --kubeconfig ~/.kube/config

      kubectl get deployment web -o yaml | berth explain -f - -f nads.yaml -o json

    Exit status:

      0  everything would be admitted, with or without an injection; warnings do not count

      1  an object would be refused or has a field that is dropped, or a file cannot be read

      2  a flag is wrong, or nothing of what it names can be read

      3  the cluster could not be asked, or gives no answer about an object

    Attachments, the ConfigMaps (nri-control-switches, those of --rmd-classes and --claim-templates), Namespaces
    (whose label berth.dev/tenant confines Pods), Nodes, DeviceClasses, ResourceSlices, and claims and their
    templates come from the files. A cluster is asked if --kubeconfig, --context or the variable KUBECONFIG names
    one, and --offline is not given; no other is looked for. Attachments, claims, templates and ConfigMaps that the
    files lack are read from it, and the workloads of rules.

    If the cluster has a release of Berth, its flags count, and flags of the command line replace them. A Pod is
    explained as the release is registered: Berth is not asked about one that a selector leaves out.

    With --server-dry-run each Pod, and each object that makes Pods, is sent to the API server in a dry run: shown are
    its warnings, or who refuses, and each field that it changes with who changed it: the API server, Berth, or another
    webhook or policy.

    With a cluster, or with Nodes, DeviceClasses or ResourceSlices among the files, explain also says what would serve
    each device: a device plugin, an extended resource of DRA, or a claim. Nothing is ever written.
    """  # noqa: D412  Typer's help joins lines that no empty line parts
    if server_dry_run and output not in _OF_TRIALS:
        raise UsageError(f"--server-dry-run: has no form {output}: want -o {', '.join(_OF_TRIALS)}")
    home = home or _webhook_namespace
    named = [*(files or ()), *(kustomizations or ())]
    if not named:
        raise UsageError("missing option -f: want a file or directory of manifests, - for standard input, or -k")
    flags = {
        "namespace": home,
        "existing_resources": existing_resources,
        "honor_resources": honor_resources,
        "node_selector_conflict": node_selector_conflict,
        "default_network_namespace": default_network_namespace,
        "network_resource_name_keys": network_resource_name_keys,
        "inject_hugepage_down_api": inject_hugepage_down_api,
        "rmd_backend": rmd_backend,
        "rmd_unreserved": rmd_unreserved,
        "rmd_classes": rmd_classes,
        "claims": claims,
        "claim_templates": claim_templates,
    }
    given = {name: value for name, value in flags.items() if value is not None}
    chosen = _settings(given)
    source = reading.read_all(files or (), kustomizations or (), recursive=recursive)

    async def explained(client: KubeClient | None) -> tuple[manifests.Manifests, answer.Answer]:
        objects = manifests.sort_objects(
            source, namespace=namespace or ("" if client is None else client.default_namespace)
        )
        if client is None:
            own = settings_as(chosen, WebhookSettings).namespace
            return objects, await explaining.explain(objects, rehearsal.Rehearsal(chosen, own))
        planned, ours = await _in_release(client, objects, given, home=home or "", release=release)
        if server_dry_run:
            planned.trials = await trials.Trials(client, ours, planned.notes).of(objects, planned.pods)
            planned.findings += trials.trial_findings(planned.trials)
        return objects, planned

    try:
        objects, result = _in_cluster(
            explained,
            kubeconfig,
            context,
            offline=offline,
            needed="--server-dry-run" if server_dry_run else "",
        )
    except Transient as error:
        print(f"Error: the cluster could not be asked: {error.args[0]}; {_WITHOUT}", file=sys.stderr)
        return CLUSTER
    if objects.empty and not (result.findings or result.judged):
        raise UsageError(f"no Pod, nothing that makes Pods and nothing to check in {', '.join(named)}")
    options.show(answer.lines_aside(result, output), aside=True)
    options.show(answer.lines(result, output))
    return FAILED if result.failed else CLUSTER if result.untried else 0


async def _in_release(
    client: KubeClient, objects: manifests.Manifests, given: dict[str, Any], *, home: str, release: str
) -> tuple[answer.Answer, Marks]:
    """The answer with what the cluster says of the release and of the objects, and the webhooks of Berth."""
    # Imported late, with all wings: they take longer to import than the flags to parse.
    from app.cli.release import add_verdicts, examined_in, release_in  # noqa: PLC0415

    examined, inquiry = await examined_in(client, objects, home, release)
    installed = await release_in(examined, inquiry, sought=bool(home))
    if installed is not None:
        settings = _settings({**installed.flags, **given}, environment=False)
        rehearsed = rehearsal.Rehearsal(settings, home or examined.namespace, client)
        planned = await explaining.explain(objects, rehearsed, installed.left_out)
        planned.pods = [replace(pod, by=await installed.server(pod.manifest)) for pod in planned.pods]
        planned.notes.append(installed.about)
    else:
        settings = _settings(given)
        own = settings_as(settings, WebhookSettings).namespace
        planned = await explaining.explain(objects, rehearsal.Rehearsal(settings, own, client))
        if home:
            planned.notes.append(f"there is no release of Berth in namespace {home}: flags are defaults")
    await add_verdicts(planned, inquiry, objects)
    return planned, frozenset() if installed is None else installed.webhooks


def _settings(given: dict[str, Any], *, environment: bool = True) -> RoleSettings:
    # Whether tenants are confined depends on the webhook; what confines these Pods is shown.
    return settings_of("webhook").load({"confine_tenants": True, "manifests": None, **given}, environment=environment)


def _in_cluster(
    work: Callable[[KubeClient | None], Coroutine[Any, Any, T]],
    kubeconfig: str | None,
    context: str | None,
    *,
    offline: bool,
    needed: str = "",
) -> T:
    """Do the work, with a client where a cluster is named. `needed` is the flag that needs one."""
    given = kubeconfig is not None or context is not None
    if offline and given:
        raise UsageError("--offline: asks no cluster, and --kubeconfig or --context names one: use one of them")
    if needed and offline:
        raise UsageError(f"{needed}: asks the cluster, and --offline asks none: use one of them")
    if needed and not (given or os.environ.get("KUBECONFIG")):
        raise UsageError(f"{needed}: no cluster is named: want --kubeconfig, --context or the variable KUBECONFIG")
    if offline or not (given or os.environ.get("KUBECONFIG")):
        return asyncio.run(work(None))
    try:
        return cluster.in_cluster(work, kubeconfig, context, deadline=cluster.EXAMINING_DEADLINE if needed else None)
    except UsageError as error:
        if given:
            raise
        raise UsageError(f"{error} (named by $KUBECONFIG); {_WITHOUT}") from error
