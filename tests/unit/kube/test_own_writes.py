"""What is known of objects while a cache lags behind our own writes."""

from __future__ import annotations

from dataclasses import dataclass

from app.kube.own_writes import OwnWrites

KEY = ("ns", "a")


@dataclass(frozen=True)
class Thing:
    uid: str
    version: int
    owner: str = "o"


class Bench:
    """A cache and the writes over it; with `versions` a state is known by its version, else by being another one."""

    def __init__(self, *, versions: bool = True) -> None:
        self.now = 0.0
        self.cache: dict[tuple[str, str], Thing] = {}
        self.writes: OwnWrites[Thing] = OwnWrites(
            self.cache.get,
            lifetime=10.0,
            reached=(lambda shown, written: shown.version >= written.version) if versions else None,
            uid=lambda thing: thing.uid,
            group=lambda thing: thing.owner,
            clock=lambda: self.now,
        )

    def show(self, new: Thing | None) -> bool:
        old = self.cache.pop(KEY, None)
        if new is not None:
            self.cache[KEY] = new
        return self.writes.shown(KEY, old, new)


def test_a_write_stands_until_the_cache_reaches_it() -> None:
    bench = Bench()
    bench.show(Thing("1", 1))
    bench.writes.wrote(KEY, Thing("1", 3))
    assert bench.writes.get(KEY) == bench.writes.written(KEY) == Thing("1", 3)
    assert not bench.show(Thing("1", 2))
    assert bench.writes.get(KEY) == Thing("1", 3)
    assert bench.show(Thing("1", 3))
    assert bench.writes.written(KEY) is None
    assert bench.writes.get(KEY) == Thing("1", 3)
    assert not bench.show(Thing("1", 4))


def test_an_answer_that_comes_after_the_end_of_its_object_is_not_believed() -> None:
    bench = Bench()
    bench.show(Thing("1", 2))
    bench.show(None)
    bench.writes.wrote(KEY, Thing("1", 1))
    assert bench.writes.get(KEY) is None
    bench.writes.deleted(KEY, "1")
    assert not len(bench.writes)


def test_the_end_of_a_predecessor_says_nothing_of_its_successor() -> None:
    bench = Bench()
    bench.show(Thing("1", 1))
    bench.writes.deleted(KEY, "1")
    assert bench.writes.get(KEY) is None
    bench.writes.wrote(KEY, Thing("2", 5))
    assert not bench.show(None)
    assert bench.writes.get(KEY) == Thing("2", 5)


def test_writes_are_found_by_their_group_until_they_expire() -> None:
    bench = Bench()
    bench.writes.wrote(KEY, Thing("1", 1))
    bench.now = 5.0
    bench.writes.wrote(("ns", "b"), Thing("2", 1))
    bench.writes.deleted(("ns", "c"), "3")
    assert set(bench.writes.of("o")) == {Thing("1", 1), Thing("2", 1)}
    bench.now = 10.0
    assert bench.writes.get(KEY) is None
    assert bench.writes.expire() == [Thing("1", 1)]
    assert bench.writes.of("o") == [Thing("2", 1)]
    bench.now = 15.0
    assert bench.writes.expire() == [Thing("2", 1)]
    assert not len(bench.writes)
    assert not bench.writes.of("o")


def test_what_is_shown_while_a_write_is_under_way_is_taken_for_it() -> None:
    bench = Bench()
    with bench.writes.under_way(KEY):
        assert bench.show(Thing("1", 1))
    assert not bench.show(Thing("1", 2))


def test_without_versions_every_other_state_ends_a_write() -> None:
    """Another client may have restored what was there before: that is seen, too."""
    bench = Bench(versions=False)
    before, written, other = Thing("1", 1), Thing("1", 2), Thing("1", 9)
    bench.show(before)
    bench.writes.wrote(KEY, written)
    assert bench.writes.get(KEY) == written
    bench.cache[KEY] = other
    assert bench.writes.get(KEY) == other
    bench.cache[KEY] = before
    assert bench.writes.get(KEY) == before


def test_nothing_is_known_after_a_doubt() -> None:
    bench = Bench()
    bench.writes.wrote(KEY, Thing("1", 1))
    bench.writes.clear()
    assert bench.writes.get(KEY) is None
    assert not bench.writes.of("o")


def test_what_was_noted_is_put_back_with_its_end() -> None:
    """A deletion too: it must not be forgotten because a write after it has failed."""
    bench = Bench()
    bench.show(Thing("1", 1))
    bench.writes.deleted(KEY, "1")
    noted = bench.writes.noted(KEY)
    bench.now = 4.0
    bench.writes.wrote(KEY, Thing("2", 2))
    bench.writes.restore(KEY, noted)
    assert bench.writes.get(KEY) is None
    bench.now = 10.0
    assert bench.writes.get(KEY) == Thing("1", 1)
    bench.writes.restore(KEY, None)
    assert len(bench.writes) == 0


def test_a_write_that_was_never_shown_is_forgotten_when_it_is_looked_at() -> None:
    bench = Bench(versions=False)
    bench.writes.wrote(KEY, Thing("1", 1))
    assert bench.writes.get(KEY) == Thing("1", 1)
    bench.now = 10.0
    assert bench.writes.get(KEY) is None
    assert len(bench.writes) == 0
