"""`berth explain`: parses the flags, reads the manifests, prints what the webhook would do with them."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from app.cli import cluster, options, roles
from app.errors import Transient, UsageError
from app.explain import explaining, manifests, reading, rehearsal, rendering, wrapped
from app.registry import settings_of
from app.settings.source import settings_as
from app.settings.webhook import WebhookSettings

DENIED, CLUSTER = 1, 3

_INJECTION = "Injection (as berth webhook)"


def _as_webhook(field: str) -> typer.models.OptionInfo:
    return roles.option_of(settings_of("webhook"), field, panel=_INJECTION)


explain_app = options.alone()


@explain_app.command()
def explain(
    *,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "-f",
            "--filename",
            metavar="FILE",
            help="File or directory of YAML or JSON manifests, - for standard input; repeatable",
        ),
    ] = None,
    namespace: Annotated[
        str,
        typer.Option(
            "-n", "--namespace", help="Namespace of objects that name none (default: default)", show_default=False
        ),
    ] = "",
    output: Annotated[rendering.Form, typer.Option("-o", "--output", help="Form of the answer")] = "text",
    kubeconfig: Annotated[str | None, cluster.kubeconfig_option("Cluster to read what the files lack")] = None,
    context: cluster.Context = None,
    own_namespace: Annotated[
        str | None,
        typer.Option(
            "--webhook-namespace",
            help="Namespace the webhook runs in (default: $NAMESPACE or kube-system)",
            rich_help_panel=_INJECTION,
        ),
    ] = None,
    existing_resources: Annotated[str | None, _as_webhook("existing_resources")] = None,
    honor_resources: Annotated[bool | None, _as_webhook("honor_resources")] = None,
    node_selector_conflict: Annotated[str | None, _as_webhook("node_selector_conflict")] = None,
    default_network_namespace: Annotated[str | None, _as_webhook("default_network_namespace")] = None,
    network_resource_name_keys: Annotated[str | None, _as_webhook("network_resource_name_keys")] = None,
    inject_hugepage_down_api: Annotated[bool | None, _as_webhook("inject_hugepage_down_api")] = None,
    rmd_backend: Annotated[str | None, _as_webhook("rmd_backend")] = None,
    rmd_unreserved: Annotated[str | None, _as_webhook("rmd_unreserved")] = None,
    rmd_classes: Annotated[str | None, _as_webhook("rmd_classes")] = None,
    claims: Annotated[bool | None, _as_webhook("claims")] = None,
    claim_templates: Annotated[str | None, _as_webhook("claim_templates")] = None,
) -> int:
    """Show what would be injected into Pods and everything that makes Pods, field by field and why.

    Of an AppWrapper: its podSets, what they request in all, and which rights its user would be asked for.

    Examples:

      berth explain -f pod.yaml -f nads.yaml

      berth explain -f deployment.yaml --kubeconfig ~/.kube/config -o diff

      kubectl get deployment web -o yaml | berth explain -f - -f nads.yaml -o json

    Exit status:

      0  every Pod and AppWrapper would be admitted, with or without an injection

      1  at least one Pod would be denied, or an AppWrapper

      2  a flag or a file is wrong

      3  the cluster could not be asked

    Attachments, the ConfigMaps (nri-control-switches, those of --rmd-classes and --claim-templates), Namespaces
    (whose label berth.dev/tenant confines Pods), Nodes, DeviceClasses, ResourceSlices, and claims and their
    templates come from the files; with --kubeconfig, attachments, claims, templates and ConfigMaps that they
    lack are read from the cluster.

    By which road a device would be served (device plugin, extended resource, claim) is said where Nodes,
    DeviceClasses or ResourceSlices are among the files, or there is a cluster.
    Nothing is ever written.
    """  # noqa: D412  Typer's help joins lines that no empty line parts
    if not files:
        raise UsageError("missing option -f: want at least one file of manifests, or - for standard input")
    flags = {
        "namespace": own_namespace,
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
    # Whether tenants are confined depends on the webhook; what confines these Pods is shown.
    chosen = settings_of("webhook").load({"confine_tenants": True, "manifests": None, **given})
    found = manifests.sort_documents(reading.read_documents(files), namespace=namespace)
    wrappers = [wrapped.explained(one) for one in found.wrappers]
    if not found.pods and not wrappers:
        raise UsageError(f"no Pod and nothing that makes Pods in {', '.join(files)}")
    own = settings_as(chosen, WebhookSettings).namespace
    try:
        if kubeconfig is None and context is None:
            results, notes = asyncio.run(explaining.explain(found, rehearsal.Rehearsal(chosen, own)))
        else:
            results, notes = cluster.in_cluster(
                lambda client: explaining.explain(found, rehearsal.Rehearsal(chosen, own, client)), kubeconfig, context
            )
    except Transient as error:
        print(f"Error: the cluster could not be asked: {error}", file=sys.stderr)
        return CLUSTER
    options.show(((f"note: {note}", "") for note in notes), aside=True)
    others = [wrapped.object_of(one) for one in wrappers]
    options.show(rendering.render(results, output, others))
    if output == "text":
        options.show(line for one in wrappers for line in wrapped.text_of(one))
    options.show(rendering.asides(results, output), aside=True)
    return DENIED if any(result.denied for result in results) or any(one.problems for one in wrappers) else 0
