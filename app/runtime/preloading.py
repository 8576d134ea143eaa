"""What the process imports from which workers are forked: importing this module prepares it.

Workers share the memory of what is imported here, so that a worker costs what it changes and what its caches hold. The
process itself runs no thread and no event loop, so that it can fork at any time.
"""

from __future__ import annotations

import app.logs

# isort: split
import gc
import os

from prometheus_client import multiprocess

import app.runtime.serving
import app.runtime.workers  # noqa: F401
from app.registry import WEBHOOK, WINGS, settings_of
from app.wiring import resolve

settings_of(WEBHOOK.name)
for wing in WINGS:
    if wing.parts and not wing.on:
        resolve(wing.parts)
# A signal to the group of the parent, as of a terminal, is the parent's: it passes on what workers have to do.
os.setpgid(0, 0)
# Gauges of this process would count as those of a worker.
multiprocess.mark_process_dead(os.getpid())  # type: ignore[no-untyped-call]  # the library has no types here
gc.collect()
# A collection in a worker would write to every object, and so copy the pages.
gc.freeze()
