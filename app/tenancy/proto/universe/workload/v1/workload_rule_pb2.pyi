from app.tenancy.proto.universe.workload.v1 import workload_pb2 as _workload_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MatchOperation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MATCH_OPERATION_UNSPECIFIED: _ClassVar[MatchOperation]
    MATCH_OPERATION_IN: _ClassVar[MatchOperation]
    MATCH_OPERATION_NOT_IN: _ClassVar[MatchOperation]
    MATCH_OPERATION_EXISTS: _ClassVar[MatchOperation]
    MATCH_OPERATION_DOES_NOT_EXIST: _ClassVar[MatchOperation]
MATCH_OPERATION_UNSPECIFIED: MatchOperation
MATCH_OPERATION_IN: MatchOperation
MATCH_OPERATION_NOT_IN: MatchOperation
MATCH_OPERATION_EXISTS: MatchOperation
MATCH_OPERATION_DOES_NOT_EXIST: MatchOperation

class MatchExpression(_message.Message):
    __slots__ = ("key", "operation", "values")
    KEY_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    key: str
    operation: MatchOperation
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[str] = ..., operation: _Optional[_Union[MatchOperation, str]] = ..., values: _Optional[_Iterable[str]] = ...) -> None: ...

class WorkloadTerm(_message.Message):
    __slots__ = ("match_expressions",)
    MATCH_EXPRESSIONS_FIELD_NUMBER: _ClassVar[int]
    match_expressions: _containers.RepeatedCompositeFieldContainer[MatchExpression]
    def __init__(self, match_expressions: _Optional[_Iterable[_Union[MatchExpression, _Mapping]]] = ...) -> None: ...

class AsAnnotation(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class WorkloadInfoInject(_message.Message):
    __slots__ = ("key", "as_annotation")
    KEY_FIELD_NUMBER: _ClassVar[int]
    AS_ANNOTATION_FIELD_NUMBER: _ClassVar[int]
    key: str
    as_annotation: AsAnnotation
    def __init__(self, key: _Optional[str] = ..., as_annotation: _Optional[_Union[AsAnnotation, _Mapping]] = ...) -> None: ...

class WorkloadRuleData(_message.Message):
    __slots__ = ("orchestrator_type", "resource_type", "dpu_selection_policy", "workload_terms", "workload_info_inject", "rule_template")
    ORCHESTRATOR_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    DPU_SELECTION_POLICY_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_TERMS_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_INFO_INJECT_FIELD_NUMBER: _ClassVar[int]
    RULE_TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    orchestrator_type: _workload_pb2.OrchestratorType
    resource_type: str
    dpu_selection_policy: str
    workload_terms: _containers.RepeatedCompositeFieldContainer[WorkloadTerm]
    workload_info_inject: _containers.RepeatedCompositeFieldContainer[WorkloadInfoInject]
    rule_template: bytes
    def __init__(self, orchestrator_type: _Optional[_Union[_workload_pb2.OrchestratorType, str]] = ..., resource_type: _Optional[str] = ..., dpu_selection_policy: _Optional[str] = ..., workload_terms: _Optional[_Iterable[_Union[WorkloadTerm, _Mapping]]] = ..., workload_info_inject: _Optional[_Iterable[_Union[WorkloadInfoInject, _Mapping]]] = ..., rule_template: _Optional[bytes] = ...) -> None: ...

class RuleCondition(_message.Message):
    __slots__ = ("type", "status", "reason", "message", "last_transition_time")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LAST_TRANSITION_TIME_FIELD_NUMBER: _ClassVar[int]
    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str
    def __init__(self, type: _Optional[str] = ..., status: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., last_transition_time: _Optional[str] = ...) -> None: ...

class RuleStatus(_message.Message):
    __slots__ = ("result", "message", "observed_generation", "matched", "created", "conditions", "running")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    MATCHED_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    result: str
    message: str
    observed_generation: int
    matched: int
    created: int
    conditions: _containers.RepeatedCompositeFieldContainer[RuleCondition]
    running: int
    def __init__(self, result: _Optional[str] = ..., message: _Optional[str] = ..., observed_generation: _Optional[int] = ..., matched: _Optional[int] = ..., created: _Optional[int] = ..., conditions: _Optional[_Iterable[_Union[RuleCondition, _Mapping]]] = ..., running: _Optional[int] = ...) -> None: ...

class WorkloadRule(_message.Message):
    __slots__ = ("id", "data", "owner", "generation", "status")
    ID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    id: str
    data: WorkloadRuleData
    owner: str
    generation: int
    status: RuleStatus
    def __init__(self, id: _Optional[str] = ..., data: _Optional[_Union[WorkloadRuleData, _Mapping]] = ..., owner: _Optional[str] = ..., generation: _Optional[int] = ..., status: _Optional[_Union[RuleStatus, _Mapping]] = ...) -> None: ...

class CreateWorkloadRuleRequest(_message.Message):
    __slots__ = ("rule",)
    RULE_FIELD_NUMBER: _ClassVar[int]
    rule: WorkloadRule
    def __init__(self, rule: _Optional[_Union[WorkloadRule, _Mapping]] = ...) -> None: ...

class CreateWorkloadRuleResponse(_message.Message):
    __slots__ = ("rule",)
    RULE_FIELD_NUMBER: _ClassVar[int]
    rule: WorkloadRule
    def __init__(self, rule: _Optional[_Union[WorkloadRule, _Mapping]] = ...) -> None: ...

class GetWorkloadRuleRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class GetWorkloadRuleResponse(_message.Message):
    __slots__ = ("rule",)
    RULE_FIELD_NUMBER: _ClassVar[int]
    rule: WorkloadRule
    def __init__(self, rule: _Optional[_Union[WorkloadRule, _Mapping]] = ...) -> None: ...

class ListWorkloadRulesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListWorkloadRulesResponse(_message.Message):
    __slots__ = ("rules",)
    RULES_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[WorkloadRule]
    def __init__(self, rules: _Optional[_Iterable[_Union[WorkloadRule, _Mapping]]] = ...) -> None: ...

class UpdateWorkloadRuleRequest(_message.Message):
    __slots__ = ("rule",)
    RULE_FIELD_NUMBER: _ClassVar[int]
    rule: WorkloadRule
    def __init__(self, rule: _Optional[_Union[WorkloadRule, _Mapping]] = ...) -> None: ...

class UpdateWorkloadRuleResponse(_message.Message):
    __slots__ = ("rule",)
    RULE_FIELD_NUMBER: _ClassVar[int]
    rule: WorkloadRule
    def __init__(self, rule: _Optional[_Union[WorkloadRule, _Mapping]] = ...) -> None: ...

class DeleteWorkloadRuleRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class DeleteWorkloadRuleResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchWorkloadRulesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchWorkloadRulesResponse(_message.Message):
    __slots__ = ("rule", "deleted", "synced")
    RULE_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    SYNCED_FIELD_NUMBER: _ClassVar[int]
    rule: WorkloadRule
    deleted: str
    synced: bool
    def __init__(self, rule: _Optional[_Union[WorkloadRule, _Mapping]] = ..., deleted: _Optional[str] = ..., synced: _Optional[bool] = ...) -> None: ...
