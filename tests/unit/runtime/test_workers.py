"""The parent of several workers, without starting any."""

from __future__ import annotations

import multiprocessing
import socket
import tempfile
from collections.abc import Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import cast

import pytest

from app.errors import UsageError
from app.runtime import workers
from app.settings.reconciling import Runnable
from app.settings.webhook import WebhookSettings


@pytest.fixture
def socket_pair() -> Iterator[list[socket.socket]]:
    pair = socket.socketpair()
    yield list(pair)
    for end in pair:
        end.close()


@pytest.fixture(autouse=True)
def read_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No directory for temporary files, as in a container whose root file system is read-only."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))


@pytest.fixture(autouse=True)
def unconfigured_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker sets up the logs of its process; this process is that of other tests too."""
    monkeypatch.setattr(workers.logs, "configure", lambda _level: None)


def test_counters_are_kept_in_memory_where_the_file_system_is_read_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(workers, "SHARED_MEMORY", str(tmp_path))
    with workers.metrics_directory() as directory:
        assert Path(directory).parent == tmp_path
    assert not Path(directory).exists()


def test_a_machine_without_any_place_to_write_is_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(workers, "SHARED_MEMORY", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="mount one at /tmp or set TMPDIR"):
        workers.metrics_directory()


def test_a_worker_whose_parent_listens_no_more_ends_without_a_word(socket_pair: list[socket.socket]) -> None:
    """The parent has the mistake from another worker, and has closed its end of the pipe."""
    listener, _ = socket_pair
    receiver, sender = multiprocessing.Pipe(duplex=False)
    receiver.close()

    def serve(*_: object) -> Runnable:
        raise UsageError("--manifests none: no such directory")

    with sender, pytest.raises(SystemExit) as ended:
        workers._worker(serve, WebhookSettings(), listener, sender)
    assert ended.value.code == 2


def test_the_end_of_a_pipe_is_handed_over_before_it_is_closed() -> None:
    receiver, sender = multiprocessing.Pipe(duplex=False)
    closed: list[bool] = []

    class Process:
        def start(self) -> None:
            closed.append(sender.closed)
            raise OSError("the process that forks was killed")

    with receiver, pytest.raises(OSError, match="was killed"):
        workers._start(cast("ForkServerProcess", Process()), sender)
    assert closed == [False]
    assert sender.closed
