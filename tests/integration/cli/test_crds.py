"""`berth crds`: what it prints is what a cluster of that kind needs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import app
from app import definitions
from app.cli.main import run
from app.devtools.sandbox.server import Cluster
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from app.kube.transport import connect
from tests.support.waiting import PATIENCE

INFRA = {"workloads", "tenantworkloadrules", "adminworkloadrules", "tenants"}
RMD = {"rmdworkloads", "rmdnodestates", "rmdconfigs"}
APP_WRAPPERS = {"appwrappers"}
TENANT = {"workloadrules", "uvspods", "uvsdaemonsets", "uvssecrets", "uvsconfigmaps"}


def printed(capsys, *arguments: str) -> list[dict]:
    assert run(["crds", *arguments]) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


@pytest.mark.parametrize(
    ("arguments", "kinds"),
    [
        (("infra",), INFRA),
        (("tenant",), TENANT),
        (("appwrappers",), APP_WRAPPERS),
        (("rmd",), RMD),
        (("all",), INFRA | TENANT | APP_WRAPPERS | RMD),
        ((), INFRA | TENANT | APP_WRAPPERS | RMD),
    ],
)
def test_the_definitions_of_a_cluster(capsys, arguments, kinds) -> None:
    """Without those of attachments, which are Multus'."""
    found = printed(capsys, *arguments)
    assert {body["kind"] for body in found} == {"CustomResourceDefinition"}
    assert {body["spec"]["names"]["plural"] for body in found} == kinds


def test_no_definition_of_the_package_is_left_out() -> None:
    wings = Path(app.__file__ or "").parent
    owning = ("workloads", "tenancy", "appwrappers", "rmd")
    files = {path.stem for wing in owning for path in (wings / wing / "crds").iterdir()}
    assert files == {resource.plural for resource in definitions.ALL}


async def test_what_is_printed_can_be_applied(capsys, tmp_path) -> None:
    async with Cluster("any") as served:
        (tmp_path / "kubeconfig").write_text(served.kubeconfig())
        async with await connect(kubeconfig=str(tmp_path / "kubeconfig"), deadline=PATIENCE) as client:
            for body in printed(capsys):
                await client.apply(CUSTOM_RESOURCE_DEFINITIONS, body["metadata"]["name"], body)
            for resource in definitions.ALL:
                assert (await client.list_page(resource, limit=1)).items == []


def test_another_kind_of_cluster_is_a_mistake(capsys) -> None:
    assert run(["crds", "other"]) == 2
    assert "'other' is not one of" in capsys.readouterr().err
