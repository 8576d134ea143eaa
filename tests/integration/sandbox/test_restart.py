"""A cluster that comes back empty on its old port: clients notice, and see what there is now."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from app.devtools.sandbox.pki import Authority
from app.devtools.sandbox.server import Cluster
from app.kube.reflector import Reflector, Scope
from app.kube.resources import CONFIG_MAPS
from app.kube.store import Store
from app.kube.transport import connect
from app.wire import decode_json
from tests.support.waiting import PATIENCE, eventually

JSON = dict[str, Any]


def config_map(name: str) -> JSON:
    return {"metadata": {"name": name}}


def names_in(store: Store[JSON]) -> set[str]:
    return {name for _, name in store.keys()}  # noqa: SIM118 - a store is no dictionary


async def test_a_reflector_follows_a_cluster_that_lost_its_objects(tmp_path: Path) -> None:
    """The fresh cluster writes more than the old one did, so that no version can be taken for an old one."""
    authority = Authority("restart")
    first = Cluster(authority=authority)
    await first.start()
    port = int(first.url.rpartition(":")[2])
    path = tmp_path / "kubeconfig"
    path.write_text(first.kubeconfig())
    async with await connect(kubeconfig=str(path), deadline=PATIENCE) as client:
        store: Store[JSON] = Store(lambda obj: obj)
        running = asyncio.create_task(Reflector(client, Scope(CONFIG_MAPS), store).run())
        await client.create(CONFIG_MAPS, config_map("old"), namespace="default")
        await eventually(lambda: names_in(store) == {"old"})
        await first.stop()

        second = Cluster(authority=authority, port=port)
        names = {f"new-{number}" for number in range(5)}
        for name in names:
            second.storage.create(
                ("", "configmaps"),
                {
                    "kind": "ConfigMap",
                    "apiVersion": "v1",
                    "metadata": {"namespace": "default", "name": name},
                },
            )
        await second.start()
        try:
            await eventually(lambda: names_in(store) == names)
            await client.create(CONFIG_MAPS, config_map("later"), namespace="default")
            await eventually(lambda: names_in(store) == {*names, "later"})
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await second.stop()


async def test_a_version_of_an_earlier_life_is_too_old_to_watch_from(tmp_path: Path) -> None:
    old = Cluster().storage.version
    async with Cluster() as fresh:
        path = tmp_path / "kubeconfig"
        path.write_text(fresh.kubeconfig())
        async with await connect(kubeconfig=str(path), deadline=PATIENCE) as client:
            lines = [line async for line in client.watch(CONFIG_MAPS, resource_version=str(old)) if line.strip()]
    assert [(event["type"], event["object"]["code"]) for event in map(decode_json, lines)] == [("ERROR", 410)]
