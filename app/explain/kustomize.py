"""What `kubectl kustomize` builds, with bounds for its time and its output."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import time
from contextlib import suppress

from app.errors import UsageError
from app.kube.documents import MOST_BYTES
from app.text import MESSAGE, one_line, printable
from app.yaml_documents import text_in

SECONDS = 120.0
"""Kustomizations may name repositories, which are fetched first."""
_MOST_ERRORS = 64 * 1024


def build(directory: str, *, seconds: float = SECONDS) -> str:
    """The manifests of a kustomization as YAML.

    Raises UsageError where there is no kubectl, or with what it writes where it fails.
    """
    kubectl = shutil.which("kubectl")
    shown = printable(directory)
    if kubectl is None:
        raise UsageError(f"-k {shown}: kubectl is not on PATH: install it, or pipe the manifests to berth explain -f -")
    try:
        status, out, errors = _run(kubectl, "kustomize", "--", directory, seconds=seconds)
    except TimeoutError:
        raise UsageError(f"-k {shown}: kubectl kustomize has not finished after {seconds:g} seconds") from None
    except OSError as error:
        raise UsageError(f"-k {shown}: cannot run kubectl: {error.strerror or error}") from error
    if len(out) > MOST_BYTES:
        raise UsageError(f"-k {shown}: kubectl kustomize writes more than {MOST_BYTES >> 20} MiB")
    if status:
        said = printable(one_line(errors.decode(errors="replace"), MESSAGE)) or f"exit status {status}"
        raise UsageError(f"-k {shown}: kubectl kustomize: {said}")
    try:
        return text_in(out)
    except UnicodeDecodeError as error:
        raise UsageError(f"-k {shown}: kubectl kustomize writes what is not UTF-8 text") from error


def _run(*command: str, seconds: float) -> tuple[int, bytes, bytes]:
    """Exit status and the beginning of both outputs. Nothing of it runs on afterwards.

    Raises TimeoutError. Ends where there is too much output; what is beyond the first errors is read and dropped, so
    that their writer does not wait.
    """
    deadline, out, errors = time.monotonic() + seconds, bytearray(), bytearray()
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(  # noqa: S603  kubectl of PATH, without a shell
            command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True
        ) as process,
        selectors.DefaultSelector() as selector,
    ):
        assert process.stdout is not None and process.stderr is not None  # noqa: S101, PT018  both are pipes
        selector.register(process.stdout, selectors.EVENT_READ, (out, MOST_BYTES + 1))
        selector.register(process.stderr, selectors.EVENT_READ, (errors, _MOST_ERRORS))
        try:
            while selector.get_map() and len(out) <= MOST_BYTES:
                for key, _ in selector.select(max(0.0, deadline - time.monotonic())):
                    if not (chunk := os.read(key.fd, 1 << 16)):
                        selector.unregister(key.fileobj)
                    found, limit = key.data
                    found += chunk[: limit - len(found)]
                if time.monotonic() >= deadline:
                    raise TimeoutError
            status = 0 if selector.get_map() else process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise TimeoutError from error
        finally:
            _end(process.pid)
    return status, bytes(out), bytes(errors)


def _end(group: int) -> None:
    """End what kubectl has started, too."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
