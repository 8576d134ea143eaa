"""What a tenant's Pod could do to Pods of others is refused by every way that leads into the tenant's namespace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import kubernetes
import pytest
import yaml

from app.tenancy.proto.universe.resource.v1 import universe_resource_pb2 as pb
from app.tenancy.proto.universe.resource.v1 import universe_resource_pb2_grpc as services
from tests.e2e.users import Kubectl, PythonClient
from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE, Refused, wait_until

pytestmark = pytest.mark.e2e
JSON = dict[str, Any]
NAMESPACE = "tenant-tenant2"
EVIL: JSON = yaml.safe_load(
    """
affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/os,
  namespaceSelector: {}, labelSelector: {matchExpressions: [{key: evil, operator: DoesNotExist}]}}]}}
containers: [{name: app, image: nginx}]
"""
)
HARMLESS: JSON = {"containers": [{"name": "app", "image": "nginx"}], "terminationGracePeriodSeconds": 0}
TERM = "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
SELECTOR = f"{TERM}.namespaceSelector: a tenant's Pod looks at Pods of its own namespace alone; leave it out"
TOPOLOGY = f'{TERM}.topologyKey: a tenant\'s Pod may not keep others off "kubernetes.io/os"; use kubernetes.io/hostname'


def written(kind: str, spec: JSON, name: str = "evil") -> JSON:
    """An object of the kind with this spec of a Pod."""
    labels = {"evil": "1"}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    template = {"metadata": {"labels": labels}, "spec": spec}
    whole = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": whole}


@pytest.fixture
def infra(sandbox: Path) -> PythonClient:
    return PythonClient(sandbox / "icp.kubeconfig")


@pytest.fixture
def gateway(sandbox: Path) -> Iterator[services.UniverseResourceServiceStub]:
    """Reached with the certificate of tenant2."""
    bundle = sandbox / "tenants" / "tenant2"
    files = ((bundle / name).read_bytes() for name in ("ca.crt", "tls.key", "tls.crt"))
    options = [("grpc.ssl_target_name_override", "api-gateway.local")]
    address = (sandbox / "gateway.addr").read_text().strip()
    with grpc.secure_channel(address, grpc.ssl_channel_credentials(*files), options) as channel:
        yield services.UniverseResourceServiceStub(channel)


@pytest.mark.parametrize(
    ("kind", "path"), [("Pod", "spec"), ("Deployment", "spec.template.spec"), ("DaemonSet", "spec.template.spec")]
)
def test_an_administrator_cannot_write_it_either(infra: PythonClient, kind: str, path: str) -> None:
    with pytest.raises(Refused) as refused:
        infra.create(written(kind, EVIL))
    text = str(refused.value)
    assert 'admission webhook "tenant-isolation.berth.dev" denied the request: ' in text
    assert "not allowed in the namespace of a tenant: " in text
    assert f"{path}.{SELECTOR}" in text
    assert f"{path}.{TOPOLOGY}" in text


def test_a_pod_without_it_passes_and_stays_changeable(infra: PythonClient) -> None:
    made = infra.create(written("Pod", HARMLESS, "harmless"))
    try:
        made["metadata"]["labels"]["seen"] = "yes"

        def relabeled() -> bool:
            body = infra.get("pod", "harmless", NAMESPACE)
            body["metadata"]["labels"]["seen"] = "yes"
            return infra.update(body)["metadata"]["labels"]["seen"] == "yes"

        wait_until(relabeled)
    finally:
        infra.delete("pod", "harmless", NAMESPACE)


def test_elsewhere_it_is_left_alone(infra: PythonClient) -> None:
    evil = written("Pod", EVIL)
    evil["metadata"]["namespace"] = "default"
    assert infra.create(evil, dry_run=True)["metadata"]["name"] == "evil"


def test_a_class_of_devices_that_is_not_allowed_is_refused(infra: PythonClient) -> None:
    request = {"name": "one", "exactly": {"deviceClassName": "gpu"}}
    metadata = {"name": "devices", "namespace": NAMESPACE}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata}
    claim["spec"] = {"devices": {"requests": [request]}}
    try:
        with pytest.raises(Refused) as refused:
            infra.create(claim)
    except kubernetes.dynamic.exceptions.ResourceNotFoundError:
        pytest.skip("this API server does not serve resource.k8s.io/v1")
    assert 'spec.devices.requests[0].exactly.deviceClassName: "gpu" is not allowed for a tenant' in str(refused.value)


@pytest.mark.parametrize("kind", ["Pod", "DaemonSet"])
def test_the_gateway_refuses_it(gateway: services.UniverseResourceServiceStub, kind: str) -> None:
    manifest = written(kind, EVIL)
    request = pb.CreateRequest(
        type=pb.ResourceType(api_version=manifest["apiVersion"], kind=kind),
        obj=pb.ResourceObject(obj_spec=json.dumps(manifest).encode()),
    )
    with pytest.raises(grpc.RpcError) as refused:
        gateway.Create(request, timeout=PATIENCE)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert SELECTOR in refused.value.details()


def test_a_rule_with_it_is_refused_in_the_tenants_cluster(sandbox: Path) -> None:
    tenant = PythonClient(sandbox / "tenant2.kubeconfig")
    rule: JSON = yaml.safe_load((ROOT / "examples" / "workload-api" / "tenant1-rule1.yaml").read_text())
    rule["spec"]["template"] = {"apiVersion": "v1", "kind": "Pod", "spec": EVIL}
    with pytest.raises(Refused) as refused:
        tenant.create(rule)
    assert f"template.spec.{SELECTOR}" in str(refused.value)


if shutil.which("kubectl") and shutil.which("jq"):

    def test_the_upgrade_page_lists_what_was_accepted_before(sandbox: Path) -> None:
        """Typed as it stands there, in a cluster that does not confine tenants."""
        page = (ROOT / "docs" / "upgrade.md").read_text()
        block = page.partition("### Tenants' Pods that were accepted before")[2].partition("```console\n$ ")[2]
        cluster = Kubectl(sandbox / "tenant1.kubeconfig")
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant-old"}})
        spec = EVIL | {
            "runtimeClassName": "kata",
            "terminationGracePeriodSeconds": 7200,
            "tolerations": [{"key": f"k{number}", "operator": "Exists"} for number in range(65)],
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": f"k{number}", "whenUnsatisfiable": "DoNotSchedule"}
                for number in range(17)
            ],
            "volumes": [
                {"name": "a", "csi": {"driver": "driver.example"}},
                {"name": "b", "nfs": {"server": "s", "path": "/"}},
                {"name": "c", "emptyDir": {}},
            ],
        }
        for obj in (written("Deployment", spec), written("Pod", HARMLESS, "harmless")):
            obj["metadata"]["namespace"] = "tenant-old"
            cluster.create(obj)
        try:
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", block.partition("```")[0]],
                env=os.environ | {"KUBECONFIG": str(sandbox / "tenant1.kubeconfig")},
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
        finally:
            cluster.delete("namespace", "tenant-old")
        assert done.returncode == 0, done.stderr
        found = dict(line.split(": ", 1) for line in done.stdout.splitlines())
        assert {line.split()[1].partition("/")[0] for line in found} == {"tenant-old"}
        assert found["Deployment tenant-old/evil"] == (
            "17 terms, 65 tolerations, csiDriver=driver.example, namespaceSelector, runtimeClass=kata, terminationGracePeriodSeconds 7200, "
            "topologyKey kubernetes.io/os, volumeType=nfs"
        )
        assert "Pod tenant-old/harmless" not in found
