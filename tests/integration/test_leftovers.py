"""What is left open is an error of the test with which its life ends, whether a test, a module or the session held it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.nested import nested_pytest
from tests.support.paths import ROOT

CONFTEST = ROOT / "tests" / "conftest.py"
MODULE = """
import socket
import pytest

class Holder:
    def __init__(self):
        self.itself, self.open = self, socket.socket()

@pytest.fixture(scope="{scope}")
def holder():
    made = Holder()
    yield made
    del made

@pytest.fixture
def nothing():
    pass

def test_before(): pass
def test_local(): Holder() if "{scope}" == "function" else None
def test_uses({fixture}): pass
def test_after(): pass
"""
OTHER = "def test_of_another_module(): pass"


@pytest.mark.parametrize(
    ("scope", "fixture", "blamed"),
    [
        ("function", "nothing", "test_local"),
        ("module", "holder", "test_after"),
        ("session", "holder", "test_of_another_module"),
    ],
)
def test_an_open_socket_in_a_cycle_is_an_error_where_its_life_ends(
    tmp_path: Path, scope: str, fixture: str, blamed: str
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "test_a.py").write_text(MODULE.format(scope=scope, fixture=fixture))
    (tmp_path / "test_b.py").write_text(OTHER)
    output = nested_pytest("-q", "-W", "error", "test_a.py", "test_b.py", cwd=tmp_path)
    assert re.findall(r"^(?:ERROR|FAILED) \S+::(\w+)", output, re.MULTILINE) == [blamed], output
    assert "ResourceWarning: unclosed <socket" in output
