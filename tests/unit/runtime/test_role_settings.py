"""Flags, environment and defaults of the roles of the Workload API: controller, gateway and agent."""

from __future__ import annotations

import os
import re

import pytest

from app.errors import UsageError
from app.registry import ROLES, settings_of
from app.settings.source import variables
from app.tenancy.agent.settings import AgentSettings
from app.tenancy.gateway.settings import GatewaySettings

WebhookSettings = settings_of("webhook")
ControllerSettings = settings_of("controller")

GATEWAY = {"gateway": "gateway.example:30001"}


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """No variable of the machine that runs the tests counts."""
    for name in list(os.environ):
        if name.upper().startswith("BERTH_") or name == "NAMESPACE":
            monkeypatch.delenv(name)


_WRONG = ("x y", "-1", "99999999999999999999", "nan", "a=b", "[]", "/no/such", "..", "http://x:y")


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_no_message_has_words_of_the_library_that_checks(role, monkeypatch) -> None:
    """Of flags and of variables, whatever is wrong with them; each message says what was wanted."""
    settings, refused = settings_of(role.name), 0
    for name, field in settings.model_fields.items():
        for value in _WRONG:
            messages = []
            with monkeypatch.context() as surroundings:
                messages.append(_refusal(settings, {name: value}))
                surroundings.setenv(variables(name, field)[0], value)
                messages.append(_refusal(settings, {}))
            for message in filter(None, messages):
                refused += 1
                assert not re.search("Value error|Input should|unable to parse|Assertion", message), message
    assert refused


def _refusal(settings, given) -> str:
    try:
        settings.load(given)
    except UsageError as error:
        return str(error)
    return ""


def test_a_value_that_is_no_number_is_quoted(monkeypatch) -> None:
    monkeypatch.setenv("BERTH_WORKERS", "many")
    with pytest.raises(UsageError, match="BERTH_WORKERS: want a valid integer, got 'many'"):
        WebhookSettings.load({})


def test_a_controller_that_is_told_nothing() -> None:
    loaded = ControllerSettings.load({})
    assert loaded.controllers == ("workloads", "tenants")
    assert loaded.namespace == "universe"
    assert loaded.admin_names == ("cloud-admin.local",)
    assert loaded.leader_elect
    assert loaded.placement.host_label == "provisioning.dpu.nvidia.com/host"
    assert loaded.placement.tenant_node_label == "berth.dev/tenant"


def test_a_gateway_that_is_told_nothing_serves_tls_from_its_folder() -> None:
    loaded = GatewaySettings.load({})
    assert (loaded.bind_address, loaded.port) == ("0.0.0.0", 9090)
    assert loaded.tls_cert_file == "tls.crt"
    assert (loaded.tls_private_key_file, loaded.client_ca) == ("tls.key", "ca.crt")
    assert loaded.admin_names == ("cloud-admin.local",)
    assert loaded.admin_ca is None


def test_what_a_gateway_is_told_reaches_it() -> None:
    given = {"max_message_bytes": 65536, "streams_per_tenant": 3, "calls_per_second": 2.5, "calls_burst": 7}
    given |= {
        "writes_per_tenant": 200,
        "workloads_per_tenant": 9,
        "admin_ca": "admin-ca.crt",
        "drain_seconds": 1.5,
        "admin_names": "a.example, b.example",
        "host_label": "x/y",
        "tenant_allow": "priorityClass=gold, volumeType=nfs",
    }
    loaded = GatewaySettings.load(given)
    limits = loaded.limits
    assert (limits.message_bytes, limits.streams_per_tenant, limits.calls_burst) == (65536, 3, 7)
    assert (limits.calls_per_second, limits.writes_per_tenant, loaded.drain_seconds) == (2.5, 200, 1.5)
    assert limits.writes >= limits.writes_per_tenant
    assert (limits.workloads_per_tenant, loaded.admin_ca) == (9, "admin-ca.crt")
    assert loaded.admin_names == ("a.example", "b.example")
    assert loaded.placement.host_label == "x/y"
    assert loaded.placement.policy.entries == {"priorityClass=gold", "volumeType=nfs"}


@pytest.mark.parametrize("given", ["::1", "::", "127.0.0.1"])
def test_the_address_of_a_gateway_is_as_sockets_take_it(given) -> None:
    assert GatewaySettings.load({"bind_address": given}).bind_address == given


def test_what_an_agent_is_told_reaches_it() -> None:
    given = {"gateway_ca": "a", "tls_cert_file": "b", "tls_private_key_file": "c", "gateway_name": "g.example"}
    given |= {"tenant": "tenant1", "namespace": "here", "configmap_name": "cm", "configmap_namespace": "there"}
    given |= GATEWAY | {"keep_finished": True, "resync_seconds": 5.0}
    settings = AgentSettings.load(given)
    assert {name: getattr(settings, name) for name in given} == given


@pytest.mark.parametrize("address", ["h:1", "10.0.0.1:30001", "[::1]:65535", "gateway.universe.svc:9090"])
def test_addresses_of_a_gateway(address) -> None:
    assert AgentSettings.load({"gateway": address}).gateway == address


@pytest.mark.parametrize(
    ("role", "variable", "text", "field", "value"),
    [
        (
            ControllerSettings,
            "BERTH_CONTROLLERS",
            "tenants, workloads,tenants",
            "controllers",
            ("tenants", "workloads"),
        ),
        (ControllerSettings, "NAMESPACE", "berth", "namespace", "berth"),
        (ControllerSettings, "BERTH_NAMESPACE", "berth", "namespace", "berth"),
        (ControllerSettings, "BERTH_LEADER_ELECT", "false", "leader_elect", False),
        (ControllerSettings, "BERTH_TENANT_NODE_LABEL", "a/b", "tenant_node_label", "a/b"),
        (ControllerSettings, "BERTH_ADMIN_NAMES", "a,b", "admin_names", ("a", "b")),
        (WebhookSettings, "BERTH_ADMIN_NAMES", "a,b", "admin_names", ("a", "b")),
        (GatewaySettings, "BERTH_PORT", "30001", "port", 30001),
        (GatewaySettings, "BERTH_PORT", "tcp://10.0.0.1:9090", "port", 9090),
        (GatewaySettings, "BERTH_ADMIN_NAMES", "a,b", "admin_names", ("a", "b")),
        (AgentSettings, "BERTH_GATEWAY", "h:2", "gateway", "h:2"),
        (AgentSettings, "BERTH_KEEP_FINISHED", "true", "keep_finished", True),
        (AgentSettings, "NAMESPACE", "berth", "namespace", "berth"),
    ],
)
def test_the_environment_counts(monkeypatch, role, variable, text, field, value) -> None:
    monkeypatch.setenv("BERTH_GATEWAY", "h:1")
    monkeypatch.setenv(variable, text)
    assert getattr(role.load({}), field) == value


def test_a_flag_beats_the_environment_which_may_be_left_out(monkeypatch) -> None:
    monkeypatch.setenv("BERTH_PORT", "9001")
    assert GatewaySettings.load({"port": 9002}).port == 9002
    assert GatewaySettings.load({"port": 443}).port == 443
    assert GatewaySettings.load({}, environment=False).port == 9090


def test_a_link_to_a_service_is_no_value_and_an_empty_variable_hides_none(monkeypatch) -> None:
    """Neither makes another name of the same variable count."""
    monkeypatch.setenv("NAMESPACE", "here")
    monkeypatch.setenv("BERTH_NAMESPACE", "tcp://10.0.0.1:9090")
    assert ControllerSettings.load({}).namespace == "universe"
    monkeypatch.setenv("BERTH_NAMESPACE", "berth")
    monkeypatch.setenv("berth_namespace", "")
    assert ControllerSettings.load({}).namespace == "berth"


@pytest.mark.parametrize(
    ("role", "given", "line"),
    [
        (
            ControllerSettings,
            {"controllers": "tenants,pods"},
            "--controllers: there is no controller 'pods': want policies, workloads",
        ),
        (ControllerSettings, {"controllers": " , "}, "--controllers: want a list of policies, workloads, tenants"),
        (ControllerSettings, {"max_concurrent_reconciles": 0}, "--max-concurrent-reconciles: "),
        (ControllerSettings, {"resync_seconds": 0.5}, "--resync-seconds: "),
        (ControllerSettings, {"tenant_quota": "secrets=many"}, "--tenant-quota: want RESOURCE=NUMBER"),
        (ControllerSettings, {"resync_seconds": float("nan")}, "--resync-seconds: "),
        (ControllerSettings, {"namespace": "No Name"}, "--namespace: 'No Name' is not a valid name"),
        (ControllerSettings, {"admin_names": " , "}, "--admin-names: want at least one name"),
        (WebhookSettings, {"admin_names": ""}, "--admin-names: want at least one name"),
        (
            WebhookSettings,
            {"tenant_node_label": ""},
            "--tenant-node-label: want a label; to turn confinement off, leave out --confine",
        ),
        (WebhookSettings, {"tenant_node_label": "not a label"}, "--tenant-node-label: 'not a label'"),
        (WebhookSettings, {"host_label": "x/y", "tenant_node_label": "x/y"}, "--host-label and --tenant-node-label: "),
        (ControllerSettings, {"host_label": "not a label"}, "--host-label: "),
        (ControllerSettings, {"host_label": ""}, "--host-label: "),
        (
            ControllerSettings,
            {"host_label": "x/y", "tenant_node_label": "x/y"},
            "--host-label and --tenant-node-label: ",
        ),
        (ControllerSettings, {"kubeconfig": 5}, "--kubeconfig: "),
        (GatewaySettings, {"tenant_allow": "gold"}, "--tenant-allow: 'gold': want KIND=NAME"),
        (
            WebhookSettings,
            {"tenant_allow": "volumeType=hostPath"},
            "--tenant-allow: 'volumeType=hostPath': tenants cannot",
        ),
        (GatewaySettings, {"port": 65536}, "--port: invalid port number"),
        (GatewaySettings, {"port": 8444}, "--port and --health-check-port: want two ports, got one"),
        (GatewaySettings, {"client_ca": ""}, "--client-ca: want a value"),
        (GatewaySettings, {"admin_ca": ""}, "--admin-ca: want a value"),
        (GatewaySettings, {"workloads_per_tenant": 0}, "--workloads-per-tenant: "),
        (GatewaySettings, {"admin_names": ","}, "--admin-names: want at least one name"),
        (GatewaySettings, {"calls_per_second": 0}, "--calls-per-second: "),
        (GatewaySettings, {"calls_per_second": float("inf")}, "--calls-per-second: "),
        (GatewaySettings, {"calls_burst": 0}, "--calls-burst: "),
        (GatewaySettings, {"streams_per_tenant": 2}, "--streams-per-tenant: "),
        (GatewaySettings, {"max_message_bytes": 1}, "--max-message-bytes: "),
        (GatewaySettings, {"drain_seconds": -1}, "--drain-seconds: "),
        (GatewaySettings, {"bind_address": ""}, "--bind-address: want a value"),
        (AgentSettings, {}, "--gateway: want HOST:PORT of the gateway"),
        (AgentSettings, {"gateway": "host"}, "--gateway: want HOST:PORT of the gateway"),
        (AgentSettings, {"gateway": "::1:90"}, "--gateway: want HOST:PORT of the gateway"),
        (AgentSettings, {"gateway": "h:0"}, "--gateway: want HOST:PORT of the gateway"),
        (AgentSettings, {"gateway": "https://h:1"}, "--gateway: want HOST:PORT of the gateway"),
        (AgentSettings, GATEWAY | {"tenant": "A"}, "--tenant: 'A' is not a valid name"),
        (AgentSettings, GATEWAY | {"gateway_name": "a b"}, "--gateway-name: "),
        (AgentSettings, GATEWAY | {"configmap_name": ""}, "--configmap-name: "),
        (AgentSettings, GATEWAY | {"configmap_namespace": "A"}, "--configmap-namespace: "),
        (AgentSettings, GATEWAY | {"tls_private_key_file": ""}, "--tls-private-key-file: want a value"),
        (AgentSettings, GATEWAY | {"log_level": "loud"}, "--log-level: "),
    ],
)
def test_a_wrong_value_is_one_line_that_names_the_flag(role, given, line) -> None:
    with pytest.raises(UsageError) as caught:
        role.load(given)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("role", "variable", "text"),
    [
        (ControllerSettings, "BERTH_CONTROLLERS", "pods"),
        (ControllerSettings, "NAMESPACE", "A B"),
        (GatewaySettings, "BERTH_PORT", "80000"),
        (AgentSettings, "BERTH_GATEWAY", "host"),
        (AgentSettings, "BERTH_GATEWAY", "tcp://10.0.0.1:9090"),
    ],
)
def test_a_wrong_variable_is_named_as_it_was_set(monkeypatch, role, variable, text) -> None:
    monkeypatch.setenv("BERTH_GATEWAY", "h:1")
    monkeypatch.setenv(variable, text)
    with pytest.raises(UsageError, match=rf"^{variable}: "):
        role.load({})


@pytest.mark.parametrize("role", [ControllerSettings, GatewaySettings])
def test_the_empty_label_confines_nobody(role) -> None:
    assert role.load({"tenant_node_label": ""}).placement.tenant_node_label == ""
