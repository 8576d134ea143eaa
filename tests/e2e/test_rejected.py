"""What a real API server will never take, though it answers as if it had failed: callers must not try again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import grpc
import pytest

from app.errors import ApiError
from app.kube.resources import NAMESPACES, PODS
from app.kube.transport import connect
from app.tenancy.gateway.failures import code_of
from tests.support.real_apiserver import real_api_servers

ASSETS = os.environ.get("KUBEBUILDER_ASSETS", "")
pytestmark = [pytest.mark.e2e, pytest.mark.skipif(not ASSETS, reason="needs a real API server: KUBEBUILDER_ASSETS")]


def pod(spec: Any = None, **container: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "x", **container}], **(spec or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "resourceVersion": "1"}, "spec": spec}


def variables(count: int) -> list[dict[str, str]]:
    return [{"name": f"E{number:06}", "value": ""} for number in range(count)]


NEVER = {
    "a field that is not there": pod({"nonsense": {"name": "w"}}),
    "a value of another type": pod({"hostNetwork": "yes"}),
    "a quantity that is none": pod(resources={"limits": {"cpu": "one"}}),
    "a key twice": pod(ports=[{"containerPort": 80}, {"containerPort": 80}]),
    "more than etcd takes": pod(env=variables(24_000)),
    "more than its client sends": pod(env=variables(30_000)),
    "an annotation that is too long": pod() | {"metadata": {"name": "p", "annotations": {"a": "x" * 300_000}}},
}


async def test_what_is_never_taken_is_the_callers_mistake(tmp_path: Path) -> None:
    codes = {}
    with real_api_servers(Path(ASSETS), tmp_path, ["infra"]) as servers:
        async with await connect(kubeconfig=str(servers["infra"]), deadline=60) as client:
            await client.create(NAMESPACES, {"metadata": {"name": "t"}})
            for name, body in NEVER.items():
                with pytest.raises(ApiError) as refused:
                    await client.apply(PODS, "p", body, namespace="t", field_manager="b", force=False)
                codes[name] = (code_of(refused.value), refused.value.status)
    assert {name: code for name, code in codes.items() if code[0] is not grpc.StatusCode.INVALID_ARGUMENT} == {}
    assert 500 in {status for _, status in codes.values()}
