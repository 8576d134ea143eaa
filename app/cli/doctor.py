"""`berth doctor`: parses the flags, has the checks run, prints what they found, and exits by the worst of it."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli import completing
from app.cli.cluster import Context, Home, Kubeconfig, Mine, Release, Scope, answered, examining, tell_home
from app.cli.options import alone, epilog, one_of, output_option, show
from app.doctor.model import Finding, worst
from app.doctor.rendering import Form, render
from app.errors import UsageError
from app.explain.rendering import Line
from app.registry import BY_NAME

_EPILOG = epilog(
    "berth doctor",
    "berth doctor --berth-namespace kube-system --release-name network-resources-injector",
    "berth doctor --only registrations --only certificate -o json",
    "berth doctor --ignore pods --ignore BERTH0307 -o junit",
    "berth doctor -n research   # the objects of one namespace, with rights in it alone",
    "berth doctor --pre   # before helm install",
    "berth doctor --explain BERTH0306",
    text="""Exit status: 0 nothing worse than information, 1 it could not run, 2 the command line is wrong, 3 warnings,
4 errors. What follows from a finding is written below it and is not counted. Each code has a section in
docs/troubleshooting.md.

Changes nothing: it reads, asks what may be done, and tries with dry runs. What it has no right to read is a finding
too; an administrator of the cluster sees everything.""",
)

doctor_app = alone()


@doctor_app.command(epilog=_EPILOG)
def doctor(
    *,
    namespace: Scope = None,
    mine: Mine = False,
    roles: Annotated[
        list[str] | None,
        typer.Option(
            "--role",
            metavar=one_of(BY_NAME),
            help="A role that has to be here; repeatable (default: as installed)",
            autocompletion=completing.among(BY_NAME),
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHECK|CODE",
            help="Show this check, or findings of this code; repeatable (default: all)",
            autocompletion=completing.checks,
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHECK|CODE",
            help="Leave out this check, or findings of this code; repeatable",
            autocompletion=completing.checks,
        ),
    ] = None,
    output: Annotated[Form, output_option()] = "text",
    explain: Annotated[
        str | None,
        typer.Option(
            metavar="CODE",
            help="Print the section about a code and exit; asks no cluster",
            autocompletion=completing.codes,
        ),
    ] = None,
    pre: Annotated[
        bool, typer.Option("--pre", help="Check what an installation needs, before there is one", show_default=False)
    ] = False,
    home: Home = None,
    release: Release = "berth",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> int:
    """Find what is wrong with Berth in a cluster, what follows from it, and the command that fixes it."""
    if explain is not None:
        # Imported late, with all wings: they take longer to import than the flags to parse.
        from app.doctor.catalog import section_text  # noqa: PLC0415

        show(map(Line, section_text(explain).splitlines()))
        return 0
    if pre and (only or ignore or roles or namespace or mine):
        raise UsageError("--pre checks what an installation needs: leave out --only, --ignore, --role, -n and --mine")
    if roles and (namespace or mine):
        raise UsageError("--role names what has to be in the cluster: leave out -n and --mine")
    for role in roles or []:
        if role not in BY_NAME:
            raise UsageError(f"--role: there is no role {role!r}: want one of {', '.join(BY_NAME)}")

    async def run() -> list[Finding]:
        # Imported late: the checks take longer to import than the flags to parse.
        from app.doctor.cluster import locate  # noqa: PLC0415
        from app.doctor.examining import CHECKS, PREFLIGHT, examine, pick, shown_of  # noqa: PLC0415

        checks = [PREFLIGHT] if pre else pick(CHECKS, only or (), ignore or ())
        async with examining(
            kubeconfig, context, namespace=home, release=release, roles=roles or (), scope=namespace, mine=mine
        ) as fresh:
            cluster = fresh()
            try:
                await locate(cluster)
                await tell_home(cluster)
                return await examine(cluster, checks, shown_of(only or (), ignore or ()))
            finally:
                await cluster.close()

    findings = answered(run())
    show(render(findings, output))
    return worst(findings).exit_status
