"""What a webhook configuration has to be for the API server to accept it: names, rules, addresses, conditions.

Pure: a configuration that `kinds` decoded and completed with defaults in, field errors out, in the order in which the
server names them. How webhooks are matched and called is decided in the other modules of this room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from app.cel.matchconditions import compile_condition
from app.cel.syntax import BadExpression
from app.devtools.sandbox.webhooks.rulepatterns import check_rule
from app.kinds.fielderrors import Field, FieldError, supported
from app.kinds.name_syntax import check_label_selector, dns1035_faults, qualified_faults, subdomain_faults

if TYPE_CHECKING:
    from app.wire import JSON

_MOST_CONDITIONS = 64
_REVIEW_VERSIONS = ("v1", "v1beta1")
_DESIRED_URL = "desired format: https://host[/path]"


def check_configuration(configuration: JSON) -> list[FieldError]:
    """All faults of a Mutating- or ValidatingWebhookConfiguration (its metadata aside)."""
    mutating = configuration.get("kind") == "MutatingWebhookConfiguration"
    errors: list[FieldError] = []
    seen: set[str] = set()
    for at, hook in enumerate(configuration.get("webhooks") or []):
        path = f"webhooks[{at}]"
        errors += _check_hook(hook, path, mutating=mutating)
        errors += check_conditions(hook.get("matchConditions") or [], f"{path}.matchConditions")
        errors += _check_review_versions(hook.get("admissionReviewVersions") or [], f"{path}.admissionReviewVersions")
        name = hook.get("name") or ""
        if name and name in seen:
            errors.append(FieldError(f"{path}.name", "Duplicate", "", name))
        seen.add(name)
    return errors


def _check_hook(hook: JSON, path: str, *, mutating: bool) -> list[FieldError]:
    errors = _check_name(hook.get("name") or "", f"{path}.name")
    for index, rule in enumerate(hook.get("rules") or []):
        errors += check_rule(rule, f"{path}.rules[{index}]")
    errors += supported(f"{path}.failurePolicy", hook.get("failurePolicy"), ("Fail", "Ignore"))
    errors += supported(f"{path}.matchPolicy", hook.get("matchPolicy"), ("Equivalent", "Exact"))
    if not hook.get("sideEffects"):
        errors.append(FieldError(f"{path}.sideEffects", "Required", "must specify one of None, NoneOnDryRun"))
    else:
        errors += supported(f"{path}.sideEffects", hook["sideEffects"], ("None", "NoneOnDryRun"))
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        errors.append(FieldError(f"{path}.timeoutSeconds", "Invalid", text, seconds))
    for field in ("namespaceSelector", "objectSelector"):
        errors += check_label_selector(hook.get(field) or {}, f"{path}.{field}")
    if mutating:
        errors += supported(f"{path}.reinvocationPolicy", hook.get("reinvocationPolicy"), ("IfNeeded", "Never"))
    return errors + _check_client(hook.get("clientConfig") or {}, f"{path}.clientConfig")


def _check_name(name: str, path: str) -> list[FieldError]:
    if not name:
        return [FieldError(path, "Required")]
    errors = [FieldError(path, "Invalid", text, name) for text in subdomain_faults(name)]
    if not errors and name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        errors.append(FieldError(path, "Invalid", text, name))
    return errors


def _check_review_versions(versions: list[str], path: str) -> list[FieldError]:
    known = ", ".join(_REVIEW_VERSIONS)
    if not versions:
        return [FieldError(path, "Required", f"must specify one of {known}")]
    errors: list[FieldError] = []
    for index, version in enumerate(versions):
        here = f"{path}[{index}]"
        if version in versions[:index]:
            errors.append(FieldError(here, "Invalid", "duplicate version", version))
        errors += [FieldError(here, "Invalid", text, version) for text in dns1035_faults(version)]
    if not errors and not set(versions) & set(_REVIEW_VERSIONS):
        errors.append(FieldError(path, "Invalid", f"must include at least one of {known}", versions))
    return errors


def _check_client(client: JSON, path: str) -> list[FieldError]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [FieldError(path, "Required", "exactly one of url or service is required")]
    if url is not None:
        return _check_url(url, f"{path}.url")
    return _check_service(service or {}, f"{path}.service")


def _check_url(url: str, path: str) -> list[FieldError]:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        text = f"url must be a valid URL: parse {_quoted(url)}: {error}; {_DESIRED_URL}"
        return [FieldError(path, "Required", text)]
    errors: list[FieldError] = []
    if parts.scheme != "https":
        text = f"'https' is the only allowed URL scheme; {_DESIRED_URL}"
        errors.append(FieldError(path, "Invalid", text, parts.scheme))
    user, at, host = parts.netloc.rpartition("@")
    if not host:
        errors.append(FieldError(path, "Invalid", f"host must be specified; {_DESIRED_URL}", ""))
    if at:
        errors.append(FieldError(path, "Invalid", "user information is not permitted in the URL", user))
    if parts.fragment:
        errors.append(FieldError(path, "Invalid", "fragments are not permitted in the URL", parts.fragment))
    if parts.query:
        errors.append(FieldError(path, "Invalid", "query parameters are not permitted in the URL", parts.query))
    return errors


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _check_service(service: JSON, path: str) -> list[FieldError]:
    # Not a slip here: the API server names the one field where the other is missing.
    missing = (("name", "namespace"), ("namespace", "name"))
    errors = [FieldError(f"{path}.{named}", "Required") for named, field in missing if not service.get(field)]
    port: Any = service.get("port")
    if port is not None and not 1 <= port <= 65535:
        text = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(FieldError(f"{path}.port", "Invalid", text, port))
    return errors + _check_service_path(service.get("path") or "", f"{path}.path")


def _check_service_path(text: str, path: str) -> list[FieldError]:
    if text == "/" or not text:
        return []
    if text == "//":
        return [FieldError(path, "Invalid", "segment[0] may not be empty", text)]
    errors = [] if text.startswith("/") else [FieldError(path, "Invalid", "must start with a '/'", text)]
    segments = text[1:].removesuffix("/").split("/")
    for index, segment in enumerate(segments):
        if not segment:
            errors.append(FieldError(path, "Invalid", f"segment[{index}] may not be empty", text))
            continue
        errors += [
            FieldError(path, "Invalid", f"segment[{index}]: {fault}", text) for fault in subdomain_faults(segment)
        ]
    return errors


def check_conditions(conditions: list[JSON], path: str) -> list[FieldError]:
    """The faults in the matchConditions of one webhook, for the time when it is written."""
    errors: list[FieldError] = []
    if len(conditions) > _MOST_CONDITIONS:
        errors.append(FieldError(path, "TooMany", f"must have at most {_MOST_CONDITIONS} items", len(conditions)))
    seen: set[str] = set()
    for index, entry in enumerate(conditions):
        condition = Field(entry, f"{path}[{index}]", errors)
        _check_expression(condition)
        if condition.named("name", qualified_faults):
            condition.unique("name", condition.text("name"), seen)
    return errors


def _check_expression(condition: Field) -> None:
    expression = condition.text("expression")
    if not expression.strip():
        condition.fault("expression", "Required")
        return
    try:
        _, kind = compile_condition(expression)
    except BadExpression as error:
        condition.fault("expression", "Invalid", f"compilation failed: {error}")
        return
    if kind.name != "bool":
        condition.fault("expression", "Invalid", f"must evaluate to bool but got {kind}")
