"""The parts of uvicorn that Berth uses, imported without the rest of it.

The package imports its command line, and what starts a server again where files change: two MiB.
"""

from __future__ import annotations

from app.lean import unexecuted

with unexecuted("uvicorn"):
    import uvicorn
    from uvicorn.config import Config

    uvicorn.Config = Config  # type: ignore[misc]  # where a module of its own looks for it
    from uvicorn.lifespan.off import LifespanOff  # a server imports it by its name, and with it the package
    from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
    from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
    from uvicorn.server import Server

__all__ = [
    "HIGH_WATER_LIMIT",
    "STATUS_LINE",
    "Config",
    "HttpToolsProtocol",
    "LifespanOff",
    "RequestResponseCycle",
    "Server",
]
