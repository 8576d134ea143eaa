"""Times as the program `sleep` of coreutils reads them, against the program itself."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from app.devtools.sandbox.standins.commands import Run, run_of

WRONG = "no-time"
TIMES = [
    *["inf", "INF", "Inf", "iNfInItY", "infinity", "INFINITY", "infd", "infinitys", "infinit", "infx", "nan", "NAN"],
    *["1m", "1.5h", ".5", "5.", "2d", "0", "00.10s", "1M", "1S", "1ms", "1d1h", "1 h", "m", "s"],
    *["1e3", "1E1", "1e+2", "1e-2m", "1e400", "1e-400", "e5", "1e", "1e+", "1_0", "1,5", "1.2.3", ".", "", "+5", "+", "-1"],
    *["--1", "-inf", " 5", "\t5", "5 ", "0x10", "0X1P3", "0x.8", "0x1.8p1h", "0x1d", "0x", "0xs", "0xg", "0b1", "٣", "½"],
]  # fmt: skip


@pytest.fixture(scope="module")
def refused() -> str:
    """What `sleep` says of all of these: it names each time that it refuses, and sleeps none."""
    version = subprocess.run(["sleep", "--version"], capture_output=True, text=True, check=False).stdout
    if shutil.which("sleep") is None or "GNU coreutils" not in version:
        pytest.skip("the program sleep is not that of GNU coreutils")
    command = ["sleep", "--", WRONG, *TIMES]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"LC_ALL": "C.UTF-8"})
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize("time", TIMES, ids=repr)
def test_a_time_is_refused_as_by_the_program(refused: str, time: str) -> None:
    assert (run_of({"command": ["sleep", "--", time]}) == Run(0, 1)) == (f"‘{time}’" in refused)  # noqa: RUF001  # its quotes


@pytest.mark.parametrize(
    ("time", "seconds"),
    [("1m", 60), ("1.5h", 5400), ("1e3", 1000), ("0x10", 16), ("0x1d", 29), ("0x1.8p1m", 180), ("+5", 5), ("2d", 172800)],
)  # fmt: skip
def test_the_length_of_a_time(time: str, seconds: float) -> None:
    assert run_of({"command": ["sleep", time]}) == Run(seconds, 0)
