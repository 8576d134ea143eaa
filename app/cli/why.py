"""`berth why`: parses the flags, has one object judged over its links, and exits by the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import completing
from app.cli.cluster import Context, Examined, Release, answered, dns_label, examining
from app.cli.options import alone, epilog, show
from app.errors import UsageError
from app.text import utc_now
from app.why.rendering import STATUSES, Answer, Form, render

if TYPE_CHECKING:
    from app.doctor.cluster import Cluster

_EPILOG = epilog(
    "berth why pod/web-0",
    "berth why appwrapper train -n research",
    "berth why -f pod.yaml",
    "berth why workloadrule/rule -n universe -o json",
    text="""Exit status: 0 fine, 1 it could not run, 2 the command line is wrong, 3 it waits for what comes by itself,
4 it is stuck, broken or not there.

Changes nothing. Rights in one namespace are enough for the objects of that namespace; what could not be read is a line
of the answer. The members of the JSON: docs/reference/why.md.""",
)

why_app = alone()


@why_app.command(epilog=_EPILOG)
def why(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="KIND/NAME", help="The object", autocompletion=completing.objects, show_default=False),
    ] = None,
    *,
    namespace: Annotated[
        str,
        typer.Option("-n", "--namespace", help="Namespace of the object", callback=dns_label("--namespace")),
    ] = "default",
    files: Annotated[
        list[str] | None,
        typer.Option(
            "-f",
            "--filename",
            metavar="FILE",
            help="Objects that are not in the cluster yet: manifests, - for standard input; repeatable",
        ),
    ] = None,
    output: Annotated[Form, typer.Option("-o", "--output", help="Form of the answer")] = "text",
    home: Annotated[
        str | None,
        typer.Option(
            "--berth-namespace",
            help="Namespace of Berth (default: found by its labels)",
            callback=dns_label("--berth-namespace", optional=True),
        ),
    ] = None,
    release: Release = "berth",
    kubeconfig: Examined = None,
    context: Context = None,
) -> int:
    """Say why an object is as it is: the causes, and the command that changes it."""
    if bool(words) == bool(files):
        raise UsageError("want KIND/NAME, such as pod/web-0, or -f FILE, and not both")

    async def run() -> list[Answer]:
        # Imported late, with all wings: they take longer to import than the flags to parse.
        from app.doctor.cluster import locate  # noqa: PLC0415
        from app.explain.reading import read_all  # noqa: PLC0415
        from app.why import asking  # noqa: PLC0415

        manifests = [obj for _, obj in read_all(files).objects] if files else []
        async with examining(kubeconfig, context, namespace=home, release=release) as fresh:
            cluster: Cluster = fresh()
            try:
                await locate(cluster)
                if files:
                    return await asking.why_manifests(cluster, manifests, namespace=namespace)
                return await asking.why(cluster, words or (), namespace=namespace)
            finally:
                await cluster.close()

    answers = answered(run(), kubeconfig, context)
    show(render(answers, output, utc_now()))
    return max(STATUSES[answer.verdict.state] for answer in answers)
