from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Origin(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ORIGIN_UNSPECIFIED: _ClassVar[Origin]
    ORIGIN_RULE: _ClassVar[Origin]
    ORIGIN_RESOURCE: _ClassVar[Origin]
ORIGIN_UNSPECIFIED: Origin
ORIGIN_RULE: Origin
ORIGIN_RESOURCE: Origin

class ResourceType(_message.Message):
    __slots__ = ("api_version", "kind")
    API_VERSION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    api_version: str
    kind: str
    def __init__(self, api_version: _Optional[str] = ..., kind: _Optional[str] = ...) -> None: ...

class ResourceObject(_message.Message):
    __slots__ = ("obj_spec",)
    OBJ_SPEC_FIELD_NUMBER: _ClassVar[int]
    obj_spec: bytes
    def __init__(self, obj_spec: _Optional[bytes] = ...) -> None: ...

class ResourceId(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class CreateRequest(_message.Message):
    __slots__ = ("type", "obj", "owner")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    OBJ_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    type: ResourceType
    obj: ResourceObject
    owner: str
    def __init__(self, type: _Optional[_Union[ResourceType, _Mapping]] = ..., obj: _Optional[_Union[ResourceObject, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class CreateResponse(_message.Message):
    __slots__ = ("obj",)
    OBJ_FIELD_NUMBER: _ClassVar[int]
    obj: ResourceObject
    def __init__(self, obj: _Optional[_Union[ResourceObject, _Mapping]] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("type", "id")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    type: ResourceType
    id: ResourceId
    def __init__(self, type: _Optional[_Union[ResourceType, _Mapping]] = ..., id: _Optional[_Union[ResourceId, _Mapping]] = ...) -> None: ...

class GetResponse(_message.Message):
    __slots__ = ("obj",)
    OBJ_FIELD_NUMBER: _ClassVar[int]
    obj: ResourceObject
    def __init__(self, obj: _Optional[_Union[ResourceObject, _Mapping]] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("type", "owner")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    type: ResourceType
    owner: str
    def __init__(self, type: _Optional[_Union[ResourceType, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ("objects",)
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    objects: _containers.RepeatedCompositeFieldContainer[ResourceObject]
    def __init__(self, objects: _Optional[_Iterable[_Union[ResourceObject, _Mapping]]] = ...) -> None: ...

class UpdateRequest(_message.Message):
    __slots__ = ("type", "obj", "owner")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    OBJ_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    type: ResourceType
    obj: ResourceObject
    owner: str
    def __init__(self, type: _Optional[_Union[ResourceType, _Mapping]] = ..., obj: _Optional[_Union[ResourceObject, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class UpdateResponse(_message.Message):
    __slots__ = ("obj",)
    OBJ_FIELD_NUMBER: _ClassVar[int]
    obj: ResourceObject
    def __init__(self, obj: _Optional[_Union[ResourceObject, _Mapping]] = ...) -> None: ...

class DeleteRequest(_message.Message):
    __slots__ = ("type", "id")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    type: ResourceType
    id: ResourceId
    def __init__(self, type: _Optional[_Union[ResourceType, _Mapping]] = ..., id: _Optional[_Union[ResourceId, _Mapping]] = ...) -> None: ...

class DeleteResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PodSummary(_message.Message):
    __slots__ = ("name", "uid", "origin", "rule", "workload_id", "phase", "node_name", "ready", "manifest", "status")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    name: str
    uid: str
    origin: Origin
    rule: str
    workload_id: str
    phase: str
    node_name: str
    ready: bool
    manifest: bytes
    status: bytes
    def __init__(self, name: _Optional[str] = ..., uid: _Optional[str] = ..., origin: _Optional[_Union[Origin, str]] = ..., rule: _Optional[str] = ..., workload_id: _Optional[str] = ..., phase: _Optional[str] = ..., node_name: _Optional[str] = ..., ready: _Optional[bool] = ..., manifest: _Optional[bytes] = ..., status: _Optional[bytes] = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("pod", "deleted", "synced")
    POD_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    SYNCED_FIELD_NUMBER: _ClassVar[int]
    pod: PodSummary
    deleted: str
    synced: bool
    def __init__(self, pod: _Optional[_Union[PodSummary, _Mapping]] = ..., deleted: _Optional[str] = ..., synced: _Optional[bool] = ...) -> None: ...
