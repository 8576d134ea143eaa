"""What makes no sense is refused before anything is rendered, with a text that says what to write instead."""

from __future__ import annotations

import json

import helm_python
import pytest

from app.placement.model import OWN_VOLUMES, volume_types
from app.registry import CONTROLLERS
from tests.support.chart import CHART, JSON, NAMESPACE
from tests.support.chart_combinations import AGENT, AUTHORS, CERTIFICATE, NOTHING, WRAPPERS

SCHEMA = [
    ({"webhok": {}}, "additional properties 'webhok' not allowed"),
    ({"webhook": {"arguments": {}}}, "at '/webhook': additional properties 'arguments' not allowed"),
    ({"webhook": {"replicas": "two"}}, "at '/webhook/replicas': got string, want integer"),
    ({"webhook": {"replicas": 0}}, "at '/webhook/replicas': minimum: got 0, want 1"),
    ({"webhook": {"args": {"workers": 65}}}, "at '/webhook/args/workers': maximum: got 65, want 64"),
    (
        {"certificates": {"mode": "magic"}},
        "at '/certificates/mode': value must be one of 'self-managed', 'cert-manager', 'provided'",
    ),
    (
        {"webhook": {"webhooks": {"pods": {"failurePolicy": "fail"}}}},
        "at '/webhook/webhooks/pods/failurePolicy': value must be one of 'Fail', 'Ignore'",
    ),
    (
        {"webhook": {"webhooks": {"pods": {"timeoutSeconds": 31}}}},
        "at '/webhook/webhooks/pods/timeoutSeconds': maximum: got 31, want 30",
    ),
    ({"webhook": {"args": {"existingResources": "keep"}}}, "value must be one of 'top-up', 'skip', 'add'"),
    ({"webhook": {"injectionLabels": ["a b"]}}, "at '/webhook/injectionLabels/0': 'a b' does not match pattern"),
    ({"webhook": {"extraArgs": ["workers 2"]}}, "at '/webhook/extraArgs/0': 'workers 2' does not match pattern '^--?"),
    ({"agent": {"enabled": True, "gateway": "gateway"}}, "at '/agent/gateway': 'gateway' does not match pattern"),
    ({"image": {"digest": "latest"}}, "at '/image/digest': 'latest' does not match pattern '^$|^sha256:"),
    ({"logLevel": "trace"}, "value must be one of 'debug', 'info', 'warning', 'error'"),
    ({"webhook": {"hostNetwork": "yes"}}, "at '/webhook/hostNetwork': got string, want boolean"),
    ({"gateway": {"certificate": {"dnsNames": ["a b"]}}}, "at '/gateway/certificate/dnsNames/0': 'a b' does not match"),
    ({"gateway": {"certificate": {"addresses": ["1.2.3"]}}}, "'1.2.3' is not valid ipv4"),
    ({"ui": {"frontProxy": {"names": [""]}}}, "at '/ui/frontProxy/names/0': minLength: got 0, want 1"),
    ({"ui": {"frontProxy": {"key": "../x"}}}, "at '/ui/frontProxy/key': '../x' does not match pattern"),
    ({"ui": {"frontProxy": {"key": ".."}}}, "at '/ui/frontProxy/key': '..' does not match pattern"),
    (
        {"webhook": {"args": {"clientCA": {"key": "a/b"}}}},
        "at '/webhook/args/clientCA/key': 'a/b' does not match pattern",
    ),
    ({"networkPolicy": {"apiServerPorts": []}}, "at '/networkPolicy/apiServerPorts': minItems: got 0, want 1"),
    ({"networkPolicy": {"apiServerCIDRs": ["10.0.0.10"]}}, "apiServerCIDRs/0': '10.0.0.10' does not match pattern"),
    ({"networkPolicy": {"apiServerCIDRs": ["api.example/32"]}}, "apiServerCIDRs/0': 'api.example/32' does not match"),
    ({"tracing": {"endpoint": "collector:4318"}}, "at '/tracing/endpoint': 'collector:4318' does not match pattern"),
    ({"priorityClass": {"value": 2000000000}}, "at '/priorityClass/value': maximum: got 2"),
    ({"certificates": {"provided": {"caBundle": "ca.crt"}}}, "at '/certificates/provided/caBundle': 'ca.crt' does"),
    ({"placement": {"tenantAllow": ["priorityClass=gold"]}}, "at '/placement/tenantAllow': got array, want object"),
    (
        {"placement": {"tenantAllow": {"priority": ["gold"]}}},
        "at '/placement/tenantAllow': additional properties 'priority' not allowed",
    ),
    (
        {"placement": {"tenantAllow": {"priorityClass": "gold"}}},
        "at '/placement/tenantAllow/priorityClass': got string, want array",
    ),
    (
        {"placement": {"tenantAllow": {"csiDriver": ["a,b"]}}},
        "at '/placement/tenantAllow/csiDriver/0': 'a,b' does not match pattern",
    ),
    (
        {"placement": {"tenantAllow": {"volumeType": ["NFS"]}}},
        "at '/placement/tenantAllow/volumeType/0': 'NFS' does not match pattern",
    ),
    (
        {"webhook": {"controlSwitches": {"features": {"hugepages": True}}}},
        "at '/webhook/controlSwitches/features': additional properties 'hugepages' not allowed",
    ),
    (
        {"webhook": {"webhooks": {"tenantPods": {"enabled": False}}}},
        "at '/webhook/webhooks/tenantPods': additional properties 'enabled' not allowed",
    ),
    (
        {"controller": {"args": {"controllers": ["appwrapers"]}}},
        "at '/controller/args/controllers/0': value must be one of " + ", ".join(f"'{name}'" for name in CONTROLLERS),
    ),
    ({"claims": {"formatPolicy": "deny"}}, "at '/claims/formatPolicy': value must be one of 'off', 'Warn', 'Deny'"),
]

KEEPS = {"enabled": True, "args": {"controllers": ["policies"]}}
SENTENCES = [
    ({"mode": "both"}, "mode=both: controller policies keeps the policies: set controller.enabled=true"),
    (
        {"mode": "both", "controller": KEEPS, "webhook": {"enabled": False}},
        "mode=both: the webhook serves the Pods that",
    ),
    (
        {"mode": "both", "controller": KEEPS, "webhook": {"matchConditions": {"leftByPolicies": "true"}}},
        "controller policies writes this condition: leave it empty",
    ),
    ({"mode": "policies", "controller": KEEPS}, "mode=policies: policies are in place of the webhook for Pods"),
    ({"webhook": {"enabled": False}}, "nothing is enabled: set one of webhook.enabled, controller.enabled"),
    ({"webhook": {"enabled": False}}, "agent.enabled, ui.enabled, or claims.formatPolicy"),
    ({"agent": {"enabled": True}}, "set agent.gateway=HOST:PORT"),
    (
        {"ui": {"enabled": True, "frontProxy": {"secret": "a", "configMap": "b", "names": ["c"]}}},
        "ui.frontProxy: the CA is in a secret or in a configMap; name one of them",
    ),
    ({"ui": {"enabled": True, "frontProxy": {"secret": "a"}}}, "ui.frontProxy.names: want the common names"),
    ({"ui": {"enabled": True, "frontProxy": {"names": ["a"]}}}, "no certificate is asked for without a CA"),
    (
        {"ui": {"enabled": True}, "webhook": {"enabled": False}, "certificates": {"mode": "provided"}},
        "the page needs ui.certificate.secretName",
    ),
    (
        {"placement": {"tenantAllow": {"volumeType": ["hostPath"]}}},
        "placement.tenantAllow.volumeType: tenants cannot be allowed hostPath as a whole",
    ),
    (
        {"placement": {"tenantAllow": {"volumeType": ["csi"]}}},
        "name drivers of inline CSI volumes in placement.tenantAllow.csiDriver",
    ),
    (
        {"placement": {"tenantAllow": {"volumeType": ["nfss"]}}},
        '"nfss" is not a type of volume that tenants can be allowed; want one of ' + ", ".join(volume_types()),
    ),
    (
        {"placement": {"tenantAllow": {"scheduler": ["default-scheduler"]}}},
        "placement.tenantAllow.scheduler: every tenant's Pods may have default-scheduler; leave it out",
    ),
    *(
        (
            {"placement": {"tenantAllow": {"volumeType": [name]}}},
            f"placement.tenantAllow.volumeType: every tenant's Pods may have {name}; leave it out",
        )
        for name in sorted(OWN_VOLUMES)
    ),
    (
        {"placement": {"tenantAllow": {"priorityClass": ["system-node-critical"]}}},
        "placement.tenantAllow.priorityClass: system-node-critical is for the Pods of the cluster itself",
    ),
    (
        {"gateway": {"extraArgs": ["--tenant-allow=volumeType=nfs"]}},
        "gateway.extraArgs: --tenant-allow must be the same for webhook, controller and gateway",
    ),
    (
        {"webhook": {"controlSwitches": {"userDefinedInjections": {"sriov": {}}}}},
        "set webhook.controlSwitches.create=true, or name the labels in webhook.injectionLabels alone",
    ),
    (
        {"webhook": {"args": {"clientCA": {"secret": "a", "configMap": "b"}}}},
        "webhook.args.clientCA: the CA is in a secret or in a configMap; name one of them",
    ),
    (
        {"controller": AUTHORS["constrained"]["controller"]},
        "controller.args.appwrapperImpersonation=constrained: the controller would believe any user",
    ),
    (
        AUTHORS["legacy"] | {"webhook": {"args": {"appwrappers": True}}},
        "controller.args.appwrapperImpersonation=legacy: the controller would believe any user",
    ),
    (
        AUTHORS["legacy"]
        | {"webhook": WRAPPERS["webhook"] | {"webhooks": {"appwrappers": {"failurePolicy": "Ignore"}}}},
        "webhook.webhooks.appwrappers.failurePolicy has to be Fail",
    ),
    (
        {"webhook": {"webhooks": {"pods": {"enabled": False}}}},
        "webhook.webhooks: a MutatingWebhookConfiguration would have no webhook; leave one enabled, or set webhook.enabled",
    ),
    (
        {"webhook": {"webhooks": {"attachments": {"enabled": False}, "rules": {"enabled": False}}}},
        "webhook.webhooks: a ValidatingWebhookConfiguration would have no webhook",
    ),
    (
        {"webhook": {"webhooks": {"pods": {"enabled": None}}}},
        "webhook.webhooks.pods.enabled is not set, as in values of an older chart: upgrade with --reset-then-reuse-values",
    ),
    *(
        ({"webhook": {"webhooks": {name: None}, "args": {"confineTenants": confined}}}, f"{name}.enabled is not set")
        for name in ("pods", "attachments", "rules")
        for confined in (False, True)
    ),
    ({"certificates": {"mode": "provided"}}, "needs certificates.provided.secretName"),
    (
        {"certificates": {"provided": {"secretName": "mine", "caBundle": CERTIFICATE}}},
        "certificates come from one place; set certificates.mode=provided",
    ),
    (
        {"certificates": {"certManager": {"issuerRef": {"name": "company"}}}},
        "certificates come from one place; set certificates.mode=cert-manager",
    ),
    (
        {"certificates": {"mode": "cert-manager", "certManager": {"issuerRef": {"kind": "Issuer"}}}},
        "certificates.certManager.issuerRef: want the issuer's name",
    ),
    (
        {"gateway": {"enabled": True}, "certificates": {"mode": "cert-manager"}},
        "certificates.mode=cert-manager: the gateway needs gateway.certificate.secretName",
    ),
    (
        {"gateway": {"enabled": True, "certificate": {"secretName": "mine"}}},
        "gateway.certificate.secretName is given, but certificates.mode is self-managed",
    ),
]


@pytest.mark.parametrize(("values", "message"), SCHEMA, ids=[json.dumps(values)[:60] for values, _ in SCHEMA])
def test_the_schema_refuses_a_value_and_names_it(chart: helm_python.Chart, values: JSON, message: str) -> None:
    with pytest.raises(helm_python.HelmValuesError) as refused:
        chart.validate_schema(values)
    assert message in str(refused.value)


@pytest.mark.parametrize(("values", "message"), SENTENCES, ids=[json.dumps(values)[:60] for values, _ in SENTENCES])
def test_what_does_not_fit_together_is_refused_with_a_sentence(
    chart: helm_python.Chart, values: JSON, message: str
) -> None:
    with pytest.raises(helm_python.HelmRenderError) as refused:
        chart.render(values, name="berth", namespace=NAMESPACE)
    assert message in str(refused.value)


def test_a_release_in_a_tenants_namespace_is_refused(chart: helm_python.Chart) -> None:
    with pytest.raises(helm_python.HelmRenderError, match="names that begin with tenant- are namespaces of tenants"):
        chart.render({}, name="berth", namespace="tenant-one")


@pytest.mark.parametrize("role", ["controller", "gateway"])
def test_controller_and_gateway_are_refused_where_companions_of_the_admins_rules_run(
    chart: helm_python.Chart, role: str
) -> None:
    with pytest.raises(helm_python.HelmRenderError, match="install controller and gateway into another namespace"):
        chart.render(NOTHING | {role: {"enabled": True}}, name="berth", namespace="universe")
    assert chart.render(AGENT, name="berth", namespace="universe")


def test_a_deadline_beyond_what_the_api_server_waits_is_no_mistake(chart: helm_python.Chart) -> None:
    """Each review says how long; nine tenths of that count where they are less (tests/admission)."""
    assert chart.render({"webhook": {"args": {"deadlineSeconds": 30}}}, name="berth", namespace=NAMESPACE)


def test_a_release_whose_services_would_have_no_valid_name_is_refused(chart: helm_python.Chart) -> None:
    with pytest.raises(
        helm_python.HelmRenderError, match="choose another name of the release, or set fullnameOverride"
    ):
        chart.render({}, name="1x", namespace=NAMESPACE)
    assert chart.render({"fullnameOverride": "x"}, name="1x", namespace=NAMESPACE)


def test_the_schema_knows_every_value_and_no_other() -> None:
    """A key of values.yaml that the schema forgets could not be set; one that it knows alone would do nothing."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = helm_python.values_from_yaml((CHART / "values.yaml").read_text())
    assert _differences(values, schema, schema["definitions"], "") == []


OPEN = {".global", ".webhook.resources.claims"}
"""Helm's own, and what is rarely wanted."""
FREE = ("issuerRef", "features")
"""Objects whose keys the schema names and whose default is to have none."""


def _differences(value: object, schema: JSON, definitions: JSON, path: str) -> list[str]:
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    known = schema.get("properties")
    if not isinstance(value, dict) or known is None or path.endswith(FREE):
        return []
    missing = [f"{path}.{key}" for key in known if key not in value and not f"{path}.{key}".endswith("claims")]
    unknown = [f"{path}.{key}" for key in value if key not in known]
    below = [
        line
        for key in value
        if key in known
        for line in _differences(value[key], known[key], definitions, f"{path}.{key}")
    ]
    return [line for line in missing + unknown if line not in OPEN] + below


def test_every_value_has_a_comment() -> None:
    """docs/reference is made of them."""
    above = ""
    for line in (CHART / "values.yaml").read_text().splitlines():
        text = line.strip()
        if text.startswith("#"):
            above += text
            continue
        key, _, value = text.partition(":")
        if value.strip() and key not in ("requests", "limits"):  # these are below `resources`
            assert above.startswith("# -- "), line
        above = ""
