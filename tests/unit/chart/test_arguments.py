"""The flags that the chart writes are read by the commands themselves."""

from __future__ import annotations

import shlex

import helm_python
import pytest

from app.certs.settings import CertificatesSettings
from app.devtools.clusters.node.arguments import confined, is_allowed_variable, refusal
from app.registry import ROLES
from app.registry import settings_of as role_settings
from app.settings.source import RoleSettings
from docs.generate.chart import camel
from tests.support.chart import JSON, Render, notes_of
from tests.support.chart_arguments import parsed, settings_of
from tests.support.chart_combinations import ALL, ARGS, COMBINATIONS

each_combination = pytest.mark.parametrize("values", COMBINATIONS.values(), ids=COMBINATIONS)


def _roles(render: Render, values: JSON) -> dict[str, RoleSettings]:
    rendered = render(values)
    roles = [obj["metadata"]["labels"]["app.kubernetes.io/component"] for obj in rendered.workloads()]
    return {role: settings_of(role, rendered.container(role)) for role in roles}


@each_combination
def test_every_roles_arguments_are_valid_settings(render: Render, values: JSON) -> None:
    for settings in _roles(render, values).values():
        assert settings.health_check_port == 8444
        assert settings.log_level == values.get("logLevel", "info")


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
        "certificates": {"namespace", "gateway", "gateway_dns", "gateway_address", "ui_service"},
        "ui": {"access", "port", "tls_cert_file", "tls_private_key_file"},
    }


def test_values_reach_the_settings(render: Render) -> None:
    """Lists and maps as the golden `args` has them."""
    found = _roles(render, ARGS)
    for role in ROLES:
        for field in (one.field for one in role.chart.arguments if not (one.source or one.text)):
            value = ARGS[role.name]["args"][camel(field)]
            assert value != role_settings(role.name).model_fields[field].default
            if not isinstance(value, list | dict):
                assert getattr(found[role.name], field) == value


def test_without_a_webhook_no_certificate_is_kept_for_one(render: Render) -> None:
    settings = _roles(render, COMBINATIONS["gateway alone"])["certificates"]
    assert isinstance(settings, CertificatesSettings)
    assert settings.webhook_service == ""
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
    notes = notes_of(chart, values)
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
