"""What a user writes to stop or to pass by Berth, sent through the API server while others go on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import builders
from tests.e2e.test_tenant_isolation import EVIL, HARMLESS, NAMESPACE, SELECTOR, written
from tests.e2e.users import PythonClient
from tests.support.chart import ASSETS
from tests.support.paths import ROOT
from tests.support.waiting import Refused

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not ASSETS, reason="a real API server: KUBEBUILDER_ASSETS"),
]
JSON = dict[str, Any]
CONTAINER: JSON = {"name": "c", "image": "busybox"}


def _app_wrapper(*components: JSON) -> JSON:
    return {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": "attack", "namespace": "default"},
        "spec": {"components": [*components]},
    }


def _wrapped_pod(**spec: Any) -> JSON:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [CONTAINER]} | spec}


def many_containers() -> JSON:
    """A template of 5,000 containers that 600 podSets name."""
    containers = [{"name": f"c{number}", "image": "i"} for number in range(5000)]
    pod_sets = [{"path": "template"}] * 600
    return _app_wrapper({"template": _wrapped_pod(containers=containers), "podSets": pod_sets})


def many_components() -> JSON:
    service = {"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "None", "ports": [{"port": 1}]}}
    names = ({"metadata": {"name": f"s{number}"}} for number in range(14_000))
    return _app_wrapper(*({"template": service | name} for name in names))


def many_hosts() -> JSON:
    return {
        "apiVersion": "workload.infra.universe.nvidia.com/v1alpha1",
        "kind": "Tenant",
        "metadata": {"name": "attack"},
        "spec": {"hosts": [f"host-{number}" for number in range(50_000)]},
    }


def many_sources() -> JSON:
    """The example's rule with a volume of 20,000 sources."""
    rule: JSON = yaml.safe_load((ROOT / "examples" / "workload-api" / "tenant1-rule1.yaml").read_text())
    sources = [{"secret": {"name": f"s{number}"}} for number in range(20_000)]
    rule["spec"]["template"]["spec"]["volumes"].append({"name": "v", "projected": {"sources": sources}})
    return rule


def many_claims() -> JSON:
    """A Pod with 3,000 claims of one template that does not exist."""
    claims = [{"name": f"c{number}", "resourceClaimTemplateName": "absent"} for number in range(3000)]
    return builders.pod("attack", None, resourceClaims=claims)


def many_networks() -> JSON:
    return builders.pod("attack", ",".join(f"absent-{number}" for number in range(10_000)))


@pytest.mark.parametrize(
    ("cluster", "make"),
    [
        ("tenant1", many_containers),
        ("tenant1", many_components),
        ("tenant1", many_claims),
        ("tenant1", many_networks),
        ("tenant1", many_sources),
        ("icp", many_hosts),
    ],
)
def test_an_object_that_costs_much_is_answered_and_keeps_no_other_waiting(sandbox: Path, cluster: str, make) -> None:
    """Pods are created all the time. An API server that does not get an answer in time says so in its refusal."""
    heavy, ordinary = make(), builders.pod("neighbor", None)
    attackers, other = (
        [PythonClient(sandbox / f"{cluster}.kubeconfig") for _ in range(4)],
        PythonClient(sandbox / f"{cluster}.kubeconfig"),
    )
    for client in (*attackers, other):
        client.create(ordinary, dry_run=True)  # reads what the API server serves, which threads cannot do at once

    def attack(attacker: PythonClient) -> str:
        try:
            attacker.create(heavy, dry_run=True)
        except Refused as refused:
            return str(refused)
        return ""

    with ThreadPoolExecutor(len(attackers)) as pool:
        attacks = [pool.submit(attack, attacker) for attacker in attackers]
        while not all(future.done() for future in attacks):
            assert other.create(ordinary, dry_run=True)["metadata"]["name"] == "neighbor"
    for future in attacks:
        assert "failed calling webhook" not in future.result()
        assert "deadline exceeded" not in future.result()


@pytest.fixture
def ending(sandbox: Path) -> Iterator[PythonClient]:
    """A client of the infra cluster, where a tenant's Deployment is being deleted, and a finalizer keeps it."""
    infra = PythonClient(sandbox / "icp.kubeconfig")
    deployment = written("Deployment", HARMLESS, "ending")
    deployment["metadata"]["finalizers"] = ["example.com/kept"]
    infra.create(deployment)
    infra.mark_deleted("deployment", "ending", NAMESPACE)
    yield infra
    deployment = stored(infra)
    deployment["metadata"]["finalizers"] = []
    infra.update(deployment)


def stored(infra: PythonClient) -> JSON:
    """The Deployment, to be written whatever its controllers write meanwhile."""
    deployment = infra.get("deployment", "ending", NAMESPACE)
    del deployment["metadata"]["resourceVersion"]
    return deployment


def test_an_object_that_is_being_deleted_is_checked_like_others(ending: PythonClient) -> None:
    deployment = stored(ending)
    assert deployment["metadata"]["deletionTimestamp"]
    deployment["spec"]["template"]["spec"] |= EVIL
    with pytest.raises(Refused) as refused:
        ending.update(deployment)
    assert 'admission webhook "tenant-isolation.berth.dev" denied the request: ' in str(refused.value)
    assert f"spec.template.spec.{SELECTOR}" in str(refused.value)
