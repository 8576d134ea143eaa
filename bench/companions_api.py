"""An infra cluster's API server, a process of its own: the sandbox's, without a controller that moves its Pods."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
from pathlib import Path

import uvloop

from app.devtools.sandbox.server import Cluster


async def serve(kubeconfig: Path) -> None:
    """Until SIGTERM; the kubeconfig is there once requests are answered."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with Cluster("infra") as cluster:
        draft = kubeconfig.with_suffix(".draft")
        draft.write_text(cluster.kubeconfig())
        draft.rename(kubeconfig)
        await stop.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True, help="where to write it")
    given = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(serve(given.kubeconfig))


if __name__ == "__main__":
    main()
