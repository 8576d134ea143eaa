"""Flags, environment and defaults of the roles of the Workload API: controller, gateway and agent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.errors import UsageError
from app.settings import agent, controller, gateway, webhook

GATEWAY = {"gateway": "gateway.example:30001"}


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """No variable of the machine that runs the tests counts."""
    for name in list(os.environ):
        if name.upper().startswith("BERTH_") or name == "NAMESPACE":
            monkeypatch.delenv(name)


def test_a_controller_that_is_told_nothing() -> None:
    loaded = controller.load({})
    assert loaded.controllers == ("workloads", "tenants")
    assert loaded.namespace == "universe"
    assert loaded.admin_names == ("cloud-admin.local",)
    assert loaded.leader_elect
    assert loaded.placement.host_label == "provisioning.dpu.nvidia.com/host"
    assert loaded.placement.tenant_node_label == "berth.dev/tenant"


def test_a_gateway_that_is_told_nothing_serves_tls_from_its_folder() -> None:
    options = gateway.load({}).options
    assert (options.host, options.port) == ("0.0.0.0", 9090)
    assert options.tls.certificate == Path("tls.crt")
    assert (options.tls.key, options.tls.client_ca) == (Path("tls.key"), Path("ca.crt"))
    assert options.admin_names == ("cloud-admin.local",)
    assert options.tls.admin_ca is None


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
    options = gateway.load(given).options
    limits = options.limits
    assert (limits.message_bytes, limits.streams_per_tenant, limits.calls_burst) == (65536, 3, 7)
    assert (limits.calls_per_second, limits.writes_per_tenant, options.drain) == (2.5, 200, 1.5)
    assert limits.writes >= limits.writes_per_tenant
    assert (limits.workloads_per_tenant, options.tls.admin_ca) == (9, Path("admin-ca.crt"))
    assert options.admin_names == ("a.example", "b.example")
    assert options.placement.host_label == "x/y"
    assert options.placement.policy.entries == {"priorityClass=gold", "volumeType=nfs"}


@pytest.mark.parametrize("given", ["::1", "::", "127.0.0.1"])
def test_the_address_of_a_gateway_is_as_sockets_take_it(given) -> None:
    assert gateway.load({"bind_address": given}).options.host == given


def test_what_an_agent_is_told_reaches_it() -> None:
    given = {"gateway_ca": "a", "tls_cert_file": "b", "tls_private_key_file": "c", "gateway_name": "g.example"}
    given |= {"tenant": "tenant1", "namespace": "here", "configmap_name": "cm", "configmap_namespace": "there"}
    options = agent.load(GATEWAY | given | {"keep_finished": True, "resync_seconds": 5.0}).options
    assert (options.ca_file, options.cert_file, options.key_file) == (Path("a"), Path("b"), Path("c"))
    assert (options.gateway, options.server_name, options.tenant) == (GATEWAY["gateway"], "g.example", "tenant1")
    assert (options.namespace, options.config_map, options.config_map_namespace) == ("here", "cm", "there")
    assert (options.keep_finished, options.resync) == (True, 5.0)


@pytest.mark.parametrize("address", ["h:1", "10.0.0.1:30001", "[::1]:65535", "gateway.universe.svc:9090"])
def test_addresses_of_a_gateway(address) -> None:
    assert agent.load({"gateway": address}).options.gateway == address


@pytest.mark.parametrize(
    ("role", "variable", "text", "field", "value"),
    [
        (controller, "BERTH_CONTROLLERS", "tenants, workloads,tenants", "controllers", ("tenants", "workloads")),
        (controller, "NAMESPACE", "berth", "namespace", "berth"),
        (controller, "BERTH_NAMESPACE", "berth", "namespace", "berth"),
        (controller, "BERTH_LEADER_ELECT", "false", "leader_elect", False),
        (controller, "BERTH_TENANT_NODE_LABEL", "a/b", "tenant_node_label", "a/b"),
        (controller, "BERTH_ADMIN_NAMES", "a,b", "admin_names", ("a", "b")),
        (webhook, "BERTH_ADMIN_NAMES", "a,b", "admin_names", ("a", "b")),
        (gateway, "BERTH_PORT", "30001", "port", 30001),
        (gateway, "BERTH_PORT", "tcp://10.0.0.1:9090", "port", 9090),
        (gateway, "BERTH_ADMIN_NAMES", "a,b", "admin_names", ("a", "b")),
        (agent, "BERTH_GATEWAY", "h:2", "gateway", "h:2"),
        (agent, "BERTH_KEEP_FINISHED", "true", "keep_finished", True),
        (agent, "NAMESPACE", "berth", "namespace", "berth"),
    ],
)
def test_the_environment_counts(monkeypatch, role, variable, text, field, value) -> None:
    monkeypatch.setenv("BERTH_GATEWAY", "h:1")
    monkeypatch.setenv(variable, text)
    assert getattr(role.load({}), field) == value


def test_a_flag_beats_the_environment_which_may_be_left_out(monkeypatch) -> None:
    monkeypatch.setenv("BERTH_PORT", "9001")
    assert gateway.load({"port": 9002}).port == 9002
    assert gateway.load({"port": 443}).port == 443
    assert gateway.load({}, environment=False).port == 9090


@pytest.mark.parametrize(
    ("role", "given", "line"),
    [
        (controller, {"controllers": "tenants,pods"}, "--controllers: there is no controller 'pods': want workloads"),
        (controller, {"controllers": " , "}, "--controllers: want a list of workloads, tenants"),
        (controller, {"max_concurrent_reconciles": 0}, "--max-concurrent-reconciles: "),
        (controller, {"resync_seconds": 0.5}, "--resync-seconds: "),
        (controller, {"tenant_quota": "secrets=many"}, "--tenant-quota: want RESOURCE=NUMBER"),
        (controller, {"resync_seconds": float("nan")}, "--resync-seconds: "),
        (controller, {"namespace": "No Name"}, "--namespace: 'No Name' is not a valid name"),
        (controller, {"admin_names": " , "}, "--admin-names: want at least one name"),
        (webhook, {"admin_names": ""}, "--admin-names: want at least one name"),
        (
            webhook,
            {"tenant_node_label": ""},
            "--tenant-node-label: want a label; to confine nobody, leave out --confine",
        ),
        (webhook, {"tenant_node_label": "not a label"}, "--tenant-node-label: 'not a label'"),
        (webhook, {"host_label": "x/y", "tenant_node_label": "x/y"}, "--host-label and --tenant-node-label: "),
        (controller, {"host_label": "not a label"}, "--host-label: "),
        (controller, {"host_label": ""}, "--host-label: "),
        (controller, {"host_label": "x/y", "tenant_node_label": "x/y"}, "--host-label and --tenant-node-label: "),
        (controller, {"kubeconfig": 5}, "--kubeconfig: "),
        (gateway, {"tenant_allow": "gold"}, "--tenant-allow: 'gold': want KIND=NAME"),
        (webhook, {"tenant_allow": "volumeType=hostPath"}, "--tenant-allow: 'volumeType=hostPath': tenants cannot"),
        (gateway, {"port": 65536}, "--port: invalid port number"),
        (gateway, {"port": 8444}, "--port and --health-check-port: want two ports, got one"),
        (gateway, {"client_ca": ""}, "--client-ca: want a value"),
        (gateway, {"admin_ca": ""}, "--admin-ca: want a value"),
        (gateway, {"workloads_per_tenant": 0}, "--workloads-per-tenant: "),
        (gateway, {"admin_names": ","}, "--admin-names: want at least one name"),
        (gateway, {"calls_per_second": 0}, "--calls-per-second: "),
        (gateway, {"calls_per_second": float("inf")}, "--calls-per-second: "),
        (gateway, {"calls_burst": 0}, "--calls-burst: "),
        (gateway, {"streams_per_tenant": 2}, "--streams-per-tenant: "),
        (gateway, {"max_message_bytes": 1}, "--max-message-bytes: "),
        (gateway, {"drain_seconds": -1}, "--drain-seconds: "),
        (gateway, {"bind_address": ""}, "--bind-address: want a value"),
        (agent, {}, "--gateway: want HOST:PORT of the gateway"),
        (agent, {"gateway": "host"}, "--gateway: want HOST:PORT of the gateway"),
        (agent, {"gateway": "::1:90"}, "--gateway: want HOST:PORT of the gateway"),
        (agent, {"gateway": "h:0"}, "--gateway: want HOST:PORT of the gateway"),
        (agent, {"gateway": "https://h:1"}, "--gateway: want HOST:PORT of the gateway"),
        (agent, GATEWAY | {"tenant": "A"}, "--tenant: 'A' is not a valid name"),
        (agent, GATEWAY | {"gateway_name": "a b"}, "--gateway-name: "),
        (agent, GATEWAY | {"configmap_name": ""}, "--configmap-name: "),
        (agent, GATEWAY | {"configmap_namespace": "A"}, "--configmap-namespace: "),
        (agent, GATEWAY | {"tls_private_key_file": ""}, "--tls-private-key-file: want a value"),
        (agent, GATEWAY | {"log_level": "loud"}, "--log-level: "),
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
        (controller, "BERTH_CONTROLLERS", "pods"),
        (controller, "NAMESPACE", "A B"),
        (gateway, "BERTH_PORT", "80000"),
        (agent, "BERTH_GATEWAY", "host"),
    ],
)
def test_a_wrong_variable_is_named_as_it_was_set(monkeypatch, role, variable, text) -> None:
    monkeypatch.setenv("BERTH_GATEWAY", "h:1")
    monkeypatch.setenv(variable, text)
    with pytest.raises(UsageError, match=rf"^{variable}: "):
        role.load({})


@pytest.mark.parametrize("role", [controller, gateway])
def test_the_empty_label_confines_nobody(role) -> None:
    assert role.load({"tenant_node_label": ""}).placement.tenant_node_label == ""
