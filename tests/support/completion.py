"""What a shell offers for the last word of a line, as the program prints it."""

from __future__ import annotations

import contextlib
import io
from unittest import mock

from app.cli.main import run


def completed(line: str) -> list[str]:
    """By bash. Fails where something is printed on standard error."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    return printed(_BERTH_COMPLETE="complete_bash", **words).split()


def printed(**environment: str) -> str:
    """What the program prints to a shell that sets these variables."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict("os.environ", environment),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.suppress(SystemExit),
    ):
        run([])
    assert err.getvalue() == ""
    return out.getvalue()
