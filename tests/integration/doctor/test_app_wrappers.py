"""AppWrappers that wait, hang or cannot run, and who acts on them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.appwrappers.checks import CHECK
from app.appwrappers.kueue.model import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS
from app.appwrappers.model import APP_WRAPPERS, DELETING_RESOURCES, QUEUE_NAME
from app.definitions import read_definitions
from app.devtools.kueue.definitions import kueue_definitions
from app.doctor.model import Severity
from app.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, NAMESPACES, VALIDATING_WEBHOOKS
from tests.integration.doctor.patient import HOME, JSON, Patient

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}
WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}


async def define(patient: Patient) -> None:
    """The kinds, and LocalQueue q."""
    for body in (*read_definitions((APP_WRAPPERS,)), *kueue_definitions()):
        await patient.client.create(CUSTOM_RESOURCE_DEFINITIONS, body)
    await patient.create(CLUSTER_QUEUES, "all", spec={})
    await patient.create(LOCAL_QUEUES, "q", namespace="default", spec={"clusterQueue": "all"})


async def wrapped(patient: Patient, *templates: JSON, suspend: bool = False, **labels: str) -> JSON:
    spec = {"suspend": suspend, "components": [{"template": one} for one in templates]}
    return await patient.create(
        APP_WRAPPERS, "one", namespace="default", spec=spec, metadata={"labels": {QUEUE_NAME: "q"} | labels}
    )


def deployment(name: str, *arguments: str) -> JSON:
    container = {"name": "c", "image": "image", "args": list(arguments)}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    return {"selector": {"matchLabels": {"app": name}}, "template": template}


async def controller(patient: Patient, controllers: str, *flags: str, checked: bool = True) -> None:
    """A controller role of Berth, without the chart; `checked` has a webhook registered for AppWrappers."""
    if checked:
        await patient.create(VALIDATING_WEBHOOKS, "appwrapper-validating-webhook-configuration", webhooks=[])
    await patient.create(
        DEPLOYMENTS,
        "berth-controller",
        namespace=HOME,
        spec=deployment("c", "controller", f"--controllers={controllers}", *flags),
    )


EXTERNAL = "AppWrapper.v1beta2.workload.codeflare.dev"
BY_NAME = "{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, kueue-system]}"


async def kueue(patient: Patient, *frameworks: str, external: str = f"[{EXTERNAL}]", settings: str = "") -> None:
    await patient.create(NAMESPACES, "kueue-system")
    await patient.create(DEPLOYMENTS, "kueue-controller-manager", namespace="kueue-system", spec=deployment("k"))
    text = "integrations:\n  frameworks:\n" + "".join(f'  - "{one}"\n' for one in frameworks)
    text += f"  externalFrameworks: {external}\n" if external else ""
    text += settings
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kueue-manager-config"}}
    body["data"] = {"controller_manager_config.yaml": text if frameworks else "integrations:\n"}
    await patient.client.create(CONFIG_MAPS, body, namespace="kueue-system")


async def test_without_the_kind_nothing_is_said(patient: Patient) -> None:
    assert await patient.examine(CHECK) == []


async def test_one_that_waits_with_a_workload_is_well(patient: Patient) -> None:
    await define(patient)
    made = await wrapped(patient, POD, suspend=True)
    owner = {"apiVersion": "v1", "kind": "AppWrapper", "name": "one", "uid": made["metadata"]["uid"]}
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"podSets": [{"name": "a", "count": 1, "template": template}], "queueName": "q"}
    await patient.create(WORKLOADS, "w", namespace="default", spec=spec, metadata={"ownerReferences": [owner]})
    patient.later = timedelta(hours=1)
    (found,) = await patient.examine(CHECK)
    assert (found.severity, found.message) == (Severity.ok, "1 AppWrapper checked: no problem found")


async def test_one_without_a_workload_waits_for_ever(patient: Patient) -> None:
    await define(patient)
    await wrapped(patient, POD, suspend=True)
    assert await patient.complaints(CHECK) == []
    patient.later = timedelta(minutes=10)
    (found,) = await patient.complaints(CHECK)
    assert found.severity == Severity.error
    assert found.message == "waits in queue q for 10 minutes and has no Workload"


async def test_a_deletion_that_hangs_names_what_is_left(patient: Patient) -> None:
    await define(patient)
    await wrapped(patient, POD)
    at = "2026-01-01T00:00:00Z"
    said = {"status": "True", "reason": "DeletionInitiated", "message": "", "lastTransitionTime": at}
    deployed = said | {"type": "ResourcesDeployed"}
    component = {"name": "p", "kind": "Pod", "apiVersion": "v1", "podSets": [], "conditions": [deployed]}
    status = {
        "phase": "Suspending",
        "conditions": [said | {"type": DELETING_RESOURCES}],
        "componentStatus": [component],
    }
    await patient.report(APP_WRAPPERS, "one", status, namespace="default")
    (found,) = await patient.complaints(CHECK)
    assert found.message.endswith("left: Pod p")


async def test_a_kind_that_the_controller_may_not_write_is_named(patient: Patient) -> None:
    await define(patient)
    await wrapped(patient, POD, WIDGET)
    (found,) = await patient.complaints(CHECK)
    assert found.message == "has a widget.example.com, which is not among the wrapped kinds of the controller"


async def test_kinds_that_the_controller_is_given_are_wrapped(patient: Patient) -> None:
    await define(patient)
    await controller(patient, "appwrappers", "--wrapped-kinds=pods,widgets.example.com")
    await wrapped(patient, POD, WIDGET)
    assert await patient.complaints(CHECK) == []


async def test_both_framework_controllers(patient: Patient) -> None:
    await define(patient)
    await controller(patient, "appwrappers")
    assert await patient.complaints(CHECK) == []
    await patient.create(NAMESPACES, "appwrapper-system")
    await patient.create(
        DEPLOYMENTS, "appwrapper-controller-manager", namespace="appwrapper-system", spec=deployment("a")
    )
    (found,) = await patient.complaints(CHECK)
    assert found.message == "runs beside the controller appwrappers of Berth"
    # As the command does: the sandbox has no /scale.
    stopped = {"spec": {"replicas": 0}}
    where = {"namespace": "appwrapper-system", "patch_type": "merge"}
    await patient.client.patch(DEPLOYMENTS, "appwrapper-controller-manager", stopped, **where)
    assert await patient.complaints(CHECK) == []


@pytest.mark.parametrize(
    ("controllers", "frameworks", "message"),
    [
        ("appwrappers,appwrapper-workloads", ["batch/job", "workload.codeflare.dev/appwrapper"], "runs as well"),
        ("appwrappers", ["batch/job"], "Kueue runs without"),
        ("appwrappers", ["workload.codeflare.dev/appwrapper"], ""),
        ("appwrappers,appwrapper-workloads", ["batch/job"], ""),
    ],
)
async def test_one_workload_controller_has_to_act(
    patient: Patient, controllers: str, frameworks: list[str], message: str
) -> None:
    await define(patient)
    await controller(patient, controllers)
    await kueue(patient, *frameworks)
    found = await patient.complaints(CHECK)
    assert [message in one.message for one in found] == ([True] if message else [])


@pytest.mark.parametrize(
    ("external", "controllers", "codes"),
    [
        ("", "appwrappers,appwrapper-workloads", ["BERTH4009"]),
        ("[]", "appwrappers,appwrapper-workloads", ["BERTH4009"]),
        ("5", "appwrappers,appwrapper-workloads", ["BERTH4009"]),
        ("[AppWrapper.v1beta1.workload.codeflare.dev]", "appwrappers,appwrapper-workloads", ["BERTH4009"]),
        ('\n  # - "AppWrapper.v1beta2.workload.codeflare.dev"', "appwrappers,appwrapper-workloads", ["BERTH4009"]),
        (
            '["Foo.v1.example.com", "AppWrapper.v1beta2.workload.codeflare.dev"]',
            "appwrappers,appwrapper-workloads",
            [],
        ),
        ('\n  - "AppWrapper.v1beta2.workload.codeflare.dev"', "appwrappers,appwrapper-workloads", []),
        ("", "tenants", []),
    ],
)
async def test_kueue_has_to_know_that_app_wrappers_have_workloads(
    patient: Patient, external: str, controllers: str, codes: list[str]
) -> None:
    await define(patient)
    await controller(patient, controllers)
    await kueue(patient, "batch/job", external=external)
    found = await patient.complaints(CHECK)
    assert [one.code for one in found] == codes
    if codes:
        assert found[0].severity == Severity.error
        assert "kubectl --namespace kueue-system edit configmap kueue-manager-config" in found[0].command


async def test_a_configuration_without_integrations_has_none_for_app_wrappers(patient: Patient) -> None:
    await define(patient)
    await controller(patient, "appwrappers,appwrapper-workloads")
    await kueue(patient)
    assert [one.code for one in await patient.complaints(CHECK)] == ["BERTH4009"]


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ("  labelKeysToCopy: [team]\n", "integrations.labelKeysToCopy"),
        ("  labelKeysToCopy: []\n", ""),
        (
            "objectRetentionPolicies: {workloads: {afterFinished: 1h, afterDeactivatedByKueue: 3s}}\n",
            "objectRetentionPolicies.workloads.afterDeactivatedByKueue",
        ),
        ("objectRetentionPolicies: {workloads: {afterFinished: 1h}}\n", ""),
        ("objectRetentionPolicies: 5\n", ""),
        ("manageJobsWithoutQueueName: true\n", "manageJobsWithoutQueueName"),
        ("manageJobsWithoutQueueName: false\n", ""),
        ("managedJobsNamespaceSelector: {matchLabels: {kueue: 'yes'}}\n", "managedJobsNamespaceSelector"),
        (
            "managedJobsNamespaceSelector: {matchExpressions: [{key: tenant, operator: Exists}]}\n",
            "managedJobsNamespaceSelector",
        ),
        (
            f"managedJobsNamespaceSelector: {{matchExpressions: [{BY_NAME}]}}\n",
            "",
        ),
    ],
)
async def test_settings_of_kueue_without_effect_are_named(patient: Patient, settings: str, setting: str) -> None:
    await define(patient)
    await controller(patient, "appwrappers,appwrapper-workloads")
    await kueue(patient, "batch/job", settings=settings)
    findings = await patient.complaints(CHECK)
    expected = [("BERTH4010", Severity.warning)] if setting else []
    assert [(finding.code, finding.severity) for finding in findings] == expected
    assert all(f"has {setting}, and" in finding.message for finding in findings)


async def test_settings_of_kueue_hold_where_it_makes_the_workloads(patient: Patient) -> None:
    await define(patient)
    await controller(patient, "appwrappers")
    await kueue(patient, "workload.codeflare.dev/appwrapper", settings="  labelKeysToCopy: [team]\n")
    assert await patient.complaints(CHECK) == []


async def test_the_other_controllers_stay_chosen(patient: Patient) -> None:
    """By the command that stops or starts the one of Workloads."""
    await define(patient)
    await controller(patient, "appwrappers,tenants")
    await kueue(patient, "batch/job")
    (found,) = await patient.complaints(CHECK)
    assert "'controller.args.controllers={appwrapper-workloads,appwrappers,tenants}'" in found.command


async def test_app_wrappers_without_a_check(patient: Patient) -> None:
    await define(patient)
    await controller(patient, "appwrappers", checked=False)
    (found,) = await patient.complaints(CHECK)
    assert found.message == "AppWrappers run without a check that their users may create the objects in them"


async def test_impersonation_wants_admission_that_records_users(patient: Patient) -> None:
    await define(patient)
    await controller(patient, "appwrappers", "--appwrapper-impersonation=constrained")
    found = [one for one in await patient.complaints(CHECK) if one.code == "BERTH4008"]
    assert [one.severity for one in found] == [Severity.error]
    spec = deployment("w", "webhook", "--appwrappers", "--appwrapper-strict")
    await patient.create(DEPLOYMENTS, "berth-webhook", namespace=HOME, spec=spec)
    assert [one.code for one in await patient.complaints(CHECK)].count("BERTH4008") == 1
    hook = {"name": "appwrappers.berth.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None"}
    hook |= {"clientConfig": {"url": "https://127.0.0.1/validate"}}
    await patient.create(VALIDATING_WEBHOOKS, "berth", webhooks=[hook])
    assert "BERTH4008" not in [one.code for one in await patient.complaints(CHECK)]


async def test_without_impersonation_records_are_not_wanted(patient: Patient) -> None:
    await define(patient)
    await controller(patient, "appwrappers")
    assert "BERTH4008" not in [one.code for one in await patient.complaints(CHECK)]
