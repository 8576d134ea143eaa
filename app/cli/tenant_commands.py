"""The commands `berth tenant host`, `suspend` and `resume`, and what all commands of `berth tenant` have alike.

Alike are arguments, the client of the infra cluster, the question, and how Tenants are shown: as text, or in the
forms that kubectl has. A change says first what it would take away.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from app.cli import cluster, completing, options
from app.cli.cluster import Context, Kubeconfig
from app.doctor.aiming import Aim
from app.errors import BerthError, Terminal, Transient, UsageError
from app.explain.rendering import Plain, structured
from app.tenancy.model import name_problem, tenant_state
from app.tenancy.tenants import changes, enrolling
from app.text import MESSAGE, cut, printable, several
from app.wire import JSON
from app.workloads.model import TENANTS, tenant_namespace

if TYPE_CHECKING:
    from app.kube.client import KubeClient
    from app.placement.model import PlacementOptions
    from app.tenancy.tenants.contents import Dpu
    from app.tenancy.tenants.enrolling import Pin, Summary


T = TypeVar("T")
NewName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the tenant", show_default=False)]
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Name of the tenant", show_default=False, autocompletion=completing.tenants),
]
Yes = Annotated[bool, typer.Option("--yes/--no-yes", "-y", help="Do not ask", show_default=False)]
Form = Literal[Plain, "name"]
_CONDITION = ("type", "status", "reason", "lastTransitionTime", "message")
_SHOWN_DIGITS = 12
_NAMES = {"other Pod": "otherPods"}
host_app = options.group(
    "host",
    "Add hosts to a tenant, and remove them.",
    epilog=options.epilog("berth tenant host add tenant1 host-c", "berth tenant host remove tenant1 host-b"),
)
_NewHosts = Annotated[list[str], typer.Argument(metavar="HOST", help="Names of hosts", show_default=False)]
_Hosts = Annotated[
    list[str],
    typer.Argument(metavar="HOST", help="Names of hosts", show_default=False, autocompletion=completing.hosts),
]


def in_infra(work: Callable[[KubeClient], Awaitable[T]], kubeconfig: str | None, context: str | None) -> T:
    """Do the work in the cluster. What will not pass by itself is a UsageError: the user has to act."""
    aim = Aim(kubeconfig or "", context or "")
    try:
        return cluster.in_cluster(work, kubeconfig, context)
    except (Terminal, UsageError) as error:
        raise UsageError(aim.prose(str(error))) from error
    except Transient:
        raise
    except BerthError as error:  # of its own class, which decides on the exit status
        error.args = (aim.prose(str(error)), *error.args[1:])
        raise


async def placement(client: KubeClient) -> PlacementOptions:
    """By which labels nodes are DPUs of hosts and tenants, as the roles in the cluster have it; else the defaults."""
    from app.doctor.cluster import Cluster, locate  # noqa: PLC0415
    from app.placement.settings import PlacementSettings  # noqa: PLC0415

    cluster = Cluster(client, namespace="")
    try:
        await locate(cluster)
        return (await cluster.settings(PlacementSettings, role="controller", otherwise="webhook")).placement
    finally:
        await cluster.close()


def check_name(name: str) -> None:
    """Raise UsageError for what cannot be the name of a tenant."""
    problem = name_problem(name)
    if problem:
        raise UsageError(f"NAME: {problem}")


def print_lines(lines: Iterable[str], kubeconfig: str | None, context: str | None) -> None:
    """The commands in them, in backticks, name the cluster as the user did."""
    aim = Aim(kubeconfig or "", context or "")
    for line in lines:
        print(aim.prose(line))


def confirmed(question: str, refused: str, *, yes: bool) -> bool:
    """Ask on the terminal, unless `yes`; where the answer is no, `refused` is printed.

    Raises UsageError where there is no terminal.
    """
    if yes:
        return True
    if not (sys.stdin is not None and sys.stdin.isatty()):
        raise UsageError(f"{refused}: there is no terminal to confirm on; use --yes")
    if typer.confirm(question):
        return True
    print(refused)
    return False


def render_tenants(tenants: Sequence[JSON], form: Form) -> str:
    """Text without a newline at its end."""
    match form:
        case "json" | "yaml":
            return _document(
                {"apiVersion": "v1", "kind": "List", "items": [_shown(tenant) for tenant in tenants]}, form
            )
        case "name":
            return "\n".join(f"tenant.{TENANTS.group}/{tenant['metadata']['name']}" for tenant in tenants)
        case "text":
            return _table([("NAME", "NAMESPACE", "HOSTS", "CERTIFICATES", "STATE"), *map(_row, tenants)])


def render_summary(summary: Summary, form: Plain) -> str:
    """Text without a newline at its end."""
    if form != "text":
        return _document(_summary_document(summary), form)
    tenant, namespace = summary.tenant, summary.namespace
    name, status = tenant["metadata"]["name"], tenant.get("status") or {}
    where = "does not exist" if namespace is None else "" if namespace.ours else "is not ours"
    rows = [
        ("Name:", name),
        ("State:", _state(tenant)),
        ("Namespace:", f"{tenant_namespace(name)}{where and f' ({where})'}"),
        ("Cluster:", summary.cluster or "<none yet>"),
        *([("Last contact:", str(status["lastContact"]))] if status.get("lastContact") else ()),
        ("Hosts:", _hosts(tenant["spec"])),
        *_labeled("DPUs:", [_dpu(dpu, name) for dpu in summary.dpus]),
        ("Certificate names:", ", ".join(tenant["spec"]["identity"]["names"])),
        *_labeled("Certificates:", [_valid(pin) for pin in summary.pins], none="<any of these names>"),
        *((f"{noun[0].upper()}{noun[1:]}s:", str(number)) for noun, number in summary.counts.items()),
    ]
    conditions = status.get("conditions") or ()
    table = [
        ("TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"),
        *(tuple(cut(str(condition.get(key) or ""), MESSAGE) for key in _CONDITION) for condition in conditions),
    ]
    below = _table([("", *row) for row in table]) if conditions else "   <none yet>"
    return "\n".join((_table(rows), "Conditions:", below))


@host_app.command(
    epilog=options.epilog(
        "berth tenant host add tenant1 host-c host-d",
        text="""The nodes (DPUs) of these hosts get the label of the tenant. If the tenant had no list of hosts,
other nodes lose its label: the command says which, and asks.""",
    ),
)
def add(
    *,
    name: Name,
    hosts: _NewHosts,
    yes: Yes = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> int:
    """Add hosts to a tenant."""
    return _change_hosts(name, kubeconfig, context, add=hosts, yes=yes)


@host_app.command(
    epilog=options.epilog(
        "berth tenant host remove tenant1 host-b",
        text="""The nodes (DPUs) of these hosts lose the label of the tenant. Its companions there run on until they end
or are deleted; they cannot be placed there again. The command says which nodes and how many companions, and asks.""",
    ),
)
def remove(
    *,
    name: Name,
    hosts: _Hosts,
    yes: Yes = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> int:
    """Remove hosts from a tenant."""
    return _change_hosts(name, kubeconfig, context, remove=hosts, yes=yes)


def suspend(*, name: Name, yes: Yes = False, kubeconfig: Kubeconfig = None, context: Context = None) -> int:
    """Refuse a tenant at the gateway until it is resumed; what it has stays."""
    check_name(name)
    consequences = in_infra(lambda client: enrolling.suspension(client, name), kubeconfig, context)
    if not consequences:
        print(f"tenant {name} is suspended already")
        return 0
    print_lines(consequences, kubeconfig, context)
    if not confirmed(f"Suspend tenant {name}?", "nothing changed", yes=yes):
        return 1
    in_infra(lambda client: changes.set_suspended(client, name, suspended=True), kubeconfig, context)
    print(f"tenant {name} suspended")
    return 0


def resume(*, name: Name, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Let the gateway accept a suspended tenant again."""
    check_name(name)

    async def work(client: KubeClient) -> bool:
        await changes.existing_tenant(client, name)
        return await changes.set_suspended(client, name, suspended=False)

    if in_infra(work, kubeconfig, context):
        print(f"tenant {name} resumed: its agent tries again by itself, and sends what has changed meanwhile")
    else:
        print(f"tenant {name} is not suspended")


def _summary_document(summary: Summary) -> JSON:
    tenant, namespace = summary.tenant, summary.namespace
    return {
        "tenant": _shown(tenant),
        "state": _state(tenant),
        "cluster": summary.cluster,
        "namespace": {
            "name": tenant_namespace(tenant["metadata"]["name"]),
            "exists": namespace is not None,
            "managed": namespace is not None and namespace.ours,
        },
        "dpus": [
            {"node": dpu.node, "host": dpu.host, "tenant": dpu.tenant, "ready": dpu.ready} for dpu in summary.dpus
        ],
        "certificates": [{"sha256": pin.sha256, "until": pin.until, "days": pin.days} for pin in summary.pins],
        "counts": {_NAMES.get(noun, f"{noun}s"): number for noun, number in summary.counts.items()},
    }


def _document(value: JSON, form: str) -> str:
    return "\n".join(line.text for line in structured(value, form))


def _shown(tenant: JSON) -> JSON:
    """As kubectl shows objects: without the owners of fields."""
    metadata = {name: value for name, value in tenant["metadata"].items() if name != "managedFields"}
    return {**tenant, "metadata": metadata}


def _row(tenant: JSON) -> tuple[str, ...]:
    name, spec = tenant["metadata"]["name"], tenant.get("spec") or {}
    identity = spec.get("identity") or {}
    pins = [
        f"{_digits(pin['sha256'])} until {pin.get('until') or 'it expires'}"
        for pin in identity.get("certificates") or ()
    ]
    return (
        name,
        tenant_namespace(name),
        _hosts(spec),
        ", ".join(pins) or f"by name: {','.join(identity.get('names') or ())}",
        _state(tenant),
    )


def _hosts(spec: JSON) -> str:
    hosts = spec.get("hosts")
    return "<any>" if hosts is None else ",".join(hosts) or "<none>"


def _valid(pin: Pin) -> str:
    if pin.days is None:
        return f"{_digits(pin.sha256)} until it expires"
    left = "expired" if pin.days < 0 else f"{several(pin.days, 'day')} left"
    return f"{_digits(pin.sha256)} until {pin.until} ({left})"


def _digits(sha256: str) -> str:
    return sha256[:_SHOWN_DIGITS]


def _dpu(dpu: Dpu, tenant: str) -> str:
    labeled = "" if dpu.tenant == tenant else f", labeled for tenant {dpu.tenant}" if dpu.tenant else ", not labeled"
    return f"{dpu.node} (host {dpu.host or '<none>'}, {'ready' if dpu.ready else 'not ready'}{labeled})"


def _labeled(label: str, values: Sequence[str], *, none: str = "<none>") -> list[tuple[str, str]]:
    return [(label if not index else "", value) for index, value in enumerate(values or (none,))]


def _state(tenant: JSON) -> str:
    state = tenant_state(tenant)
    return f"error: {tenant['status'].get('message') or 'unknown'}" if state == "error" else state


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Conditions quote what gateways, agents and API servers said: of that, a terminal must obey nothing."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _change_hosts(
    name: str,
    kubeconfig: str | None,
    context: str | None,
    *,
    add: list[str] | None = None,
    remove: list[str] | None = None,
    yes: bool,
) -> int:
    check_name(name)

    async def plan(client: KubeClient) -> changes.HostChange:
        labels = await placement(client)
        return await changes.plan_hosts(client, name, placement=labels, add=add or (), remove=remove or ())

    change = in_infra(plan, kubeconfig, context)
    losses = change.losses()
    print_lines(losses, kubeconfig, context)
    if (remove or losses) and not confirmed(f"Change the hosts of tenant {name}?", "nothing changed", yes=yes):
        return 1
    lines = in_infra(lambda client: changes.change_hosts(client, change), kubeconfig, context)
    print_lines(lines, kubeconfig, context)
    return 0
