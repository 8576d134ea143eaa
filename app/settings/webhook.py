"""What `berth webhook` is told.

The flag names are those of Network Resources Injector where it has the same; what only its tests or logs used is
accepted and ignored.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AliasChoices, Field, field_validator, model_validator
from pydantic_settings import NoDecode

from app.kube.names import check_annotation_key, check_dns_label
from app.networks.switches import Switches
from app.networks.webhook import NetworksOptions
from app.settings.placement import PlacementSettings
from app.settings.source import Port, comma_list, load_role, not_empty

SERVICE_ACCOUNT_CA = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"

ExistingResources = Literal["top-up", "skip", "add"]
SelectorConflict = Literal["override", "deny"]


class WebhookSettings(PlacementSettings):
    """Everything `berth webhook` is told. Times are in seconds; port 0 takes a free port, which the log names."""

    port: Port = 8443
    tls_cert_file: str = "cert.pem"
    tls_private_key_file: str = "key.pem"
    tls_min_version: str = ""
    tls_cipher_suites: str = ""
    tls_curve_preferences: str = ""
    enable_http2: bool = False
    insecure: bool = False
    client_ca: Annotated[tuple[str, ...], NoDecode] = (SERVICE_ACCOUNT_CA,)
    certificate_poll_seconds: float = Field(default=10.0, gt=0, allow_inf_nan=False)

    manifests: str | None = None
    # NAMESPACE is the name that Network Resources Injector's Deployment sets; it needs no prefix.
    namespace: str = Field(default="kube-system", validation_alias=AliasChoices("BERTH_NAMESPACE", "NAMESPACE"))

    network_resource_name_keys: str = "k8s.v1.cni.cncf.io/resourceName"
    inject_hugepage_down_api: bool = False
    honor_resources: bool = False
    existing_resources: ExistingResources = "top-up"
    node_selector_conflict: SelectorConflict = "override"
    default_network_namespace: str = "kube-system"

    confine_tenants: bool = False
    events: bool = True

    workers: int = Field(default=1, ge=1, le=64)
    deadline_seconds: float = Field(default=8.0, gt=0, le=30)
    drain_seconds: float = Field(default=5.0, ge=0, le=600)

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

    @field_validator("client_ca", mode="before")
    @classmethod
    def _files(cls, value: object) -> object:
        return comma_list(value) or (SERVICE_ACCOUNT_CA,)

    @field_validator("tenant_node_label")
    @classmethod
    def _some_label(cls, value: str) -> str:
        if not value:
            raise ValueError("want a label; to confine nobody, leave out --confine-tenants")
        return value

    @field_validator("namespace", "default_network_namespace")
    @classmethod
    def _namespace(cls, value: str) -> str:
        return check_dns_label(value)

    @field_validator("tls_cert_file", "tls_private_key_file", "manifests")
    @classmethod
    def _not_empty(cls, value: str | None) -> str | None:
        return value if value is None else not_empty(value)

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
        if self.manifests is not None and self.confine_tenants:
            raise ValueError("--confine-tenants needs a cluster: manifests do not say whose a namespace is")
        if self.honor_resources and self.existing_resources == "skip":
            raise ValueError("--honor-resources means --existing-resources=add; it contradicts skip")
        return self


def load(given: dict[str, object], *, environment: bool = True) -> WebhookSettings:
    """The settings of a webhook; see `load_role`."""
    return load_role(WebhookSettings, given, environment=environment)
