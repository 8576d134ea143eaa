"""A patch of one version of an object."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.devtools.sandbox.server import Cluster
from app.errors import ApiError
from app.kube.client import PatchType
from app.kube.resources import CONFIG_MAPS
from app.kube.transport import connect
from tests.support.waiting import PATIENCE

MERGE = {"metadata": {"labels": {"a": "b"}}, "data": {"c": "d"}}
OPERATIONS = [
    {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
    {"op": "add", "path": "/data", "value": {"c": "d"}},
]


@pytest.mark.parametrize(("kind", "patch"), [("merge", MERGE), ("strategic", MERGE), ("json", OPERATIONS)])
async def test_another_version_is_not_patched(tmp_path: Path, kind: PatchType, patch: Any) -> None:
    path = tmp_path / "kubeconfig"
    async with Cluster() as cluster:
        path.write_text(cluster.kubeconfig())
        async with await connect(kubeconfig=str(path), deadline=PATIENCE) as client:
            made = await client.create(CONFIG_MAPS, CONFIG_MAPS.body({"name": "m"}), namespace="default")
            options: Any = {"patch_type": kind, "namespace": "default", "version": made["metadata"]["resourceVersion"]}
            written = await client.patch(CONFIG_MAPS, "m", patch, **options)
            assert (written["metadata"]["labels"], written["data"]) == ({"a": "b"}, {"c": "d"})
            with pytest.raises(ApiError) as refused:
                await client.patch(CONFIG_MAPS, "m", patch, **options)
            assert refused.value.conflict
