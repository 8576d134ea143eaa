"""The life of a release by Helm itself, both versions of it, with the commands of our pages.

What the chart installs runs as processes with the rights of its ServiceAccounts, so `--wait` waits for something.
"""

from __future__ import annotations

import pytest
import yaml

from tests.e2e.reader import Reader
from tests.support.real_parts import needs
from tests.support.waiting import wait_until

pytestmark = pytest.mark.e2e
CLUSTER = "tenant2"
RELEASE = "berth --namespace berth-system"
DEFINITION = "tenants.workload.infra.universe.nvidia.com"
VERSIONS = {"helm": "v4.", "helm3": "v3."}
ROADS = {
    "helm 4": ("helm", "helm"),
    "helm 3": ("helm3", "helm3"),
    "from helm 3 to helm 4": ("helm3", "helm"),
    "from helm 4 to helm 3": ("helm", "helm3"),
}
"""The Helm that installs, and the one that upgrades: one applies on the server's side, the other merges on its own."""


class Release:
    """The release `berth` of a cluster; `before` is the chart of a version whose definition of tenants is another."""

    def __init__(self, reader: Reader) -> None:
        self._reader, self.before = reader, "charts-before"
        copy = f"rm -rf {self.before} && cp -r charts/berth/. {self.before}"
        reader.type(f"{copy} && sed -i s/suspended:/paused:/ {self.before}/files/crds/infra.yaml", CLUSTER)

    def type(self, commands: str) -> str:
        return self._reader.type(commands, CLUSTER)

    def injects(self) -> bool:
        metadata = {"name": "asks", "annotations": {"k8s.v1.cni.cncf.io/networks": "foo-network"}}
        containers = [{"name": "c", "image": "busybox"}]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}
        made = self._reader.python(CLUSTER).create(pod, dry_run=True)
        return "example.com/foo" in str(made["spec"]["containers"][0].get("resources"))

    def fields_of_tenants(self) -> set[str]:
        (version,) = yaml.safe_load(self.type(f"kubectl get crd {DEFINITION} -o yaml"))["spec"]["versions"]
        return set(version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])

    def log_level(self) -> str:
        text = self.type("kubectl get deployment berth-webhook --namespace berth-system -o yaml")
        (container,) = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"]
        (argument,) = (one for one in container["args"] if one.startswith("--log-level="))
        return str(argument.partition("=")[2])

    def tested(self, helm: str) -> None:
        """`helm test` holds, and fails as soon as no Pod is ready behind the webhooks."""
        test = f"{helm} test {RELEASE}"
        assert "Succeeded" in self.type(test)
        assert "berth-test" not in self.type("kubectl get pods,serviceaccounts -n berth-system -o name")
        scale = "kubectl scale deployment berth-webhook -n berth-system --replicas"
        self.type(f"{scale} 0")
        wait_until(lambda: "Failed" in self.type(f"{test} || true"))
        self.type(f"{scale} 2 && kubectl rollout status deployment/berth-webhook -n berth-system")
        assert "Succeeded" in self.type(test)

    def bundles(self) -> set[str]:
        """The caBundle of each webhook, which the certificates role writes and no Helm may take away."""
        kinds = "mutatingwebhookconfiguration,validatingwebhookconfiguration"
        text = self.type(f"kubectl get {kinds} -o yaml --selector app.kubernetes.io/instance=berth")
        hooks = [hook for item in yaml.safe_load(text)["items"] for hook in item["webhooks"]]
        assert hooks
        return {hook["clientConfig"].get("caBundle", "") for hook in hooks}


@pytest.fixture(scope="module")
def release(reader: Reader) -> Release:
    made = Release(reader)
    made.type("kubectl apply -f examples/attachments/foo-network.yaml")
    return made


@pytest.mark.parametrize(
    ("installs", "upgrades"), [pytest.param(*road, id=name, marks=needs(*road)) for name, road in ROADS.items()]
)
def test_a_release_lives_by_the_commands_of_the_pages(release: Release, installs: str, upgrades: str) -> None:
    for helm in (installs, upgrades):
        assert release.type(f"{helm} version --short").startswith(VERSIONS[helm])
    values = "--values examples/helm/infra.yaml"
    release.type(f"{installs} install {RELEASE} ./{release.before} --create-namespace {values} --wait")
    assert release.injects()
    assert "paused" in release.fields_of_tenants()
    trusted = release.bundles()
    assert "" not in trusted

    kept = "--reset-then-reuse-values --set logLevel=debug"
    release.type(f"{upgrades} upgrade {RELEASE} charts/berth {kept} --wait")
    assert "logLevel: debug" in release.type(f"{upgrades} get values {RELEASE}")
    assert release.log_level() == "debug"
    assert "suspended" in release.fields_of_tenants()
    assert "paused" not in release.fields_of_tenants()
    assert release.bundles() == trusted
    assert release.injects()

    release.type(f"{upgrades} rollback {RELEASE} 1 --wait")
    assert "superseded" in release.type(f"{upgrades} history {RELEASE}")
    assert release.log_level() == "info"
    assert "paused" in release.fields_of_tenants()
    assert release.bundles() == trusted
    assert release.injects()

    release.tested(upgrades)

    release.type(f"{upgrades} uninstall {RELEASE} --wait")
    assert "berth" not in release.type("kubectl get mutatingwebhookconfigurations,deployments -A -o name")
    assert release.type(f"kubectl get crd {DEFINITION} -o name"), "definitions and their objects stay"
    assert not release.injects()
    wait_until(lambda: "berth-" not in release.type("kubectl get pods --namespace berth-system -o name"))
