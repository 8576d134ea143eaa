"""Which attachments policies serve, and why the others are left to the webhook. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from app.kube.names import check_dns_label, check_dns_subdomain
from app.kube.resources import IMPLICIT_PREFIX, NETWORK_ATTACHMENTS
from app.networks.model import (
    Attachment,
    claim_source,
    opted_out,
    parse_node_selector,
    project,
    project_with_claims,
    resource_name,
    unrequestable,
)
from app.policies.leaving import MOST_LABELS
from app.policies.model import Left, Network, Terms
from app.text import quoted
from app.wire import JSON, mapping


def networks_in(attachments: Iterable[JSON], terms: Terms) -> tuple[list[Network], list[Left]]:
    """The networks that policies serve, sorted by key, and the attachments that are left, with their reasons.

    Of two attachments with the same namespace and name the last counts.
    """
    networks: dict[str, Network] = {}
    left: dict[str, Left] = {}
    for obj in attachments:
        project_as = project_with_claims if terms.claims else project
        attachment = project_as(obj, terms.resource_name_keys)
        networks.pop(attachment.key, None)
        left.pop(attachment.key, None)
        try:
            networks[attachment.key] = _network(attachment, obj, terms)
        except ValueError as error:
            left[attachment.key] = Left(f"{NETWORK_ATTACHMENTS.kind} {quoted(attachment.key)[1:-1]}", str(error))
    return [networks[key] for key in sorted(networks)], [left[key] for key in sorted(left)]


def _network(attachment: Attachment, obj: JSON, terms: Terms) -> Network:
    """Raises ValueError with the reason why policies do not serve it."""
    _check_names(attachment)
    annotations = mapping(mapping(obj.get("metadata")).get("annotations"))
    if terms.claims and (claim_source(annotations) or opted_out(annotations)):
        raise ValueError("its device comes by a claim, or not by Berth (--claims)")
    resources = attachment.resources
    if len(resources) > 1:
        raise ValueError(f"it names {len(resources)} resources; policies count one for each attachment")
    if any(map(unrequestable, resources)):
        raise ValueError(f"its resource {quoted(resources[0])} has no domain; the webhook warns about it")
    if terms.claims and any(IMPLICIT_PREFIX in resource for resource in resources):
        raise ValueError("its resource is that of a DeviceClass, which Pods name in several ways (--claims)")
    resource = resource_name(resources[0]) if resources else ""
    labels = parse_node_selector(attachment.node_selector)
    if len(labels) > MOST_LABELS:
        raise ValueError(f"its node selector has {len(labels)} labels; policies take up to {MOST_LABELS}")
    return Network(attachment.key, resource, labels)


def _check_names(attachment: Attachment) -> None:
    check_dns_label(attachment.namespace)
    check_dns_subdomain(attachment.name)
    if "." in attachment.name:
        raise ValueError("its name has dots, so Pods select it in the JSON form alone, which policies do not read")
