"""The calls of the Workload API's pages by grpcurl itself: those of Universe's documentation, and those of ours."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.pages import commands_of
from tests.e2e.users import Kubectl
from tests.support.paths import ROOT
from tests.support.real_parts import needs, real_part
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.e2e, *needs("grpcurl")]
ADDRESS = "10.133.133.1:30001"
SERVICE = "universe.admin.workload.v1.AdminWorkloadRuleService"
ADMIN = "-cacert=ca.crt -cert=admin.crt -key=admin.key"
TENANT = "-cacert=tenant1/ca.crt -cert=tenant1/tls.crt -key=tenant1/tls.key"
RULES = "universe.workload.v1.WorkloadRuleService"
CREATE = r"""
RULE_TEMPLATE=$(cat << EOM | base64 -w0
{ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "nginx" },
  "spec": { "containers": [ { "name": "nginx", "image": "nginx:1.14.2", "ports": [ { "containerPort": 80 } ] } ] } }
EOM
)
grpcurl -cacert=ca.crt -cert=admin.crt -key=admin.key -servername api-gateway.local \
    -d @ -proto universe/admin/workload/v1/admin_workload_rule.proto 10.133.133.1:30001 \
    universe.admin.workload.v1.AdminWorkloadRuleService.Create << EOM
{ "rule": { "id": "adminrule1", "tenant_match": [ "tenant1", "tenant2" ], "data": {
    "orchestrator_type": 1, "resource_type": "v1/Pod", "dpu_selection_policy": "SameNode",
    "workload_terms": [ { "match_expressions": [
      { "key": "metadata.resourceNamespace", "operation": 1, "values": [ "default" ] } ] } ],
    "workload_info_inject": [ { "key": "@", "as_annotation": { "name": "full-workload-info" } } ],
    "rule_template": "$RULE_TEMPLATE" } } }
EOM
"""
"""As the page of Universe for the cloud admin has it."""


class Caller:
    """Has grpcurl, and in the directory of the protos the certificates of the admin and, below `tenant1`, of a tenant."""

    def __init__(self, sandbox: Path, directory: Path) -> None:
        self._gateway = (sandbox / "gateway.addr").read_text().strip()
        self._directory = directory
        (directory / "universe").symlink_to(ROOT / "app" / "tenancy" / "proto" / "universe")
        for path in (sandbox / "admin").iterdir():
            (directory / path.name).symlink_to(path)
        (directory / "tenant1").symlink_to(sandbox / "tenants" / "tenant1")
        grpcurl = real_part("grpcurl")
        assert grpcurl is not None
        self._path = os.pathsep.join((str(grpcurl.parent), os.environ["PATH"]))

    def run(self, commands: str) -> tuple[int, str]:
        """The exit status, and what is printed, errors as well."""
        done = subprocess.run(
            ["bash", "-uo", "pipefail", "-c", commands.replace(ADDRESS, self._gateway)],
            cwd=self._directory,
            env=os.environ | {"PATH": self._path},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def type(self, commands: str) -> str:
        status, printed = self.run(commands)
        assert status == 0, f"$ {commands}\n{printed}"
        return printed

    def call(self, options: str, method: str, *, files: str = ADMIN) -> tuple[int, str]:
        return self.run(f"grpcurl {files} -servername api-gateway.local {options} {ADDRESS} {method}")


@pytest.fixture
def caller(sandbox: Path, tmp_path: Path) -> Caller:
    return Caller(sandbox, tmp_path)


def test_the_calls_of_the_pages(sandbox: Path, caller: Caller) -> None:
    """A rule is made with the protos, read by reflection, makes its Pods, and is deleted with them."""
    infra = Kubectl(sandbox / "icp.kubeconfig")
    tenant = Kubectl(sandbox / "tenant1.kubeconfig")
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "by-grpcurl"}}
    uid = tenant.create(body | {"spec": {"containers": [{"name": "c", "image": "busybox"}]}})["metadata"]["uid"]
    try:
        caller.type(CREATE)
        pod = f"adminrule1-tenant-tenant1-{uid}"
        wait_until(lambda: pod in infra.run("get", "pods", "-n", "universe", "-o", "name"))
        (get,) = commands_of("docs/migrate-from-universe.md", "Calls by grpcurl")
        rule = json.loads(caller.type(get))["rule"]
        # Descriptors of Python have no JSON names: by reflection fields are called as in the .proto files.
        assert (rule["id"], rule["tenant_match"]) == ("adminrule1", ["tenant1", "tenant2"])
        (delete,) = commands_of("docs/workload-api.md", "Calling the gateway")
        assert json.loads(caller.type(delete)) == {}
        wait_until(lambda: "adminrule1" not in infra.run("get", "pods", "-n", "universe", "-o", "name"))
    finally:
        tenant.delete("pod", "by-grpcurl")


def test_reflection_and_health_answer_grpcurl(caller: Caller) -> None:
    services = caller.call("", "list")
    assert services[0] == 0, services
    assert {SERVICE, "grpc.health.v1.Health"} <= set(services[1].split())
    status, described = caller.call("", f"describe {SERVICE}")
    assert status == 0, described
    assert "rpc Create (" in described
    assert "SERVING" in caller.call("", "grpc.health.v1.Health.Check")[1]


def test_a_tenant_calls_its_own_services(caller: Caller) -> None:
    for header in ("", "-H 'tenant-id: tenant1'"):
        status, printed = caller.call(header, f"{RULES}.List", files=TENANT)
        assert status == 0, printed


@pytest.mark.parametrize(
    ("files", "options", "method", "code", "text"),
    [
        (ADMIN, """-d '{"id": "nothing"}'""", f"{SERVICE}.Get", "NotFound", "there is no rule 'nothing'"),
        (ADMIN, "-d '{}'", f"{SERVICE}.Create", "InvalidArgument", "id"),
        (ADMIN, "", f"{RULES}.List", "PermissionDenied", ""),
        (TENANT, "", f"{SERVICE}.List", "PermissionDenied", "this service is for the cloud admin alone"),
        (TENANT, "-H 'tenant-id: tenant2'", f"{RULES}.List", "PermissionDenied", "the metadata tenant-id disagrees"),
    ],
    ids=["not there", "no id", "a tenant's service", "the admin's service", "another tenant's header"],
)
def test_what_is_wrong_is_an_error_that_grpcurl_shows(
    caller: Caller, files: str, options: str, method: str, code: str, text: str
) -> None:
    status, printed = caller.call(options, method, files=files)
    assert status != 0
    assert f"Code: {code}" in printed
    assert text in printed


def test_without_the_certificate_there_is_no_answer(caller: Caller) -> None:
    status, printed = caller.run(f"grpcurl -cacert=ca.crt -servername api-gateway.local {ADDRESS} list")
    assert status != 0
    assert SERVICE not in printed
