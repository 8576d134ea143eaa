from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OrchestratorType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ORCHESTRATOR_TYPE_UNSPECIFIED: _ClassVar[OrchestratorType]
    ORCHESTRATOR_TYPE_KUBERNETES: _ClassVar[OrchestratorType]
ORCHESTRATOR_TYPE_UNSPECIFIED: OrchestratorType
ORCHESTRATOR_TYPE_KUBERNETES: OrchestratorType

class WorkloadMetadata(_message.Message):
    __slots__ = ("id", "orchestrator", "resource_type", "resource_namespace", "resource_name")
    ID_FIELD_NUMBER: _ClassVar[int]
    ORCHESTRATOR_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    id: str
    orchestrator: OrchestratorType
    resource_type: str
    resource_namespace: str
    resource_name: str
    def __init__(self, id: _Optional[str] = ..., orchestrator: _Optional[_Union[OrchestratorType, str]] = ..., resource_type: _Optional[str] = ..., resource_namespace: _Optional[str] = ..., resource_name: _Optional[str] = ...) -> None: ...

class WorkloadState(_message.Message):
    __slots__ = ("node_name", "ready", "extra")
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    node_name: str
    ready: bool
    extra: _struct_pb2.Struct
    def __init__(self, node_name: _Optional[str] = ..., ready: _Optional[bool] = ..., extra: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class Workload(_message.Message):
    __slots__ = ("metadata", "state")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    metadata: WorkloadMetadata
    state: WorkloadState
    def __init__(self, metadata: _Optional[_Union[WorkloadMetadata, _Mapping]] = ..., state: _Optional[_Union[WorkloadState, _Mapping]] = ...) -> None: ...

class WorkloadDelete(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class WorkloadSynced(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WorkloadStreamRequest(_message.Message):
    __slots__ = ("update", "delete", "synced")
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    DELETE_FIELD_NUMBER: _ClassVar[int]
    SYNCED_FIELD_NUMBER: _ClassVar[int]
    update: Workload
    delete: WorkloadDelete
    synced: WorkloadSynced
    def __init__(self, update: _Optional[_Union[Workload, _Mapping]] = ..., delete: _Optional[_Union[WorkloadDelete, _Mapping]] = ..., synced: _Optional[_Union[WorkloadSynced, _Mapping]] = ...) -> None: ...

class WorkloadStreamResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
