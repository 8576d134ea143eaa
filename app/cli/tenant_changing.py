"""`berth tenant host`, `suspend` and `resume`: what they would take away, the question, and the change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import cluster, completing, options
from app.cli.tenant_running import Kubeconfig, Name, Yes, check_name, confirmed, in_infra, placement, print_lines
from app.tenancy.tenants import changes, enrolling

if TYPE_CHECKING:
    from app.kube.client import KubeClient

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


@host_app.command(
    epilog=options.epilog(
        "berth tenant host add tenant1 host-c host-d",
        text="""The nodes (DPUs) of these hosts get the label of the tenant. If the tenant had no list of hosts,
other nodes lose its label: the command says which, and asks.""",
    ),
)
def add(
    *, name: Name, hosts: _NewHosts, yes: Yes = False, kubeconfig: Kubeconfig = None, context: cluster.Context = None
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
    *, name: Name, hosts: _Hosts, yes: Yes = False, kubeconfig: Kubeconfig = None, context: cluster.Context = None
) -> int:
    """Remove hosts from a tenant."""
    return _change_hosts(name, kubeconfig, context, remove=hosts, yes=yes)


def suspend(*, name: Name, yes: Yes = False, kubeconfig: Kubeconfig = None, context: cluster.Context = None) -> int:
    """Refuse a tenant at the gateway until it is resumed; what it has stays."""
    check_name(name)
    consequences = in_infra(lambda client: enrolling.suspension(client, name), kubeconfig, context)
    if not consequences:
        print(f"tenant {name} is suspended already")
        return 0
    print_lines(consequences)
    if not confirmed(f"Suspend tenant {name}?", "nothing changed", yes=yes):
        return 1
    in_infra(lambda client: changes.set_suspended(client, name, suspended=True), kubeconfig, context)
    print(f"tenant {name} suspended")
    return 0


def resume(*, name: Name, kubeconfig: Kubeconfig = None, context: cluster.Context = None) -> None:
    """Let the gateway accept a suspended tenant again."""
    check_name(name)

    async def work(client: KubeClient) -> bool:
        await changes.existing_tenant(client, name)
        return await changes.set_suspended(client, name, suspended=False)

    if in_infra(work, kubeconfig, context):
        print(f"tenant {name} resumed: its agent tries again by itself, and sends what has changed meanwhile")
    else:
        print(f"tenant {name} is not suspended")


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
    print_lines(losses)
    if (remove or losses) and not confirmed(f"Change the hosts of tenant {name}?", "nothing changed", yes=yes):
        return 1
    print_lines(in_infra(lambda client: changes.change_hosts(client, change), kubeconfig, context))
    return 0
