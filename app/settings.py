"""The one reader of flags, environment and defaults of the webhook role.

A flag beats its environment variable (`BERTH_` and the field's name; lists with commas; empty counts as unset), which
beats the default. The flag names are those of Network Resources Injector where it has the same; what only its tests or
logs used is accepted and ignored.
"""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from app.errors import UsageError
from app.kube.names import check_annotation_key, check_dns_label
from app.networks.switches import Switches
from app.networks.webhook import NetworksOptions

SERVICE_ACCOUNT_CA = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"

ExistingResources = Literal["top-up", "skip", "add"]
SelectorConflict = Literal["override", "deny"]


def _port(value: int) -> int:
    if value != 0 and not 1024 <= value <= 65535:
        raise ValueError("invalid port number. Choose between 1024 and 65535")
    return value


Port = Annotated[int, AfterValidator(_port)]


class _Environment(EnvSettingsSource):
    """The environment without what Kubernetes puts there by itself.

    For a Service named `berth`, every Pod beside it gets BERTH_PORT=tcp://10.0.0.1:443, which is no port of ours.
    """

    def __call__(self) -> dict[str, Any]:
        found = super().__call__()
        return {name: value for name, value in found.items() if not _is_service_link(value)}


def _is_service_link(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("tcp://", "udp://", "sctp://"))


class WebhookSettings(BaseSettings):
    """Everything `berth webhook` is told. Times are in seconds; port 0 takes a free port, which the log names."""

    model_config = SettingsConfigDict(
        env_prefix="BERTH_", extra="forbid", frozen=True, populate_by_name=True, env_ignore_empty=True
    )

    bind_address: str = "0.0.0.0"  # noqa: S104  a webhook serves the cluster's network
    port: Port = 8443
    health_check_port: Port = 8444
    tls_cert_file: str = "cert.pem"
    tls_private_key_file: str = "key.pem"
    tls_min_version: str = ""
    tls_cipher_suites: str = ""
    tls_curve_preferences: str = ""
    enable_http2: bool = False
    insecure: bool = False
    client_ca: Annotated[tuple[str, ...], NoDecode] = (SERVICE_ACCOUNT_CA,)
    certificate_poll_seconds: float = Field(default=10.0, gt=0, allow_inf_nan=False)

    kubeconfig: str | None = None
    context: str | None = None
    manifests: str | None = None
    # NAMESPACE is the name that Network Resources Injector's Deployment sets; it needs no prefix.
    namespace: str = Field(default="kube-system", validation_alias=AliasChoices("BERTH_NAMESPACE", "NAMESPACE"))

    network_resource_name_keys: str = "k8s.v1.cni.cncf.io/resourceName"
    inject_hugepage_down_api: bool = False
    honor_resources: bool = False
    existing_resources: ExistingResources = "top-up"
    node_selector_conflict: SelectorConflict = "override"
    default_network_namespace: str = "kube-system"

    workers: int = Field(default=1, ge=1, le=64)
    deadline_seconds: float = Field(default=8.0, gt=0, le=30)
    drain_seconds: float = Field(default=5.0, ge=0, le=600)
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @property
    def resource_name_keys(self) -> tuple[str, ...]:
        """The annotation keys on attachments that name a resource, in the order given."""
        return tuple(key.strip() for key in self.network_resource_name_keys.split(","))

    @property
    def existing_mode(self) -> ExistingResources:
        """`--honor-resources` is the old name of `--existing-resources=add`."""
        return "add" if self.honor_resources else self.existing_resources

    @property
    def networks_options(self) -> NetworksOptions:
        """What the networks wing is told; the same for the webhook and for whoever explains it."""
        return NetworksOptions(
            resource_name_keys=self.resource_name_keys,
            existing_resources=self.existing_mode,
            node_selector_conflict=self.node_selector_conflict,
            default_network_namespace=self.default_network_namespace,
        )

    @property
    def initial_switches(self) -> Switches:
        """What is turned on without the ConfigMap of control switches."""
        return Switches(
            hugepage_down_api=self.inject_hugepage_down_api,
            # None leaves the choice between top-up and skip to the option.
            honor_existing=True if self.existing_mode == "add" else None,
        )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003  the signature is the library's
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, _Environment(settings_cls)

    @field_validator("client_ca", mode="before")
    @classmethod
    def _comma_list(cls, value: object) -> object:
        if isinstance(value, str):
            value = tuple(item.strip() for item in value.split(",") if item.strip())
        return value or (SERVICE_ACCOUNT_CA,)

    @field_validator("namespace", "default_network_namespace")
    @classmethod
    def _namespace(cls, value: str) -> str:
        return check_dns_label(value)

    @field_validator("bind_address", "tls_cert_file", "tls_private_key_file", "manifests")
    @classmethod
    def _not_empty(cls, value: str | None) -> str | None:
        if value == "":
            raise ValueError("want a value, got an empty string")
        return value

    @field_validator("network_resource_name_keys")
    @classmethod
    def _keys(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("Input argument for resourceName cannot be empty.")
        for key in value.split(","):
            check_annotation_key(key.strip())
        return value

    @model_validator(mode="after")
    def _together(self) -> WebhookSettings:
        if self.port == self.health_check_port != 0:
            raise ValueError("Health check port should be different from port")
        if self.manifests is not None and self.kubeconfig is not None:
            raise ValueError("--manifests and --kubeconfig exclude each other: attachments come from one place")
        if self.honor_resources and self.existing_resources == "skip":
            raise ValueError("--honor-resources means --existing-resources=add; it contradicts skip")
        return self


class _FlagsAlone(WebhookSettings):
    """The settings of a webhook that somebody else starts: the environment is that of the other's user."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


def load(given: dict[str, object], *, environment: bool = True) -> WebhookSettings:
    """The settings from the flags that were given, the environment (unless that is left out) and the defaults.

    Raises UsageError with one line that names each flag that is wrong.
    """
    try:
        return (WebhookSettings if environment else _FlagsAlone)(**given)  # type: ignore[arg-type]  # pydantic checks what Typer parsed
    except ValidationError as error:
        lines = [_line(item["loc"], item["msg"], given) for item in error.errors(include_url=False)]
        raise UsageError("; ".join(lines)) from error


def flag_of(field: str) -> str:
    """The flag of a field, as the user types it."""
    return "--injectHugepageDownApi" if field == "inject_hugepage_down_api" else f"--{field.replace('_', '-')}"


def _line(location: tuple[int | str, ...], message: str, given: dict[str, object]) -> str:
    """One mistake, under the name by which the user gave the value: the flag or the environment variable."""
    text = message.removeprefix("Value error, ")
    if not location:
        return text
    name = str(location[0]).lower().removeprefix("berth_")
    if name in given:
        return f"{flag_of(name)}: {text}"
    variable = f"BERTH_{name.upper()}"
    return f"{'NAMESPACE' if name == 'namespace' and variable not in os.environ else variable}: {text}"
