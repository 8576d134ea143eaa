"""`berth explain`: parses the flags, reads the manifests, prints what the webhook would do with them."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from app.cli.roles import option_of
from app.errors import Transient, UsageError
from app.explain.documents import read_documents
from app.explain.explaining import Explanation, Surroundings
from app.explain.explaining import explain as explain_manifests
from app.explain.manifests import Manifests, sort_documents
from app.explain.rendering import Form, Line, asides, render
from app.networks.settings import NetworksSettings
from app.registry import settings_of
from app.settings.source import RoleSettings, settings_as
from app.settings.webhook import WebhookSettings

DENIED, CLUSTER = 1, 3

_INJECTION = "Injection (as berth webhook)"


def _as_webhook(field: str) -> typer.models.OptionInfo:
    return option_of(NetworksSettings, field, panel=_INJECTION)


def explain(
    *,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "-f",
            "--filename",
            metavar="FILE",
            help="File or directory of YAML or JSON manifests, - for standard input; repeatable",
            show_default=False,
        ),
    ] = None,
    namespace: Annotated[
        str,
        typer.Option(
            "-n", "--namespace", help="Namespace of objects that name none (default: default)", show_default=False
        ),
    ] = "",
    output: Annotated[Form, typer.Option("-o", "--output", help="Form of the answer")] = "text",
    kubeconfig: Annotated[
        str | None, typer.Option("--kubeconfig", help="Cluster to read what the files lack", show_default=False)
    ] = None,
    context: Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig")] = None,
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
) -> int:
    """Show what would be injected into Pods and everything that makes Pods, field by field and why.

    Examples:

      berth explain -f pod.yaml -f nads.yaml

      berth explain -f deployment.yaml --kubeconfig ~/.kube/config -o diff

      kubectl get deployment web -o yaml | berth explain -f - -f nads.yaml -o json

    Exit status:

      0  every Pod would be admitted, with or without an injection

      1  at least one Pod would be denied

      2  a flag or a file is wrong

      3  the cluster could not be asked

    Attachments, the ConfigMap nri-control-switches and Namespaces (whose label berth.dev/tenant confines Pods)
    come from the files; with --kubeconfig, attachments and switches that they lack are read from the cluster.
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
    }
    given = {name: value for name, value in flags.items() if value is not None}
    # Whether tenants are confined depends on the webhook; what confines these Pods is shown.
    chosen = settings_of("webhook").load({"confine_tenants": True, "manifests": None, **given})
    manifests = sort_documents(read_documents(files), namespace=namespace)
    if not manifests.pods:
        raise UsageError(f"no Pod and nothing that makes Pods in {', '.join(files)}")
    try:
        explanation = asyncio.run(_explain(manifests, chosen, kubeconfig=kubeconfig, context=context))
    except Transient as error:
        print(f"Error: the cluster could not be asked: {error}", file=sys.stderr)
        return CLUSTER
    _print(explanation, output)
    return DENIED if any(result.denied for result in explanation.results) else 0


async def _explain(
    manifests: Manifests, chosen: RoleSettings, *, kubeconfig: str | None, context: str | None
) -> Explanation:
    surroundings = Surroundings(chosen, settings_as(chosen, WebhookSettings).namespace)
    if kubeconfig is None and context is None:
        return await explain_manifests(manifests, surroundings)
    # Imported late: without a cluster there is no need for its client.
    from app.kube.transport import connect  # noqa: PLC0415

    async with await connect(kubeconfig=kubeconfig, context=context) as client:
        return await explain_manifests(manifests, replace(surroundings, client=client))


def _print(explanation: Explanation, form: Form) -> None:
    out, aside = Console(highlight=False, soft_wrap=True), Console(stderr=True, highlight=False, soft_wrap=True)
    for note in explanation.notes:
        _line(aside, Line(f"note: {note}"))
    for line in render(explanation.results, form):
        _line(out, line)
    for line in asides(explanation.results, form):
        _line(aside, line)


def _line(console: Console, line: Line) -> None:
    console.print(Text(line.text, line.style))
