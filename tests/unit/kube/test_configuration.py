"""The last configuration that could be read stays in force, until its ConfigMap goes."""

from __future__ import annotations

from typing import Any

from app.kube.configuration import Configuration, data_of
from app.kube.store import Store


def config_map(text: str) -> dict[str, Any]:
    return {"metadata": {"name": "numbers", "namespace": "ns"}, "data": {"number": text}}


def test_the_last_good_one_stays() -> None:
    changes: list[int] = []
    store: Store[dict[str, Any]] = Store(data_of)
    found: Configuration[int] = Configuration(
        store,
        name="numbers",
        parse=lambda obj: int(obj["data"]["number"]),
        usual=7,
        changed=lambda: changes.append(found.current),
    )
    assert (found.current, found.problems()) == (7, [])
    store.upsert(config_map("3"))
    assert (found.current, found.problems()) == (3, [])
    store.upsert(config_map("three"))
    assert found.current == 3
    (problem,) = found.problems()
    assert problem.startswith("configmaps/numbers: invalid literal")
    store.upsert(config_map("4"))
    assert (found.current, found.problems()) == (4, [])
    store.remove("ns", "numbers")
    assert (found.current, changes) == (7, [3, 4, 7])
