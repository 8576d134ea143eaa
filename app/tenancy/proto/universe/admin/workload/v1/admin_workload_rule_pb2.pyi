from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as _workload_rule_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AdminWorkloadRule(_message.Message):
    __slots__ = ("id", "tenant_match", "data", "status")
    ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_MATCH_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    id: str
    tenant_match: _containers.RepeatedScalarFieldContainer[str]
    data: _workload_rule_pb2.WorkloadRuleData
    status: _workload_rule_pb2.RuleStatus
    def __init__(self, id: _Optional[str] = ..., tenant_match: _Optional[_Iterable[str]] = ..., data: _Optional[_Union[_workload_rule_pb2.WorkloadRuleData, _Mapping]] = ..., status: _Optional[_Union[_workload_rule_pb2.RuleStatus, _Mapping]] = ...) -> None: ...

class CreateRequest(_message.Message):
    __slots__ = ("rule",)
    RULE_FIELD_NUMBER: _ClassVar[int]
    rule: AdminWorkloadRule
    def __init__(self, rule: _Optional[_Union[AdminWorkloadRule, _Mapping]] = ...) -> None: ...

class CreateResponse(_message.Message):
    __slots__ = ("rule",)
    RULE_FIELD_NUMBER: _ClassVar[int]
    rule: AdminWorkloadRule
    def __init__(self, rule: _Optional[_Union[AdminWorkloadRule, _Mapping]] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class GetResponse(_message.Message):
    __slots__ = ("rule",)
    RULE_FIELD_NUMBER: _ClassVar[int]
    rule: AdminWorkloadRule
    def __init__(self, rule: _Optional[_Union[AdminWorkloadRule, _Mapping]] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ("rules",)
    RULES_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[AdminWorkloadRule]
    def __init__(self, rules: _Optional[_Iterable[_Union[AdminWorkloadRule, _Mapping]]] = ...) -> None: ...

class UpdateRequest(_message.Message):
    __slots__ = ("rule",)
    RULE_FIELD_NUMBER: _ClassVar[int]
    rule: AdminWorkloadRule
    def __init__(self, rule: _Optional[_Union[AdminWorkloadRule, _Mapping]] = ...) -> None: ...

class UpdateResponse(_message.Message):
    __slots__ = ("rule",)
    RULE_FIELD_NUMBER: _ClassVar[int]
    rule: AdminWorkloadRule
    def __init__(self, rule: _Optional[_Union[AdminWorkloadRule, _Mapping]] = ...) -> None: ...

class DeleteRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class DeleteResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
