"""What is known of Workloads while the cache lags behind our own writes."""

from __future__ import annotations

from typing import Any

from app.kube.store import Store
from app.tenancy.gateway.caches import LAG, Known, digest_of, ledger_of, project_known
from app.tenancy.messages import canonical

KEY = ("ns", "workload-a")


def obj(node: str, version: int, uid: str = "u1") -> dict[str, Any]:
    metadata = {"namespace": "ns", "name": "workload-a", "uid": uid, "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"node": node}}


class Bench:
    def __init__(self) -> None:
        self.now = 0.0
        self.store: Store[Known] = Store(project_known)
        self.ledger = ledger_of(self.store, clock=lambda: self.now)

    def node(self) -> str | None:
        """Which node the ledger believes in."""
        known = self.ledger.get(KEY)
        names = {digest_of(canonical({"node": name})): name for name in ("a", "b", "c")}
        return None if known is None else names[known.digest]


def test_a_write_counts_before_the_cache_shows_it() -> None:
    bench = Bench()
    bench.store.upsert(obj("a", 1))
    bench.ledger.wrote(KEY, project_known(obj("b", 2)))
    assert bench.node() == "b"
    bench.ledger.wrote(KEY, project_known(obj("a", 3)))
    bench.store.upsert(obj("b", 2))  # late news of the first write
    assert bench.node() == "a"
    bench.store.upsert(obj("a", 3))
    assert bench.node() == "a"
    bench.store.upsert(obj("c", 4))  # somebody else's
    assert bench.node() == "c"


def test_a_cache_that_was_faster_is_believed() -> None:
    bench = Bench()
    bench.store.upsert(obj("c", 5))
    bench.ledger.wrote(KEY, project_known(obj("b", 4)))
    assert bench.node() == "c"


def test_a_deletion_counts_before_the_cache_shows_it() -> None:
    bench = Bench()
    bench.store.upsert(obj("a", 1))
    bench.ledger.deleted(KEY, "u1")
    assert bench.node() is None
    bench.store.upsert(obj("b", 2))  # late news of the deleted one
    assert bench.node() is None
    bench.store.remove(*KEY)
    bench.store.upsert(obj("c", 9, uid="u2"))
    assert bench.node() == "c"


def test_a_deletion_of_what_the_cache_has_never_shown_counts() -> None:
    bench = Bench()
    bench.ledger.wrote(KEY, project_known(obj("a", 1)))
    bench.ledger.deleted(KEY, "u1")
    bench.store.upsert(obj("a", 1))
    assert bench.node() is None
    bench.store.remove(*KEY)
    assert not bench.ledger


def test_a_write_that_never_shows_is_not_believed_for_ever() -> None:
    bench = Bench()
    bench.ledger.wrote(KEY, project_known(obj("a", 1)))
    bench.now = LAG + 1
    assert bench.node() is None


def test_a_write_whose_object_goes_is_gone() -> None:
    bench = Bench()
    bench.store.upsert(obj("a", 1))
    bench.ledger.wrote(KEY, project_known(obj("b", 2)))
    bench.store.remove(*KEY)
    assert bench.node() is None


def test_after_a_doubt_nothing_is_known_but_what_the_cache_shows() -> None:
    """Our writes may have gone to a storage that was replaced by an earlier copy."""
    bench = Bench()
    bench.store.replace_all([obj("a", 1)])
    bench.ledger.wrote(KEY, project_known(obj("b", 5)))
    bench.store.suspect()
    bench.store.replace_all([obj("a", 1)])
    assert bench.node() == "b"
    bench.store.mark_synced()
    assert bench.node() == "a"
    bench.ledger.deleted(KEY, "u1")
    assert bench.node() is None
    bench.store.suspect()
    bench.store.mark_synced()
    assert bench.node() == "a"
