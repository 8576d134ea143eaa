"""Makes the official client verify the identity provider from which it fetches OIDC tokens.

Version 37.0 sends the client secret and the refresh token with verification switched off, unless the kubeconfig names
a CA. With a CA, it passes the CA's path where an SSL context is wanted. One override fixes both; the rest is the
client's own flow. Remove this module when upstream verifies.
"""

from __future__ import annotations

import ssl

import aiohttp
from kubernetes.aio.config import kube_config
from kubernetes.aio.config.openid import OpenIDRequestor


class VerifyingRequestor(OpenIDRequestor):
    """Trusts the CA that the kubeconfig names (`idp-certificate-authority-data`), else the system's."""

    def _get_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=self._ssl_ca_cert))


def verify_identity_providers() -> None:
    """Put the verifying requestor in the place where the official loader looks for its own."""
    kube_config.OpenIDRequestor = VerifyingRequestor  # type: ignore[attr-defined]  # imported there, not exported
