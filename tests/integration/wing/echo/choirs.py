"""The controller `choirs`: the status of a Choir says how many Echoes name it, and what they sing.

A key is a Choir. An Echo wakes the Choir that its spec names, and the one that it named before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from app.echo.needs import CHOIRS, ECHOES

from app.kube.conditions import Truth, set_condition, status_of
from app.kube.controller import Done, Result
from app.kube.kit import Kit, itself
from app.kube.store import Identity, Key, identity_of, key_of
from app.kube.writing import write_status
from app.settings.reconciling import ControllerContext
from app.text import abridged, utc_now
from app.wire import JSON


@dataclass(frozen=True, slots=True)
class Choir(Identity):
    """What the cache keeps of a Choir."""

    generation: int
    status: JSON


class Voice(NamedTuple):
    """What the cache keeps of an Echo that names a Choir of its namespace."""

    choir: Key
    text: str


def stored_choir(obj: JSON) -> Choir:
    return Choir(*identity_of(obj), obj["metadata"]["generation"], status_of(obj))


def stored_voice(obj: JSON) -> Voice | None:
    namespace, _ = key_of(obj)
    spec = obj.get("spec", {})
    return Voice((namespace, spec["choir"]), spec.get("text", "")) if spec.get("choir") else None


def choirs_of(_key: Key, old: Voice | None, new: Voice | None) -> set[Key]:
    """The Choirs of an Echo, before the change and after it."""
    return {voice.choir for voice in (old, new) if voice is not None}


def next_status(choir: Choir, voices: Iterable[Voice], *, now: datetime) -> JSON:
    """The status that a Choir with these voices has to have. Pure."""
    texts = sorted(voice.text for voice in voices)
    status: JSON = {**choir.status, "voices": len(texts), "text": abridged(" ".join(texts))}
    truth: Truth = "True" if texts else "False"
    reason = "VoicesHeard" if texts else "NoVoices"
    set_condition(status, "Singing", truth, reason, now=now, generation=choir.generation)
    return status


def build(context: ControllerContext) -> Kit:
    kit = context.kit()
    choirs = kit.cache(CHOIRS, stored_choir)
    voices = kit.cache(ECHOES, stored_voice, indices={"choir": lambda voice: (voice.choir,)}, called="Voice")

    async def reconcile(key: Key) -> Result:
        choir = choirs.get(*key)
        if choir is not None:
            status = next_status(choir, voices.by_index("choir", key), now=utc_now())
            if status != choir.status:
                await write_status(kit.client, CHOIRS, key, choir.uid, status)
        return Done()

    kit.reconcile("choirs", reconcile, keys=choirs.keys, wakes={choirs: itself, voices: choirs_of})
    return kit
