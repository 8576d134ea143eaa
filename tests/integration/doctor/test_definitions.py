"""Definitions that are missing, old, new or not served."""

from __future__ import annotations

from typing import Any

from app.doctor.definitions import MULTUS
from app.doctor.model import Severity
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from app.workloads.model import TENANT_RULES
from tests.integration.doctor.installation import Place
from tests.integration.doctor.patient import HOME

RULES = "tenantworkloadrules.workload.infra.universe.nvidia.com"
MIRRORS = "uvspods.resource.universe.nvidia.com"
APPLY = "berth crds {} | kubectl apply --server-side{} -f -"


async def remove(place: Place, name: str) -> None:
    await place.client.delete(CUSTOM_RESOURCE_DEFINITIONS, name)


async def test_a_missing_definition_of_the_chart(place: Place) -> None:
    """The chart brings it back, so that it stays the chart's."""
    await remove(place, RULES)
    finding = await place.only_complaint("definitions")
    assert (finding.severity, finding.subject) == (Severity.error, f"CustomResourceDefinition {RULES}")
    assert finding.message == "is not there"
    assert finding.command == (
        f"helm upgrade berth charts/berth --namespace {HOME} --reset-then-reuse-values --set crds.install=true"
    )


async def test_a_missing_definition_without_the_chart(place: Place) -> None:
    """Where nobody installed by chart, `berth crds` mends it."""
    await remove(place, MIRRORS)
    finding = await place.only_complaint("definitions", namespace="default")
    assert finding.command == APPLY.format("tenant", "")
    await place.type(finding.command.replace("--server-side", "--server-side --force-conflicts"))
    assert await place.complaints("definitions") == []


async def test_no_multus(place: Place) -> None:
    await remove(place, "network-attachment-definitions.k8s.cni.cncf.io")
    (finding, *_) = await place.complaints("definitions")
    assert (finding.severity, finding.command) == (Severity.error, MULTUS)


async def schema(place: Place, name: str, *operations: dict[str, Any]) -> None:
    root = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties"
    changed = [operation | {"path": root + operation["path"]} for operation in operations]
    await place.change(CUSTOM_RESOURCE_DEFINITIONS, name, *changed)


async def test_an_older_definition(place: Place) -> None:
    """It lacks a field, which the API server would drop; the command brings the current one."""
    await schema(place, RULES, {"op": "remove", "path": "/template"})
    finding = await place.only_complaint("definitions")
    assert (finding.severity, finding.message) == (Severity.warning, "is not that of this version: lacks spec.template")
    assert finding.consequence == "the API server drops what Berth writes there, and reports no error"
    assert finding.command == APPLY.format("infra", " --force-conflicts")
    await place.mends(finding)


async def test_a_newer_definition_is_no_complaint(place: Place) -> None:
    await schema(place, RULES, {"op": "add", "path": "/later", "value": {"type": "string"}})
    found = [one for one in await place.examine("definitions") if one.severity is Severity.info]
    assert [one.message for one in found] == ["is newer than this berth: it also has spec.later"]


async def test_other_rules_for_a_field(place: Place) -> None:
    path = "/template"
    await schema(place, RULES, {"op": "add", "path": f"{path}/maxProperties", "value": 3})
    finding = await place.only_complaint("definitions")
    assert finding.message == "is not that of this version: differs in spec.template"


async def test_the_definitions_of_a_release_are_upgraded_by_it(place: Place) -> None:
    label = {"op": "add", "path": "/metadata/labels", "value": {"app.kubernetes.io/managed-by": "Helm"}}
    await place.change(CUSTOM_RESOURCE_DEFINITIONS, RULES, label)
    await schema(place, RULES, {"op": "remove", "path": "/template"})
    finding = await place.only_complaint("definitions")
    assert finding.command.startswith("helm upgrade berth charts/berth ")


async def test_a_version_that_is_not_served(place: Place) -> None:
    version = {"op": "replace", "path": "/spec/versions/0/served", "value": False}
    await place.change(CUSTOM_RESOURCE_DEFINITIONS, RULES, version)
    finding = await place.only_complaint("definitions")
    assert finding.message == "does not serve v1alpha1, which this version of Berth speaks"
    assert finding.severity is Severity.error


async def test_objects_of_an_old_version_are_told(place: Place) -> None:
    await place.patient.report(CUSTOM_RESOURCE_DEFINITIONS, RULES, {"storedVersions": ["v1alpha0", "v1alpha1"]})
    finding = await place.only_complaint("definitions")
    assert finding.message == "has objects stored as v1alpha0"
    await place.mends(finding)


async def test_objects_of_an_old_version_are_written_again(place: Place) -> None:
    """And only then the old version is no longer told to be stored."""
    spec = {
        "resourceType": "v1/Pod",
        "workloadTerms": [{"matchExpressions": [{"key": "metadata.id", "operator": "Exists"}]}],
        "dpuSelectionPolicy": "Any",
        "template": {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "app", "image": "app"}]}},
    }
    await place.patient.create(TENANT_RULES, "one", namespace="default", spec=spec)
    await place.patient.report(CUSTOM_RESOURCE_DEFINITIONS, RULES, {"storedVersions": ["v1alpha0", "v1alpha1"]})
    await place.mends(await place.only_complaint("definitions"))
