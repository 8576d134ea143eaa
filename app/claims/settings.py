"""What claims add to the settings of roles."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Literal

from pydantic import AfterValidator, AliasChoices, Field, field_validator

from app.claims.model import DEFINITIONS_NAME
from app.kube.names import check_annotation_key, check_dns_label, check_dns_subdomain
from app.networks.model import RESOURCE_NAME
from app.settings.source import RECONCILING, DnsLabel, DnsSubdomain, Flag, Items, RoleSettings
from app.text import quoted

PANEL = "Claims"


def _drivers(value: tuple[str, ...]) -> tuple[str, ...]:
    for name in value:
        check_dns_subdomain(name)
    return tuple(dict.fromkeys(value))


def _keys(value: tuple[str, ...]) -> tuple[str, ...]:
    for key in value:
        check_annotation_key(key)
    return tuple(dict.fromkeys(value))


Drivers = Annotated[Items, AfterValidator(_drivers)]


def _attachments(value: tuple[str, ...]) -> tuple[str, ...]:
    for text in value:
        namespace, slash, name = text.partition("/")
        if not slash:
            raise ValueError(f"want NAMESPACE/NAME of an attachment, got {quoted(text)}")
        check_dns_label(namespace)
        check_dns_subdomain(name)
    return tuple(dict.fromkeys(value))


def _ranges(value: tuple[str, ...]) -> tuple[str, ...]:
    for text in value:
        try:
            ip_network(text)
        except ValueError:
            raise ValueError(f"want a range of addresses such as 10.96.0.0/12, got {quoted(text)}") from None
    return value


class PublishingSettings(RoleSettings):
    """Which network data are published, and which addresses in these and in EndpointSlices. Times are in seconds.

    The two lists are flags and no annotations of attachments: their author could be a user of one namespace.
    """

    claims_drivers: Annotated[
        Drivers,
        Flag(
            "Comma list of the DRA drivers for whose devices network data are published", PANEL, default="every driver"
        ),
    ] = ()
    claims_conflict: Annotated[
        Literal["defer", "force"],
        Flag("Network data that another field manager owns: defer (keep it) or force (overwrite it)", PANEL),
    ] = "defer"
    claims_self_publishing: Annotated[
        Drivers, Flag("Comma list of drivers that publish their own network data; Berth does not change it", PANEL)
    ] = ("dra.net",)
    claims_repair_after: Annotated[
        float,
        Flag("Seconds after which Berth publishes network data that such a driver has not published; 0: never", PANEL),
    ] = Field(0.0, ge=0, allow_inf_nan=False)
    network_resource_name_keys: Annotated[
        Annotated[Items, AfterValidator(_keys)],
        Flag("Annotation keys on attachments that name a resource", PANEL, default="that of Multus"),
    ] = (RESOURCE_NAME,)
    default_network_namespace: Annotated[DnsLabel, Flag("Namespace of default networks that name none", PANEL)] = (
        "kube-system"
    )
    unconfined_networks: Annotated[
        Annotated[Items, AfterValidator(_attachments)],
        Flag(
            "Comma list of attachments, NAMESPACE/NAME, of which addresses are published although nothing says "
            "which subnets they have",
            PANEL,
        ),
    ] = ()
    excluded_ranges: Annotated[
        Annotated[Items, AfterValidator(_ranges)],
        Flag("Comma list of ranges of which no address is published, such as that of cluster IPs", PANEL),
    ] = ()

    @property
    def excluded(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The ranges, read."""
        return tuple(map(ip_network, self.excluded_ranges))

    @field_validator("network_resource_name_keys")
    @classmethod
    def _some(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return value or (RESOURCE_NAME,)


class TemplateSettings(RoleSettings):
    """Where the definitions of claims are."""

    claim_templates: Annotated[
        DnsSubdomain, Flag("ConfigMap with definitions of claims, in the role's namespace", PANEL)
    ] = DEFINITIONS_NAME


class AdmissionSettings(TemplateSettings):
    """Whether claims are reviewed and injected, and what becomes of network data that contradicts what is known."""

    claims: Annotated[
        bool,
        Flag("Review claims and networks as claims; the API server must serve resource.k8s.io/v1", PANEL),
    ] = False
    claims_deny_drivers: Annotated[
        Items,
        Flag(
            "DRA driver whose network data is refused if it contradicts the networks of its Pod; that of all others "
            "gets a warning (repeatable, or a list with commas)",
            PANEL,
            repeatable=True,
        ),
    ] = ()

    @field_validator("claims_deny_drivers")
    @classmethod
    def _denied(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Names of drivers have no case."""
        return tuple(check_dns_subdomain(driver.lower()) for driver in value)


class ControllerSettings(PublishingSettings, TemplateSettings):
    """What the controllers of the wing add to the role."""


class NodeSettings(PublishingSettings):
    """The settings of `berth claims-node`. Times are in seconds."""

    node_name: Annotated[
        DnsSubdomain, Flag("Name of the node that it runs on (required)", PANEL, default="$NODE_NAME")
    ] = Field("", validate_default=True, validation_alias=AliasChoices("BERTH_NODE_NAME", "NODE_NAME"))
    resync_seconds: Annotated[float, Flag("How often every Pod is looked at again", RECONCILING)] = Field(
        60.0, ge=1, allow_inf_nan=False
    )
