"""`berth why`: parses the flags, has one object judged over its links, and exits by the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import completing
from app.cli.cluster import Context, Home, Kubeconfig, Release, answered, examining, namespace_option
from app.cli.options import alone, epilog, files_option, output_option, show
from app.errors import UsageError
from app.explain.rendering import Plain
from app.text import utc_now
from app.why.rendering import STATUSES, Answer, render

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
        str | None,
        namespace_option(
            "-n", "--namespace", text="Namespace of the object (default: that of the kubeconfig's context)"
        ),
    ] = None,
    files: Annotated[
        list[str] | None,
        files_option("Objects that are not in the cluster yet: manifests, - for standard input; repeatable"),
    ] = None,
    output: Annotated[Plain, output_option()] = "text",
    home: Home = None,
    release: Release = "berth",
    kubeconfig: Kubeconfig = None,
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
            place = namespace or cluster.client.default_namespace
            try:
                await locate(cluster)
                if files:
                    return await asking.why_manifests(cluster, manifests, namespace=place)
                return await asking.why(cluster, words or (), namespace=place)
            finally:
                await cluster.close()

    answers = answered(run())
    show(render(answers, output, utc_now()))
    return max(STATUSES[answer.verdict.state] for answer in answers)
