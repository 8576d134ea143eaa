"""The page of `berth ui` over the clusters of a sandbox. Until it is opened, it costs a socket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from app.devtools.clusters.sandbox import Whole
from app.doctor.aiming import Aim
from app.kube.transport import connect
from app.serving.listener import address, bind

_HOST = "127.0.0.1"
_BACKLOG = 16


@contextlib.asynccontextmanager
async def page_of(whole: Whole) -> AsyncIterator[str]:
    """The address of the page, while the block runs."""
    loop, opened, stop = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    with bind(_HOST, 0) as listener:
        listener.setblocking(False)
        listener.listen(_BACKLOG)
        loop.add_reader(listener, opened.set)

        async def serving() -> None:
            await opened.wait()
            loop.remove_reader(listener)
            # Imported when it is opened, with all wings: that takes as long as the start of a cluster.
            from app.ui.serving import Named, serve  # noqa: PLC0415
            from app.ui.visitors import OnLaptop  # noqa: PLC0415

            async with contextlib.AsyncExitStack() as stack:
                named = []
                for cluster in whole.clusters:
                    client = await stack.enter_async_context(await connect(kubeconfig=str(cluster.kubeconfig)))
                    named.append(Named(cluster.name, client, Aim(str(cluster.kubeconfig))))
                await serve(named, OnLaptop(), listener=listener, stop=stop)

        task = asyncio.create_task(serving())
        try:
            yield f"{address(listener, 'http')}/"
        finally:
            stop.set()
            if not opened.is_set():
                loop.remove_reader(listener)
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
