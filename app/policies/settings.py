"""The settings of the controller `policies`, and its configuration: a ConfigMap, which the chart writes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, get_args

from app.errors import UsageError
from app.kube.configuration import yaml_in
from app.networks.settings import NetworksSettings, Switches, parse_switches
from app.policies.model import PolicyMode, Terms
from app.policies.terms import CHECKING, Checked, charted, terms_of
from app.registry import settings_of
from app.settings.source import DnsLabel, DnsSubdomain, Flag, RoleSettings, settings_as
from app.text import quoted
from app.wire import JSON

Mode = Literal["webhook", "policies", "both"]
"""The chart's value `mode`: with `webhook` there are no policies."""
KEY = "policies.yaml"
_PANEL = "Policies"
_COUNTING = (
    *NetworksSettings.model_fields,
    "claims",
    "rmd_backend",
    "confine_tenants",
    "injected_annotation",
)
"""The flags of the webhook that its policies depend on. The chart may name more."""


class ControllerSettings(RoleSettings):
    """Where the configuration is, and what the policies are named after."""

    policies_config: Annotated[
        DnsSubdomain, Flag("ConfigMap with the mode and the flags of the webhook, in the role's namespace", _PANEL)
    ] = "berth-policies"
    policies_name: Annotated[
        DnsLabel,
        Flag("What the names of policies begin with, and the name of the MutatingWebhookConfiguration", _PANEL),
    ] = "berth"
    policies_owner: Annotated[
        DnsSubdomain,
        Flag("ClusterRole that owns the policies: the API server deletes them with it, as helm uninstall does", _PANEL),
    ] = "berth-controller"


@dataclass(frozen=True, slots=True)
class Config:
    """What the ConfigMap says: the mode, the settings of the webhook, and how the chart registers it.

    `registration` is that for Pods, `attachments` the other one.
    """

    mode: Mode
    webhook: RoleSettings
    registration: JSON | None = None
    attachments: Checked = None

    def switches(self, text: str | None, previous: Switches) -> Switches:
        """The control switches, of which `text` is what their ConfigMap says."""
        initial = settings_as(self.webhook, NetworksSettings).initial_switches
        return parse_switches(text, initial=initial, previous=previous)

    def terms(self, switches: Switches, *, name: str, registered: JSON | None, namespace: str) -> Terms:
        """With `both` those of the webhook as it is registered, else as the chart would register it."""
        entry = (registered if self.mode == "both" else None) or self.registration
        entry = entry or charted(self.webhook.model_dump(), switches, namespace=namespace)
        checked = self.attachments
        if checked is None:
            checked = charted(self.webhook.model_dump(), switches, namespace=namespace, name=CHECKING)
        mode: PolicyMode = "both" if self.mode == "both" else "policies"
        return replace(terms_of(self.webhook, switches, registered=entry, checked=checked, mode=mode), name=name)


def parse_config(config_map: JSON) -> Config:
    """Raises ValueError that says which entry is wrong, and what would be right."""
    content = yaml_in(str((config_map.get("data") or {}).get(KEY) or ""), KEY)
    if not isinstance(content, dict):
        raise ValueError(f"data[{KEY}]: want a map with the key mode")  # noqa: TRY004  what callers expect
    mode: Mode | None = next((mode for mode in get_args(Mode) if mode == content.get("mode")), None)
    if mode is None:
        got = quoted(str(content.get("mode")))
        raise ValueError(f"data[{KEY}].mode: want one of {', '.join(get_args(Mode))}, got {got}")
    registration = content.get("registration")
    if registration is not None and not isinstance(registration, dict):
        raise ValueError(f"data[{KEY}].registration: want a map, as an entry of a MutatingWebhookConfiguration")
    attachments = content.get("attachments")
    if attachments is not None and attachments is not False and not isinstance(attachments, dict):
        raise ValueError(
            f"data[{KEY}].attachments: want false, or a map as an entry of a ValidatingWebhookConfiguration"
        )
    return Config(mode, _webhook(content.get("webhook") or {}), registration, attachments)


def _webhook(values: Any) -> RoleSettings:
    """The settings of a webhook with these values below `webhook.args` of the chart."""
    if not isinstance(values, Mapping):
        raise ValueError(f"data[{KEY}].webhook: want a map, as webhook.args of the chart")  # noqa: TRY004
    given = {
        _field(key): ",".join(map(str, value)) if isinstance(value, list) else value for key, value in values.items()
    }
    counting = {field: value for field, value in given.items() if field in _COUNTING}
    try:
        return settings_of("webhook").load({"manifests": None, **counting}, environment=False)
    except UsageError as error:
        raise ValueError(f"data[{KEY}].webhook: {error}") from error


def _field(key: str) -> str:
    return re.sub("([A-Z])", r"_\1", key).lower()
