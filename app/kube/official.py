"""The parts of the official client that Berth uses, imported without the rest of it.

The package imports both its halves, discovery, streams and helpers as soon as any module of it is imported: ten MiB
and a quarter of the time of a start.

aiohttp reads all CAs of the system as soon as it is imported, for connections that are given no context: another two.
Every connection of ours to a server that shows a certificate is given one.
"""

from __future__ import annotations

from app.lean import unexecuted, without_authorities

with without_authorities():
    import aiohttp
with unexecuted("kubernetes", "kubernetes.aio"):
    from kubernetes.aio import config
    from kubernetes.aio.client import ApiClient, Configuration
    from kubernetes.aio.config import ConfigException
    from kubernetes.aio.config.openid import OpenIDRequestor

__all__ = ["ApiClient", "ConfigException", "Configuration", "OpenIDRequestor", "aiohttp", "config"]
