"""Flags, environment and defaults of the webhook role."""

from __future__ import annotations

import os

import pytest

from app.errors import UsageError
from app.registry import settings_of
from app.settings.webhook import SERVICE_ACCOUNT_CA

WebhookSettings = settings_of("webhook")


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """No variable of the machine that runs the tests counts."""
    for name in list(os.environ):
        if name.startswith("BERTH_") or name == "NAMESPACE":
            monkeypatch.delenv(name)


def test_the_defaults_are_those_of_network_resources_injector() -> None:
    loaded = WebhookSettings.load({})
    assert (loaded.port, loaded.health_check_port, loaded.bind_address) == (8443, 8444, "0.0.0.0")
    assert (loaded.tls_cert_file, loaded.tls_private_key_file) == ("cert.pem", "key.pem")
    assert loaded.insecure is False
    assert loaded.client_ca == (SERVICE_ACCOUNT_CA,)
    assert loaded.namespace == "kube-system"
    assert loaded.resource_name_keys == ("k8s.v1.cni.cncf.io/resourceName",)
    assert loaded.inject_hugepage_down_api is False
    assert loaded.existing_mode == "top-up"


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("BERTH_PORT", "9443", "port", 9443),
        ("BERTH_INSECURE", "true", "insecure", True),
        ("BERTH_DRAIN_SECONDS", "1.5", "drain_seconds", 1.5),
        ("BERTH_INJECT_HUGEPAGE_DOWN_API", "1", "inject_hugepage_down_api", True),
        ("BERTH_CLIENT_CA", "a.crt, b.crt,", "client_ca", ("a.crt", "b.crt")),
        ("BERTH_CLIENT_CA", "", "client_ca", (SERVICE_ACCOUNT_CA,)),
        ("BERTH_NAMESPACE", "berth", "namespace", "berth"),
        ("NAMESPACE", "berth", "namespace", "berth"),
        ("NAMESPACE", "", "namespace", "kube-system"),
        ("BERTH_PORT", "tcp://10.0.0.1:443", "port", 8443),
        ("BERTH_HEALTH_CHECK_PORT", "udp://10.0.0.1:443", "health_check_port", 8444),
    ],
)
def test_the_environment_counts_where_it_is_ours(monkeypatch, variable, text, field, value) -> None:
    """A Service named `berth` puts BERTH_PORT=tcp://… into every Pod beside it: not ours."""
    monkeypatch.setenv(variable, text)
    assert getattr(WebhookSettings.load({}), field) == value


def test_a_flag_beats_the_environment_which_beats_the_default(monkeypatch) -> None:
    monkeypatch.setenv("BERTH_PORT", "9001")
    monkeypatch.setenv("NAMESPACE", "plain")
    assert WebhookSettings.load({"port": 9002}).port == 9002
    assert WebhookSettings.load({"namespace": "flag"}).namespace == "flag"
    assert WebhookSettings.load({"client_ca": ("x",)}).client_ca == ("x",)
    monkeypatch.setenv("BERTH_NAMESPACE", "prefixed")
    assert WebhookSettings.load({}).namespace == "prefixed"
    assert WebhookSettings.load({}).port == 9001


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"port": -1}, "--port: invalid port number. Choose between 1 and 65535"),
        ({"health_check_port": 65536}, "--health-check-port: invalid port number. Choose between 1 and 65535"),
        ({"port": 8444}, "Health check port should be different from port"),
        ({"network_resource_name_keys": " "}, "--network-resource-name-keys: Input argument for resourceName cannot"),
        ({"network_resource_name_keys": "a,,b"}, "--network-resource-name-keys: '' is not a qualified name"),
        ({"inject_hugepage_down_api": "perhaps"}, "--injectHugepageDownApi: "),
        ({"tls_cert_file": ""}, "--tls-cert-file: want a value"),
        ({"bind_address": ""}, "--bind-address: want a value"),
        ({"namespace": "No Name"}, "--namespace: 'No Name' is not a valid name"),
        ({"existing_resources": "more"}, "--existing-resources: "),
        ({"honor_resources": True, "existing_resources": "skip"}, "--honor-resources"),
        ({"manifests": "a", "kubeconfig": "b"}, "--manifests and --kubeconfig"),
        ({"workers": 0}, "--workers: "),
        ({"deadline_seconds": 0}, "--deadline-seconds: "),
        ({"certificate_poll_seconds": 0}, "--certificate-poll-seconds: "),
        ({"certificate_poll_seconds": float("inf")}, "--certificate-poll-seconds: "),
        ({"default_network_namespace": "../x"}, "--default-network-namespace: '../x' is not a valid name"),
        ({"default_network_namespace": ""}, "--default-network-namespace: an empty name"),
        ({"manifests": ""}, "--manifests: want a value"),
        *(
            ({"client_allowed_names": given}, "--client-allowed-names: want at least one name")
            for given in ("", " ,", ("",))
        ),
    ],
)
def test_a_wrong_value_is_one_line_that_names_the_flag_as_typed(given, line) -> None:
    with pytest.raises(UsageError) as caught:
        WebhookSettings.load(given)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_verbosity_that_was_typed_beats_the_variable_of_the_level(monkeypatch) -> None:
    monkeypatch.setenv("BERTH_LOG_LEVEL", "warning")
    assert WebhookSettings.load({}).level == "warning"
    assert WebhookSettings.load({"verbosity": 3}).level == "warning"
    assert WebhookSettings.load({"verbosity": 4}).level == "debug"
    assert WebhookSettings.load({"verbosity": 4, "log_level": "error"}).level == "error"


def test_ports_below_1024_are_taken() -> None:
    """With NET_BIND_SERVICE a Service's targetPort may be 443; without it the kernel says so when the port is opened."""
    loaded = WebhookSettings.load({"port": 443, "health_check_port": 80})
    assert (loaded.port, loaded.health_check_port) == (443, 80)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("BERTH_PORT", "80000"),
        ("NAMESPACE", "A B"),
        ("BERTH_NAMESPACE", "A B"),
        ("BERTH_CLIENT_ALLOWED_NAMES", ","),
    ],
)
def test_a_wrong_variable_is_named_as_it_was_set(monkeypatch, variable, text) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(UsageError, match=rf"^{variable}: "):
        WebhookSettings.load({})


def test_the_old_name_of_add() -> None:
    assert WebhookSettings.load({"honor_resources": True}).existing_mode == "add"
    assert WebhookSettings.load({"existing_resources": "skip"}).existing_mode == "skip"


@pytest.mark.parametrize(
    ("given", "first", "second"),
    [
        ({"client_ca": ("x",), "insecure": True}, "--client-ca", "--insecure"),
        ({"manifests": "x", "kubeconfig": "y"}, "--manifests", "--kubeconfig"),
        ({"manifests": "x", "context": "y"}, "--manifests", "--context"),
        ({"honor_resources": True, "existing_resources": "skip"}, "--honor-resources", "--existing-resources=skip"),
    ],
)
def test_options_that_exclude_each_other_are_named(given, first, second) -> None:
    with pytest.raises(UsageError) as caught:
        WebhookSettings.load(given)
    assert str(caught.value).startswith(f"{first} and {second} exclude each other: ")
    for name in given:
        WebhookSettings.load({name: given[name]})


def test_a_variable_excludes_a_flag_too(monkeypatch) -> None:
    monkeypatch.setenv("BERTH_CLIENT_CA", "x")
    with pytest.raises(UsageError, match=r"^--client-ca and --insecure exclude each other"):
        WebhookSettings.load({"insecure": True})
    assert WebhookSettings.load({"insecure": False}).client_ca == ("x",)


def test_an_answer_without_a_client_certificate_is_a_choice() -> None:
    assert WebhookSettings.load({}).client_ca == (SERVICE_ACCOUNT_CA,)
    assert WebhookSettings.load({}).insecure is False
