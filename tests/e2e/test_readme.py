"""What the README has typed in the sandbox, with Berth in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.pages import Shell, commands_of, find_nothing_wrong
from tests.e2e.users import Kubectl
from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")]


CONTEXTS = ("tenant1", "icp")


def typed(sandbox: Path, directory: Path, part: str) -> subprocess.CompletedProcess[str]:
    """Every line of the block with these words, in its order, as it is typed; then the doctor finds nothing wrong."""
    blocks = re.findall(r"^```\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    (block,) = (text for text in blocks if part in text)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.replace(".sandbox/", f"{sandbox}/")],
        cwd=ROOT,
        env=os.environ | {"KUBECONFIG": str(sandbox / "kubeconfig")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shell = Shell.at(directory)
    for context in CONTEXTS:
        find_nothing_wrong(
            lambda command: shell.type(command, kubeconfig=sandbox / "kubeconfig"), f"--context {context}"
        )
    return done


def test_a_pod_gets_its_devices_as_the_page_has_it(sandbox: Path, tmp_path: Path) -> None:
    try:
        done = typed(sandbox, tmp_path, "examples/webhook-demo.yaml\nkubectl get pod")
        assert 'example.com/foo: "2"' in done.stdout
    finally:
        tenant = Kubectl(sandbox / "tenant1.kubeconfig")
        tenant.run("delete", "pod/webhook-demo", "network-attachment-definition/foo-network", "--ignore-not-found")


def test_claims_have_addresses_as_the_page_has_it(sandbox: Path, tmp_path: Path) -> None:
    tenant, examples = Kubectl(sandbox / "tenant1.kubeconfig"), ROOT / "examples" / "claims"
    try:
        assert "interfaceName: net1" in typed(sandbox, tmp_path, "examples/claims/networks.yaml").stdout
    finally:
        tenant.run("delete", *(f"--filename={examples}/{name}.yaml" for name in ("service", "pod", "networks")))


def test_an_app_wrapper_succeeds_as_the_page_has_it(sandbox: Path, tmp_path: Path) -> None:
    """No line of it waits for an interrupt."""
    try:
        done = typed(sandbox, tmp_path, "examples/appwrapper.yaml")
        assert re.search(r"^sample +Succeeded ", done.stdout, re.MULTILINE)
    finally:
        Kubectl(sandbox / "tenant1.kubeconfig").run("delete", f"--filename={ROOT}/examples/appwrapper.yaml")


def test_cache_ways_are_reserved_as_the_page_has_it(sandbox: Path, tmp_path: Path) -> None:
    """Without a warning of what is announced a moment later; and the Pods of the daemons are ready."""
    tenant, examples = Kubectl(sandbox / "tenant1.kubeconfig"), ROOT / "examples" / "rmd"
    try:
        done = typed(sandbox, tmp_path, "examples/rmd/rmdconfig.yaml")
        assert "Warning" not in done.stderr
        assert re.search(r"^rmd-workload-guaranteed-cache +True ", done.stdout, re.MULTILINE)
        for host in ("host-a", "host-b"):
            assert " 1/1 " in tenant.run("get", "pod", f"rmd-{host}")
    finally:
        for name in ("pod", "rmdworkload"):
            tenant.run("delete", f"--filename={examples}/{name}.yaml")
        wait_until(lambda: not tenant.run("get", "rmdworkloads", "--output", "name"))
        tenant.run("delete", f"--filename={examples}/rmdconfig.yaml")


def test_a_rule_gives_a_pod_its_companion_as_the_page_has_it(sandbox: Path, tmp_path: Path) -> None:
    try:
        done = typed(sandbox, tmp_path, "examples/workload-api")
        assert re.search(r"^tenant1-rule1-\S+ +1/1 +Running .* dpu1-host-[ab] ", done.stdout, re.MULTILINE)
        assert re.search(r"^uvspod\.\S+/tenant1-rule1-\S+ +success", done.stdout, re.MULTILINE)
    finally:
        tenant, infra = Kubectl(sandbox / "tenant1.kubeconfig"), Kubectl(sandbox / "icp.kubeconfig")
        examples = ROOT / "examples" / "workload-api"
        tenant.run("delete", *(f"--filename={examples}/tenant1-{name}.yaml" for name in ("rule1", "pod1")))
        wait_until(lambda: not infra.run("get", "pods", "--namespace", "tenant-tenant1", "--output", "name"))


def test_the_page_for_authors_of_pods(sandbox: Path, tmp_path: Path) -> None:
    """What is injected and why, as an author asks for it; the Pod is fine."""
    shell, page = Shell.at(tmp_path), "docs/pods.md"
    kubectl = Kubectl(sandbox / "tenant1.kubeconfig")
    try:
        blocks = [*commands_of(page, "What Berth adds"), *commands_of(page, "What can go wrong")]
        explained, created, why = (shell.type(block, kubeconfig=sandbox / "tenant1.kubeconfig") for block in blocks)
        assert "example.com/foo" in explained
        assert 'example.com/foo: "2"' in created
        assert why.startswith("Pod default/webhook-demo")
        find_nothing_wrong(lambda command: shell.type(command, kubeconfig=sandbox / "tenant1.kubeconfig"))
    finally:
        kubectl.run("delete", "pod/webhook-demo", "network-attachment-definition/foo-network", "--ignore-not-found")
