"""The fields of the built-in kinds and how they merge, as the OpenAPI of Kubernetes 1.30 to 1.37 describes them.

`openapi.json` is generated (`make generate`) and read once, when it is first needed.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import msgspec

Shape = Any
"""The name of a type, `[shape]` for a list, `{"*": shape}` for a map, `*` for anything, or the letter of a scalar.

`s` string, `t` and `u` times in seconds and in microseconds, `y` bytes in base64, `b` bool, `i` and `l` integers of 32
and 64 bits, `q` quantity, `x` integer or string.
"""


class Tables(msgspec.Struct, frozen=True):
    """`types`: the shapes of the fields of each type; a kind is a type.

    `merge`: how fields merge, where they do not merge as their shape says (a map by its fields, a list not at all):
    the keys of a list's elements (none for a set), or null for a value that server-side apply takes whole; the key in
    a strategic merge patch ("" for scalars), or null for a list that is replaced; whether elements are taken whole.
    """

    types: dict[str, dict[str, Shape]]
    merge: dict[str, dict[str, tuple[tuple[str, ...] | None, str | None, bool]]]


@cache
def tables() -> Tables:
    return msgspec.json.decode(resources.files("app.kinds").joinpath("openapi.json").read_bytes(), type=Tables)


def is_built_in(group: str) -> bool:
    """Whether all kinds of the API group are Kubernetes' own: it has no domain, or one below `k8s.io`."""
    return "." not in group or group.endswith(".k8s.io")


def fields_of(name: str) -> dict[str, Shape]:
    """The fields of a type, in the form of a shape: of a type that is not in the tables, a map of anything."""
    return tables().types.get(name, {"*": "*"})


def type_of(api_version: object, kind: str) -> str:
    """The name of the type of a kind in the tables: the kind, but where others have kinds of this name too."""
    group, slash, version = str(api_version or "").rpartition("/")
    if not slash:
        return kind
    qualified = f"{group.partition('.')[0]}.{version}.{kind}"
    return qualified if qualified in tables().types else kind
