"""The parts of the official client that Berth uses, imported without the rest of it.

The package imports both its halves, discovery, streams and helpers as soon as any module of it is imported: ten MiB
and a quarter of the time of a start.
"""

from __future__ import annotations

from app.lean import unexecuted

with unexecuted("kubernetes", "kubernetes.aio"):
    from kubernetes.aio import config
    from kubernetes.aio.client import ApiClient, Configuration
    from kubernetes.aio.config import ConfigException
    from kubernetes.aio.config.openid import OpenIDRequestor

__all__ = ["ApiClient", "ConfigException", "Configuration", "OpenIDRequestor", "config"]
