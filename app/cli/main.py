"""The root of the command line: registers the commands, and turns every error into one line and an exit status.

Exit statuses: 0 done, 1 a fault while running, 2 the command line or a file the user wrote is wrong, 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated, Literal

import typer
import typer.main
from typer.exceptions import Abort, TyperException

from app.cli.options import HELP_NAMES, App, LazyGroup, alone, epilog, output_option, show, show_help, switches_of
from app.errors import BerthError, UsageError
from app.registry import ROLES
from app.text import in_our_words, printable
from app.wiring import Role, resolve

_COMMANDS = {
    "explain": (
        "explain:explain_app",
        "Show what would be injected into Pods and everything that makes Pods, field by field and why.",
    ),
    "doctor": (
        "doctor:doctor_app",
        "Find what is wrong with Berth in a cluster, what follows from it, and the command that fixes it.",
    ),
    "why": (
        "why:why_app",
        "Say why an object is as it is: the causes, and the command that changes it.",
    ),
    "status": (
        "status:status_app",
        "Show on one screen what Berth does in a cluster: roles, agents, tenants, companions, attachments.",
    ),
    "ui": (
        "ui:ui_app",
        "Show in a browser what Berth does, what is wrong, and why an object is as it is.",
    ),
    "version": ("main:version_app", "Print the version of Berth and of Python."),
    "health": ("health:health_app", "Check whether a role on this machine is alive."),
    "crds": ("crds:crds_app", "Print the CustomResourceDefinitions of Berth's kinds as YAML."),
    "sandbox": (
        "development:sandbox_app",
        "Run an infra and two tenant clusters on this machine, with Berth in each, until Ctrl-C.",
    ),
    "demo": (
        "development:demo_app",
        "Start a sandbox and play the examples in it, step by step; exits 0 only if every step holds.",
    ),
    "policies": (
        "policies:policies_app",
        "Have the API server inject networks itself, by admission policies in place of the webhook.",
    ),
    "certs": (
        "certs:certs_app",
        "Make, renew and show certificates, and make webhook configurations trust them.",
    ),
    "tenant": (
        "tenant:tenant_app",
        "Add, show, suspend and remove the tenants of an infra cluster, and make its gateway's certificates.",
    ),
}
"""The commands that are not roles: where they are, and their summaries, as the help of each begins."""
_GO_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_GO_FALSE = ("0", "f", "F", "false", "FALSE", "False")
_GO_COMMANDS = ("webhook", "certs", "certificates")
"""The commands that stand in for another program."""


def _role_app(role: Role) -> typer.Typer:
    from app.cli.roles import role_app  # noqa: PLC0415  with it come settings, which the list of commands does not need

    return role_app(role)


class _Root(LazyGroup):
    loaders = {role.name: (role.summary, partial(_role_app, role)) for role in ROLES} | {
        name: (summary, partial(resolve, f"app.cli.{reference}")) for name, (reference, summary) in _COMMANDS.items()
    }


cli = App(
    name="berth",
    cls=_Root,
    help="Puts every Pod beside the network hardware that it needs.",
    add_completion=True,
    context_settings={"help_option_names": HELP_NAMES},
    pretty_exceptions_enable=False,
)

_OUTPUT_FAULTS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415  a quarter of the time of a start

        print(f"berth {version('berth')}")
        raise typer.Exit


@cli.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    _show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Puts every Pod beside the network hardware that it needs."""
    show_help(context)


version_app = alone()


@version_app.command(epilog=epilog("berth version", "berth version -o json"))
def version(
    output: Annotated[Literal["text", "json", "yaml"], output_option()] = "text",
) -> None:
    """Print the version of Berth and of Python."""
    # Imported late, as no other command needs them here.
    import platform  # noqa: PLC0415
    from importlib.metadata import version  # noqa: PLC0415

    versions = {"version": version("berth"), "python": platform.python_version()}
    if output == "text":
        print(f"berth {versions['version']} (Python {versions['python']})")
        return
    from app.explain.rendering import structured  # noqa: PLC0415

    show(structured(versions, output))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status; a user's mistake is one line on standard error."""
    try:
        command = typer.main.get_command(cli)
        words = normalize(arguments, switches=switches_of(command, arguments))
        status = command(args=words, prog_name="berth", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except TyperException as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        return _fail(in_our_words(" ".join(message.split())), status=2)
    except BerthError as error:
        return _fail(str(error), status=2 if isinstance(error, UsageError) else 1)
    except (Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # The reader (head, less) has what it wanted; say nothing, as other tools do.
        sys.stderr.close()
        return 0
    except OSError as error:
        if error.errno not in _OUTPUT_FAULTS:
            raise
        # What is still buffered cannot be written either, and the interpreter would try again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _fail(f"cannot write the output: {error.strerror}", status=1)
    return status if isinstance(status, int) else 0


def _fail(message: str, *, status: int) -> int:
    # It may quote what others wrote: of that, a terminal must obey nothing.
    print("Error:", "\n".join(map(printable, message.split("\n"))), file=sys.stderr)
    return status


def normalize(arguments: Sequence[str], *, switches: Iterable[str]) -> list[str]:
    """The arguments with two dashes and without `=true`; `switches` are the names that take no value.

    Flags are accepted as Go's `flag` package does, so that an existing Deployment keeps its arguments. `-port=8443`,
    `--port=8443` and `--port 8443` are one; `-insecure=false` turns a switch off. That holds for the commands that
    stand in for another program; elsewhere one dash begins short options, as kubectl has them (`-ojson`). Nothing is
    decided here: the result is what Typer parses.

    Raises UsageError for a switch with a value that Go would not read as a boolean.
    """
    names = frozenset(switches)
    one_dash = next((argument for argument in arguments if not argument.startswith("-")), "") in _GO_COMMANDS
    out: list[str] = []
    for position, argument in enumerate(arguments):
        if argument == "--":
            return out + list(arguments[position:])
        name, equals, value = argument.lstrip("-").partition("=")
        dashes = len(argument) - len(argument.lstrip("-"))
        if dashes not in (1, 2) or not name or (dashes == 1 and not one_dash and len(name) > 1):
            out.append(argument)
        elif dashes == 1 and len(name) == 1:
            out += [f"-{name}", value] if equals else [argument]
        else:
            out.append(_long(name, equals, value, switch=name in names))
    return out


def _long(name: str, equals: str, value: str, *, switch: bool) -> str:
    if not switch or not equals:
        return f"--{name}{equals}{value}"
    if value in _GO_TRUE:
        return f"--{name}"
    if value in _GO_FALSE:
        return f"--no-{name}"
    raise UsageError(f"--{name}: want true or false, got {value!r}")
