"""The root of the command line: registers the commands, and turns every error into one line and an exit status.

Exit statuses: 0 done, 1 a fault while running, 2 the command line or a file the user wrote is wrong, 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer
import typer.main
from typer.exceptions import Abort, TyperException

from app.cli.certs import certs_app
from app.cli.crds import EPILOG as CRDS_EPILOG
from app.cli.crds import crds
from app.cli.demo import EPILOG as DEMO_EPILOG
from app.cli.demo import demo
from app.cli.doctor import EPILOG as DOCTOR_EPILOG
from app.cli.doctor import doctor
from app.cli.explain import explain
from app.cli.goflags import normalize
from app.cli.health import EPILOG as HEALTH_EPILOG
from app.cli.health import health
from app.cli.options import missing_command, switches_of
from app.cli.roles import add_role
from app.cli.sandbox import EPILOG as SANDBOX_EPILOG
from app.cli.sandbox import sandbox
from app.cli.tenant import tenant_app
from app.errors import BerthError, UsageError
from app.registry import ROLES

cli = typer.Typer(
    name="berth",
    help="Puts every Pod beside the network hardware that it needs.",
    no_args_is_help=False,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for _role in ROLES:
    if len(_role.command) == 1:
        add_role(cli, _role)
cli.command("explain")(explain)
cli.command("doctor", epilog=DOCTOR_EPILOG)(doctor)
cli.command("health", epilog=HEALTH_EPILOG)(health)
cli.command("crds", epilog=CRDS_EPILOG)(crds)
cli.command("sandbox", epilog=SANDBOX_EPILOG)(sandbox)
cli.command("demo", epilog=DEMO_EPILOG)(demo)
cli.add_typer(certs_app, name="certs")
cli.add_typer(tenant_app, name="tenant")

_OUTPUT_FAULTS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})


def _version(wanted: bool) -> None:
    if wanted:
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
    if context.invoked_subcommand is None:
        raise missing_command(context)


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
        return _fail(" ".join(message.split()), status=2)
    except UsageError as error:
        return _fail(str(error), status=2)
    except BerthError as error:
        return _fail(str(error), status=1)
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
    print(f"Error: {message}", file=sys.stderr)
    return status
