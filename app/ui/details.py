"""What a view says of an object beside its verdict: further columns, amounts of which a part is used, and lines."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

import msgspec

from app.doctor.catalog import plain
from app.kube.quantity import canonical, parse, written
from app.text import printable
from app.ui.subjects import Target

MOST = 8
"""Lines of an object; how many more there are is said."""


class Amount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How much of something is used: quantities, and the share of the whole in percent, 100 at most."""

    name: str
    used: str
    whole: str
    share: int


class Line(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that belongs to an object: a text, the object that it is about, and the state of that, "" for none."""

    text: str
    target: Target | None = None
    state: str = ""


class Detail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`cells` are further columns by name; `more` says how many lines are left out."""

    cells: dict[str, str] = {}
    amounts: tuple[Amount, ...] = ()
    lines: tuple[Line, ...] = ()
    more: int = 0


def detail(lines: Iterable[Line] = (), *, amounts: Iterable[Amount] = (), more: int = 0, **cells: object) -> Detail:
    """With the first of the lines; `more` are those that the caller has left out already."""
    every = tuple(lines)
    texts = {name: plain(value) for name, value in cells.items()}
    return Detail(cells=texts, amounts=tuple(amounts), lines=every[:MOST], more=more + max(0, len(every) - MOST))


def line(text: object, target: Target | None = None, state: str = "") -> Line:
    """One that says what an object, or its author, says."""
    return Line(text=printable(plain(text)), target=target, state=state)


def amount(name: str, used: Decimal, whole: str) -> Amount:
    """Of a resource, how much is used of a quantity, in the form of that. Raises QuantityError."""
    number = parse(whole)
    share = 100 if used >= number else int(100 * used / number)
    return Amount(name=plain(name), used=written(used, like=whole), whole=canonical(whole), share=share if used else 0)
