"""What is said of a wrong value: the flag, and what would be right, in no library's words."""

from __future__ import annotations

import pytest

from app.cli.main import run


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("webhook --port x", "Invalid value for '--port': want a valid integer"),
        ("gateway --calls-per-second x", "Invalid value for '--calls-per-second': want a valid number"),
        ("status --interval 0", "Invalid value for '--interval': want greater than or equal to 1"),
        ("tenant add t --days 0", "Invalid value for '--days': want greater than or equal to 1"),
        ("doctor -o x", "Invalid value for '-o' / '--output': 'x' is not one of 'text', 'json', 'yaml', 'junit'."),
        ("tenant list -o x", "Invalid value for '-o' / '--output': 'x' is not one of 'text', 'json', 'yaml', 'name'."),
        ("webhook --workers 100", "--workers: want less than or equal to 64, got '100'"),
    ],
)
def test_a_wrong_value(line, message, capsys) -> None:
    assert run(line.split()) == 2
    assert capsys.readouterr().err == f"Error: {message}\n"
