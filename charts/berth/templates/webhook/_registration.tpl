{{- /* Parts of the webhook configurations. */ -}}

{{- /*
Where and for what we are called: (dict "root" $ "path" "/mutate" "kind" "pods"). Its terms are from values. Without
caBundle, who keeps it is left alone.
*/ -}}
{{- define "berth.review" -}}
{{- $certificates := .root.Values.certificates -}}
{{- $terms := index .root.Values.webhook.webhooks .kind -}}
clientConfig:
  {{- if eq $certificates.mode "provided" }}
  caBundle: {{ $certificates.provided.caBundle | trim | printf "%s\n" | b64enc }}
  {{- end }}
  service:
    name: {{ include "berth.webhookService" .root }}
    namespace: {{ .root.Release.Namespace | quote }}
    path: {{ .path }}
    port: 443
admissionReviewVersions: [v1]
failurePolicy: {{ $terms.failurePolicy }}
matchPolicy: Equivalent
# Events on owners of what is denied are side effects; there are none in a dry run.
sideEffects: NoneOnDryRun
timeoutSeconds: {{ $terms.timeoutSeconds }}
rules:
  {{- index (include "berth.reviews" .root | fromJson) .kind | toYaml | nindent 2 }}
{{- end -}}

{{- define "berth.registrationMetadata" -}}
name: {{ include "berth.fullname" . | quote }}
labels:
  {{- include "berth.labels" (dict "root" . "role" "webhook") | nindent 2 }}
{{- if eq .Values.certificates.mode "cert-manager" }}
annotations:
  cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "berth.fullname" . }}-webhook
{{- end }}
{{- end -}}

{{- /* Namespaces that are never asked for: Berth itself, and what it takes to run it, must start without Berth. */ -}}
{{- define "berth.exemptNamespaces" -}}
{{- concat (fromJsonArray (include "berth.neverAsked" .)) .Values.webhook.exemptNamespaces | uniq | toJson -}}
{{- end -}}

{{- /* Those of them that no values can add to. */ -}}
{{- define "berth.neverAsked" -}}
{{- list "kube-system" .Release.Namespace | uniq | toJson -}}
{{- end -}}

{{- /*
(dict "root" $ "label" "Exists"): a webhook for whatever holds the spec of a Pod, and for claims of devices, in namespaces
with the label berth.dev/tenant, or without (DoesNotExist).
*/ -}}
{{- define "berth.tenantIsolation" -}}
{{ include "berth.review" (dict "root" .root "path" "/validate" "kind" "tenantIsolation") }}
namespaceSelector:
  matchExpressions:
    - {key: berth.dev/tenant, operator: {{ .label }}}
    - {key: kubernetes.io/metadata.name, operator: NotIn, values: {{ include "berth.neverAsked" .root }}}
{{- end -}}

{{- /* What files/roles.json says of reviews, as JSON. */ -}}
{{- define "berth.reviews" -}}
{{- (.Files.Get "files/roles.json" | fromJson).reviews | toJson -}}
{{- end -}}

{{- /* CEL: whether a Pod's opt-out is missing, or does not count. */ -}}
{{- define "berth.hasNotOptedOut" -}}
!(has(object.metadata.labels) && 'berth.dev/inject' in object.metadata.labels && object.metadata.labels['berth.dev/inject'] == 'false') || request.namespace.startsWith('tenant-')
{{- end -}}

{{- /* CEL: whether a Pod asks for something. */ -}}
{{- define "berth.asksForSomething" -}}
{{- $labels := concat (keys .Values.webhook.controlSwitches.userDefinedInjections | sortAlpha) .Values.webhook.injectionLabels | uniq -}}
has(object.metadata.annotations) && [
{{- range $index, $key := (include "berth.reviews" . | fromJson).asking -}}
{{ if $index }}, {{ end }}{{ $key | squote }}
{{- end -}}
].exists(key, key in object.metadata.annotations)
{{- if $labels }} || has(object.metadata.labels) && [
{{- range $index, $key := $labels -}}
{{ if $index }}, {{ end }}{{ $key | squote }}
{{- end -}}
].exists(key, key in object.metadata.labels)
{{- end }}
{{- if .Values.webhook.args.confineTenants }} || request.namespace.startsWith('tenant-')
{{- end }}
{{- end -}}
