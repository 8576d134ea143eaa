"""The verdict on keys of labels and annotations that are nearly those that Berth or Multus read, as explain warns."""

from __future__ import annotations

from datetime import datetime

from app.doctor import commands
from app.doctor.catalog import FINDINGS, plain
from app.doctor.objects import Object
from app.explain.keys import near_key
from app.kube.resources import PODS
from app.networks.why.makers import maker_of, owner_of
from app.why.model import Asking, Verdict, stuck

CODE = "BERTH1210"


def judge_keys(it: Object, _now: datetime) -> Asking[Verdict | None]:
    """That a key is not read, and which one was probably meant; None where there is none."""
    metadata = it.json["metadata"]
    clauses = [
        plain(f"{part} {key} is not read; did you mean {meant}?")
        for part in ("annotation", "label")
        for key in metadata.get(f"{part}s") or {}
        if (meant := near_key(key))
    ]
    if not clauses or metadata.get("deletionTimestamp"):
        return None
    exists, fix, next_step = bool(metadata.get("uid")), "", "correct the key, then create it"
    if it.resource == PODS and (exists or owner_of(it.json).kind != PODS.kind):
        owner = yield from maker_of(it.json)
        fix, next_step = owner.edit(), owner.change("correct the key")
    elif exists:
        fix, next_step = commands.edit(it.resource, it.name, namespace=it.namespace), "correct the key"
    text, so = "has a key that nothing reads", FINDINGS[CODE].consequence
    return stuck(text, because=tuple(clauses), so=so, fix=fix, next=next_step, codes=(CODE,))
