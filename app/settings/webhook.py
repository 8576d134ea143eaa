"""The settings of `berth webhook`.

The flag names are those of Network Resources Injector where it has the same flag. A flag that only its tests or logs
used is accepted and ignored.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AliasChoices, Field, field_validator, model_validator
from pydantic_settings import NoDecode

from app.kube.names import check_annotation_key, check_dns_label
from app.networks.switches import Switches
from app.networks.webhook import NetworksOptions
from app.placement.model import TENANT_LABEL
from app.settings.flags import LOGS, PLACEMENT, SERVING, TLS, Flag
from app.settings.placement import PlacementSettings
from app.settings.source import Port, comma_list, not_empty

SERVICE_ACCOUNT_CA = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"

_SOURCE, _INJECTION = "Attachments", "Injection"

ExistingResources = Literal["top-up", "skip", "add"]
SelectorConflict = Literal["override", "deny"]


class WebhookSettings(PlacementSettings):
    """Everything `berth webhook` is told. Times are in seconds; port 0 takes a free port, which the log names."""

    port: Annotated[Port, Flag("TLS port", SERVING)] = 8443
    workers: Annotated[int, Flag("Worker processes", SERVING)] = Field(1, ge=1, le=64)
    deadline_seconds: Annotated[float, Flag("Longest time for one review", SERVING)] = Field(8.0, gt=0, le=30)
    drain_seconds: Annotated[float, Flag("How long to serve on after SIGTERM, unready", SERVING)] = Field(
        5.0, ge=0, le=600
    )
    events: Annotated[bool, Flag("Record an Event on the owner of a denied Pod", SERVING)] = True

    tls_cert_file: Annotated[str, Flag("Serving certificate, PEM", TLS)] = "cert.pem"
    tls_private_key_file: Annotated[str, Flag("Its private key, PEM", TLS)] = "key.pem"
    insecure: Annotated[bool, Flag("Do not ask the API server for a client certificate", TLS)] = False
    client_ca: Annotated[
        tuple[str, ...],
        NoDecode,
        Flag("CA of client certificates; repeatable", TLS, default="the service account's CA", repeatable=True),
    ] = (SERVICE_ACCOUNT_CA,)
    certificate_poll_seconds: Annotated[float, Flag("How often the TLS files are looked at", TLS)] = Field(
        10.0, gt=0, allow_inf_nan=False
    )
    tls_min_version: Annotated[str, Flag("VersionTLS12 or VersionTLS13", TLS, default="VersionTLS12")] = ""
    tls_cipher_suites: Annotated[str, Flag("Comma list of IANA cipher names", TLS)] = ""
    tls_curve_preferences: Annotated[str, Flag("Comma list of IANA curve numbers", TLS)] = ""
    enable_http2: Annotated[bool, Flag("Accepted; Berth speaks HTTP/1.1 only", TLS)] = False

    manifests: Annotated[
        str | None, Flag("Directory of YAML files instead of a cluster, reloaded on change", _SOURCE)
    ] = None
    # NAMESPACE is the name that Network Resources Injector's Deployment sets; it needs no prefix.
    namespace: Annotated[str, Flag("Namespace Berth runs in", _SOURCE, default="$NAMESPACE or kube-system")] = Field(
        "kube-system", validation_alias=AliasChoices("BERTH_NAMESPACE", "NAMESPACE")
    )

    network_resource_name_keys: Annotated[
        str, Flag("Annotation keys on attachments that name a resource", _INJECTION)
    ] = "k8s.v1.cni.cncf.io/resourceName"
    existing_resources: Annotated[ExistingResources, Flag("top-up, skip or add what Pods ask for", _INJECTION)] = (
        "top-up"
    )
    honor_resources: Annotated[bool, Flag("Same as --existing-resources=add", _INJECTION)] = False
    inject_hugepage_down_api: Annotated[
        bool,
        Flag("Publish hugepage requests and limits in /etc/podnetinfo", _INJECTION, names=("--injectHugepageDownApi",)),
    ] = False
    node_selector_conflict: Annotated[
        SelectorConflict, Flag("override (with a warning) or deny a Pod whose own value differs", _INJECTION)
    ] = "override"
    default_network_namespace: Annotated[
        str, Flag("Where default networks without a namespace are looked up", _INJECTION)
    ] = "kube-system"

    confine_tenants: Annotated[
        bool, Flag("Keep Pods in tenants' namespaces on the tenants' DPUs; reads namespaces", PLACEMENT, default="off")
    ] = False
    tenant_node_label: Annotated[str, Flag("Label of DPU nodes that names their tenant", PLACEMENT)] = TENANT_LABEL
    verbosity: Annotated[int, Flag("4 and more mean --log-level debug", LOGS, names=("-v", "--v"), default="")] = 0

    @property
    def level(self) -> str:
        """The lowest level that is logged."""
        return "debug" if self.verbosity >= 4 and "log_level" not in self.model_fields_set else self.log_level

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
        """The options of the package `networks`; `berth explain` uses the same ones as the webhook."""
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
            raise ValueError("want a label; to turn confinement off, leave out --confine-tenants")
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
