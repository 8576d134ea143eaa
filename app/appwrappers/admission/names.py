"""What is wrong with the name, labels and annotations of an AppWrapper. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from app.appwrappers.model import ANNOTATIONS, QUEUE_NAME, USER
from app.appwrappers.options import KNOWN, FaultTolerance, read_options
from app.kube.names import DNS_LABEL_LIMIT, check_dns_label, check_dns_subdomain
from app.text import closest, cut, quoted, several
from app.wire import JSON

MAX_EXEC_TIME = "kueue.x-k8s.io/max-exec-time-seconds"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
GENERATED = "abcde"
"""As what an API server puts behind `generateName`."""
_KEY = 317
"""Characters that the key of an annotation may have."""
_NEAR = 16
"""Keys that mean nothing for which the nearest one is looked for: each is compared with all that mean something."""
_KNOWN = {name.removeprefix(ANNOTATIONS): name for name in KNOWN}
_IN_OTHER_DOMAIN = {f"{USER.partition('/')[0]}/{short}": name for short, name in _KNOWN.items()}
"""The options behind the domain of the labels, by what is meant."""
_SECONDS = re.compile(r"0*[1-9][0-9]{0,9}", re.ASCII)


def name_problems(metadata: JSON, pod_sets: int) -> Iterator[str]:
    """The name has to stand in front of the number of each podSet, in a DNS label."""
    name, field = metadata.get("name"), "metadata.name"
    last = max(pod_sets - 1, 0)
    longest = DNS_LABEL_LIMIT - len(f"-{last}")
    if not name:
        begin, field = metadata.get("generateName"), "metadata.generateName"
        longest -= len(GENERATED)
        if not isinstance(begin, str) or not begin:
            return
        name = begin
    if not isinstance(name, str):
        return
    if len(name) > longest:
        yield (
            f"{field}: want at most {longest} characters, so that podSets can be called NAME-0 to NAME-{last}, "
            f"got {len(name)}: {quoted(name[:longest], longest)} fits"
        )
        return
    try:
        check_dns_label(f"{name}-{last}" if field == "metadata.name" else f"{name}x-{last}")
    except ValueError:
        yield (
            f"{field}: want lower-case letters, digits and '-', beginning with a letter or digit, so that podSets can "
            f"be called NAME-{last}, got {quoted(name)}"
        )


def label_problems(labels: JSON) -> Iterator[str]:
    """Kueue's rules of its labels."""
    queue = labels.get(QUEUE_NAME)
    if queue:
        try:
            check_dns_subdomain(str(queue))
        except ValueError as error:
            yield f"metadata.labels[{QUEUE_NAME}]: want the name of a LocalQueue: {error}"
    seconds = labels.get(MAX_EXEC_TIME)
    if seconds is not None and not _SECONDS.fullmatch(str(seconds)):
        yield f"metadata.labels[{MAX_EXEC_TIME}]: want a number of seconds above 0, got {quoted(str(seconds))}"


def annotation_warnings(annotations: JSON, defaults: FaultTolerance) -> Iterator[str]:
    """Annotations that mean nothing, with the nearest one that does, and values that are not used as they are."""
    texts = {key: value for key, value in annotations.items() if isinstance(value, str)}
    unknown = [key for key in texts if key.startswith(ANNOTATIONS) and key not in KNOWN]
    for key in unknown[:_NEAR]:
        meant = closest(key.removeprefix(ANNOTATIONS), _KNOWN)
        hint = f"; is {_KNOWN[meant]} meant?" if meant else ""
        yield f"metadata.annotations[{cut(key, _KEY)}]: has no meaning{hint}"
    rest = len(unknown) - _NEAR
    if rest > 0:
        yield f"metadata.annotations: {several(rest, 'more key')} below {ANNOTATIONS} without a meaning"
    for key in texts:
        if option := _IN_OTHER_DOMAIN.get(key):
            yield f"metadata.annotations[{cut(key, _KEY)}]: has no meaning; is {option} meant?"
    if texts.get(QUEUE_NAME):
        yield (
            f"metadata.annotations[{QUEUE_NAME}]: the form of AppWrapper v0.5: want a label of this name; without one, "
            "the label is written with the value of the annotation"
        )
    yield from read_options(texts, defaults).problems


def mapping(holder: Any, field: str) -> JSON:
    """The object in a field; an empty one where there is none."""
    member = holder.get(field) if isinstance(holder, dict) else None
    return member if isinstance(member, dict) else {}
