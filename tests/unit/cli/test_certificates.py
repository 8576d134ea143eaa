"""`berth certificates` and the controller's grants as they are told: flags, environment, one-line mistakes."""

from __future__ import annotations

import os

import pytest

from app.cli.main import run
from app.errors import UsageError
from app.registry import settings_of

ControllerSettings = settings_of("controller")
CertificatesSettings = settings_of("certificates")

GRANT = "berth-controller-tenants=berth/berth-controller"


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """No variable of the machine that runs the tests counts."""
    for name in list(os.environ):
        if name.upper().startswith("BERTH_") or name == "NAMESPACE":
            monkeypatch.delenv(name)


def test_what_is_told_nothing_keeps_the_webhooks_certificate() -> None:
    settings = CertificatesSettings.load({})
    assert settings.namespace == "universe"
    assert (settings.webhook_service, settings.webhook_secret) == ("berth-webhook", "berth-webhook-tls")
    assert (settings.configuration, settings.days, settings.ca_days) == (("berth",), 365, 3650)
    assert settings.authority_options is None


def test_what_is_told_reaches_both(monkeypatch) -> None:
    monkeypatch.setenv("NAMESPACE", "berth")
    monkeypatch.setenv("BERTH_CONFIGURATION", "one, two,one")
    given = {"gateway": True, "gateway_service": "gw", "gateway_dns": ["a.example"], "gateway_address": ["10.0.0.1"]}
    settings = CertificatesSettings.load(
        given | {"days": 30, "ca_days": 90, "webhook_service": "w", "webhook_secret": "s"}
    )
    gateway = settings.authority_options
    assert gateway is not None
    assert (settings.namespace, settings.webhook_service, settings.webhook_secret) == ("berth", "w", "s")
    assert settings.configuration == ("one", "two")
    assert (gateway.namespace, gateway.service, gateway.dns, gateway.addresses) == (
        *("berth", "gw", ("a.example",)),
        ("10.0.0.1",),
    )
    assert (settings.days, settings.ca_days) == (gateway.days, gateway.authority_days) == (30, 90)


def test_without_a_webhook_the_gateways_are_kept_alone() -> None:
    settings = CertificatesSettings.load({"webhook_service": "", "gateway": True})
    assert settings.authority_options is not None


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"webhook_service": ""}, "nothing to keep: want --webhook-service, --ui-service or --gateway"),
        ({"webhook_service": "No Name"}, "--webhook-service: 'No Name' is not a valid name"),
        ({"webhook_secret": ""}, "--webhook-secret: "),
        ({"configuration": []}, "--configuration: want at least one name"),
        ({"configuration": ["A"]}, "--configuration: 'A' is not a valid name"),
        ({"namespace": "A"}, "--namespace: 'A' is not a valid name"),
        ({"gateway_service": ""}, "--gateway-service: "),
        ({"gateway_dns": ["UPPER"]}, "--gateway-dns: 'UPPER' is not a DNS name"),
        ({"gateway_address": ["1.2"]}, "--gateway-address: '1.2' is not an IP address"),
        ({"days": 0}, "--days: "),
        ({"ca_days": 40_000}, "--ca-days: "),
        ({"resync_seconds": 0.5}, "--resync-seconds: "),
    ],
)
def test_a_wrong_value_is_one_line_that_names_the_flag(given, line) -> None:
    with pytest.raises(UsageError) as caught:
        CertificatesSettings.load(given)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dashes", ["-", "--"])
def test_a_mistake_on_the_command_line_is_status_2(capsys, dashes: str) -> None:
    assert run(["certificates", f"{dashes}webhook-service=", f"{dashes}no-gateway"]) == 2
    assert capsys.readouterr().err == "Error: nothing to keep: want --webhook-service, --ui-service or --gateway\n"
    assert run(["certs", "unregister", "--service", "no-slash"]) == 2
    assert capsys.readouterr().err == "Error: --service: want NAMESPACE/NAME, got 'no-slash'\n"


def test_grants_are_told_by_flags_or_a_list(monkeypatch) -> None:
    assert ControllerSettings.load({}).grants == ()
    (grant,) = ControllerSettings.load({"namespace_grant": [GRANT]}).grants
    assert grant.name == grant.fields["roleRef"]["name"] == "berth-controller-tenants"
    assert grant.fields["subjects"] == [{"kind": "ServiceAccount", "name": "berth-controller", "namespace": "berth"}]
    monkeypatch.setenv("BERTH_NAMESPACE_GRANT", f"{GRANT}, other=berth/x")
    assert [grant.name for grant in ControllerSettings.load({}).grants] == ["berth-controller-tenants", "other"]


@pytest.mark.parametrize(
    ("grants", "words"),
    [
        (["role"], "--namespace-grant: want CLUSTERROLE=NAMESPACE/SERVICEACCOUNT, got 'role'"),
        (["role=NS/x"], "--namespace-grant: want CLUSTERROLE=NAMESPACE/SERVICEACCOUNT: 'NS' is not a valid name"),
        (["role=ns/x", "role=ns/y"], "--namespace-grant: one ClusterRole is given to two ServiceAccounts"),
    ],
)
def test_a_wrong_grant_is_one_line(grants, words) -> None:
    with pytest.raises(UsageError) as caught:
        ControllerSettings.load({"namespace_grant": grants})
    assert str(caught.value).startswith(words)
