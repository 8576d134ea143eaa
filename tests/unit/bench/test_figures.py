"""A run fails where a figure is clearly worse than the one that is kept, and tells each with its aim."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import figures
from bench.figures import Figure, judge


@pytest.fixture(autouse=True)
def _kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of the kept figures is one of the test's own."""
    monkeypatch.setattr(figures, "EXPECTED", tmp_path / "expected.json")


@pytest.mark.parametrize(
    ("value", "better", "failures"),
    [
        (0.91, "greater", []),
        (0.89, "greater", ["x: want at least 0.90 (kept: 1.00), got 0.89"]),
        (5.0, "greater", []),
        (1.11, "less", []),
        (1.12, "less", ["x: want at most 1.11 (kept: 1.00), got 1.12"]),
        (0.1, "less", []),
    ],
)
def test_a_tenth_worse_than_kept_is_a_failure(value: float, better: str, failures: list[str]) -> None:
    assert judge([Figure("x", value, better=better)], {"x": 1.0}) == failures


def test_a_missed_aim_alone_is_no_failure_but_said() -> None:
    figure = Figure("x", 0.4, 0.75, spread=(0.3, 0.5), economy=0.45)
    assert judge([figure], {"x": 0.4}) == []
    assert figures.markdown([figure])[-1] == "| x | 0.40 | 0.30 to 0.50 | 0.45 | ≥ 0.75 | missed |"
    assert (
        figures.markdown([Figure("m", 58.2, 60, "less", unit="MiB")])[-1] == "| m | 58.2 MiB |  |  | ≤ 60 MiB | met |"
    )


def test_names_are_unique_and_a_whole_run_measures_all_that_is_kept() -> None:
    assert judge([Figure("x", 1), Figure("x", 2)], {}) == ["x: 2 figures have this name"]
    assert judge([Figure("x", 1)], {"gone": 1.0}) == []
    assert judge([Figure("x", 1)], {"gone": 1.0}, whole=True) == ["gone: kept, but not measured"]


def test_the_exit_status_tells_of_a_failure_with_its_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert figures.conclude([Figure("x", 1.0, 0.9)], keep_them=True, whole=False) == 0
    assert figures.read() == {"x": 1.0}
    assert figures.conclude([Figure("x", 0.95, 0.9)], keep_them=False, whole=False) == 0
    assert capsys.readouterr().err == ""
    assert figures.conclude([Figure("x", 0.8, 0.9)], keep_them=False, whole=False) == 1
    assert "x: want at least 0.90 (kept: 1.00), got 0.80" in capsys.readouterr().err


def test_a_part_of_a_run_keeps_the_figures_of_the_others() -> None:
    figures.keep([Figure("x", 1.23456, 1), Figure("y", 2, 1), Figure("untold", 3)])
    figures.keep([Figure("x", 7, 1)])
    assert figures.read() == {"x": 7, "y": 2}
    figures.keep([Figure("x", 8, 1)], whole=True)
    assert figures.read() == {"x": 8}


def test_the_median_of_rounds_has_their_spread() -> None:
    assert Figure.median("x", [3.0, 1.0, 2.0]) == Figure("x", 2.0, spread=(1.0, 3.0))
    assert Figure.median("x", [3.0]) == Figure("x", 3.0)
