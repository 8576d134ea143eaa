"""The flags that the chart writes are read by the commands themselves."""

from __future__ import annotations

import shlex

import helm_python
import pytest

from app.certs.settings import CertificatesSettings
from app.devtools.clusters.node.arguments import confined, is_allowed_variable, refusal
from app.settings.source import RoleSettings
from tests.chart.arguments import parsed, settings_of
from tests.chart.combinations import ALL, COMBINATIONS
from tests.chart.conftest import JSON, NAMESPACE, Render

each_combination = pytest.mark.parametrize("values", COMBINATIONS.values(), ids=COMBINATIONS)


def _roles(render: Render, values: JSON) -> dict[str, RoleSettings]:
    rendered = render(values)
    roles = [obj["metadata"]["labels"]["app.kubernetes.io/component"] for obj in rendered.of("Deployment")]
    return {role: settings_of(role, rendered.container(role)) for role in roles}


@each_combination
def test_every_roles_arguments_are_valid_settings(render: Render, values: JSON) -> None:
    for settings in _roles(render, values).values():
        assert settings.health_check_port == 8444
        assert settings.log_level == "info"


def test_the_defaults_of_the_chart_are_those_of_the_flags(render: Render) -> None:
    """What differs is what being in a Pod means; everything else a reader of either reference can rely on."""
    differences = {
        role: {name for name, value in settings if value != type(settings).model_fields[name].get_default()}
        for role, settings in _roles(render, ALL | {"webhook": {}}).items()
    }
    assert differences == {
        "webhook": {"tls_cert_file", "tls_private_key_file", "insecure"},
        "controller": {"namespace_grant"},
        "gateway": {"tls_cert_file", "tls_private_key_file", "client_ca"},
        "agent": {"gateway", "gateway_ca", "tls_cert_file", "tls_private_key_file"},
        "certificates": {"namespace", "gateway", "gateway_dns", "gateway_address"},
    }


def test_values_reach_the_settings(render: Render) -> None:
    values = {
        "logLevel": "debug",
        "placement": {
            "hostLabel": "h/host",
            "tenantNodeLabel": "t/tenant",
            "adminNames": ["a", "b"],
            "tenantAllow": {"volumeType": ["nfs"], "priorityClass": ["gold", "silver"]},
        },
        "webhook": {
            "args": {
                "networkResourceNameKeys": ["a/x", "b/y"],
                "existingResources": "skip",
                "nodeSelectorConflict": "deny",
                "injectHugepageDownApi": True,
                "defaultNetworkNamespace": "multus",
                "confineTenants": True,
                "workers": 3,
                "drainSeconds": 7.5,
                "deadlineSeconds": 2.5,
                "clientCA": {"secret": "ca", "key": "api.crt"},
                "events": False,
            }
        },
        "controller": {
            "enabled": True,
            "args": {
                "maxConcurrentReconciles": 32,
                "resyncSeconds": 90,
                "tenantQuota": {
                    "secrets": 20000000,
                    "count/daemonsets.apps": "2k",
                    "configmaps": "",
                    "companions/Any": 500,
                },
            },
        },
        "gateway": {
            "enabled": True,
            "args": {
                "drainSeconds": 9,
                "maxMessageBytes": 8388608,
                "streamsPerTenant": 9,
                "callsPerSecond": 0.5,
                "callsBurst": 1000000,
                "workloadsPerTenant": 2000000,
                "writesPerTenant": 8,
            },
        },
        "agent": {
            "enabled": True,
            "gateway": "[fd00::1]:30001",
            "args": {"gatewayName": "gw.example", "tenant": "one", "keepFinished": True, "resyncSeconds": 300},
        },
        "certificates": {"days": 30, "authorityDays": 90},
    }
    roles = _roles(render, values)
    expected: dict[str, JSON] = {
        "webhook": {
            "log_level": "debug",
            "host_label": "h/host",
            "tenant_node_label": "t/tenant",
            "admin_names": ("a", "b"),
            "tenant_allow": ("priorityClass=gold", "priorityClass=silver", "volumeType=nfs"),
            "network_resource_name_keys": "a/x,b/y",
            "existing_resources": "skip",
            "node_selector_conflict": "deny",
            "inject_hugepage_down_api": True,
            "default_network_namespace": "multus",
            "confine_tenants": True,
            "workers": 3,
            "drain_seconds": 7.5,
            "deadline_seconds": 2.5,
            "insecure": False,
            "client_ca": ("/etc/berth/client-ca/api.crt",),
            "events": False,
        },
        "controller": {
            "host_label": "h/host",
            "tenant_node_label": "t/tenant",
            "admin_names": ("a", "b"),
            "tenant_allow": ("priorityClass=gold", "priorityClass=silver", "volumeType=nfs"),
            "max_concurrent_reconciles": 32,
            "resync_seconds": 90,
            "tenant_quota": ("companions/Any=500", "configmaps=", "count/daemonsets.apps=2k", "secrets=20000000"),
        },
        "gateway": {
            "admin_names": ("a", "b"),
            "tenant_allow": ("priorityClass=gold", "priorityClass=silver", "volumeType=nfs"),
            "drain_seconds": 9,
            "max_message_bytes": 8388608,
            "streams_per_tenant": 9,
            "calls_per_second": 0.5,
            "calls_burst": 1000000,
            "workloads_per_tenant": 2000000,
            "writes_per_tenant": 8,
        },
        "agent": {
            "gateway": "[fd00::1]:30001",
            "gateway_name": "gw.example",
            "tenant": "one",
            "keep_finished": True,
            "resync_seconds": 300,
            "namespace": "universe",
        },
        "certificates": {
            "namespace": NAMESPACE,
            "webhook_service": "berth-webhook",
            "configuration": ("berth",),
            "gateway": True,
            "gateway_service": "berth-gateway",
            "days": 30,
            "ca_days": 90,
        },
    }
    for role, fields in expected.items():
        assert {name: getattr(roles[role], name) for name in fields} == fields


def test_without_a_webhook_no_certificate_is_kept_for_one(render: Render) -> None:
    settings = _roles(render, COMBINATIONS["gateway alone"])["certificates"]
    assert isinstance(settings, CertificatesSettings)
    assert settings.webhook_options is None
    assert settings.authority_options is not None


def test_the_hook_names_the_registration_of_its_release(render: Render) -> None:
    rendered = render({}, name="other")
    (container,) = rendered.one("Job")["spec"]["template"]["spec"]["containers"]
    assert parsed(container["args"])["name"] == rendered.one("MutatingWebhookConfiguration")["metadata"]["name"]


def test_a_flag_of_ones_own_beats_the_charts(render: Render) -> None:
    values = {"webhook": {"extraArgs": ["--log-level=error"]}}
    assert _roles(render, values)["webhook"].log_level == "error"


@each_combination
def test_the_commands_that_the_notes_name_can_be_typed(chart: helm_python.Chart, values: JSON) -> None:
    notes = chart.render(values, name="berth", namespace=NAMESPACE)["berth/templates/NOTES.txt"]
    for line in notes.splitlines():
        if line.startswith("  berth "):
            assert parsed(shlex.split(line, comments=True)[1:])


@each_combination
def test_the_sandbox_starts_every_pod_with_what_it_says(render: Render, values: JSON) -> None:
    """What keeps Pods from doing harm to a machine refuses none of the chart's."""
    for pod in render(values).pods():
        (container,) = pod["spec"]["containers"]
        assert refusal(container["args"]) == ""
        assert confined(container["args"], address="127.66.0.2") == container["args"]
        assert all(is_allowed_variable(one["name"]) for one in container.get("env") or [])
