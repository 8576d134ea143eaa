"""The names of the Secrets with the certificates of a gateway."""

from __future__ import annotations

CA_SECRET = "berth-gateway-ca"  # noqa: S105 - the name of an object
SERVING_SECRET = "berth-gateway-tls"  # noqa: S105 - the name of an object
ADMIN_SECRET = "berth-cloud-admin"  # noqa: S105 - the name of an object
