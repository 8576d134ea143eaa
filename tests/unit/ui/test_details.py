"""What a view says of an object beside its verdict."""

from __future__ import annotations

from decimal import Decimal

import pytest

from app.kube.quantity import QuantityError
from app.ui.details import MOST, amount, detail, line


@pytest.mark.parametrize(
    ("used", "whole", "shown"),
    [
        ("2", "8", ("2", "8", 25)),
        ("4294967296", "16Gi", ("4Gi", "16Gi", 25)),
        ("0.5", "1500m", ("500m", "1500m", 33)),
        ("9", "8", ("9", "8", 100)),
        ("0", "0", ("0", "0", 0)),
        ("1", "0", ("1", "0", 100)),
    ],
)
def test_an_amount_is_written_as_the_whole_is(used: str, whole: str, shown: tuple[str, str, int]) -> None:
    value = amount("cpu", Decimal(used), whole)
    assert (value.used, value.whole, value.share) == shown


def test_what_is_no_quantity_is_no_amount() -> None:
    with pytest.raises(QuantityError):
        amount("cpu", Decimal(1), "much")


def test_the_first_lines_are_kept_and_the_others_counted() -> None:
    said = detail((line(number) for number in range(MOST + 3)), more=2, column="a\nb")
    assert [kept.text for kept in said.lines] == [str(number) for number in range(MOST)]
    assert said.more == 5
    assert said.cells == {"column": "a b"}


def test_what_cannot_be_printed_is_escaped() -> None:
    assert line("a\u202eb\x1b[31m").text.isprintable()
