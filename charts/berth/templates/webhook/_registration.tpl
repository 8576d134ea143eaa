{{- /* Parts of the webhook configurations. */ -}}

{{- /*
A webhook: (dict "root" $ "entry" ENTRY-OF-roles.json). How long it is waited for, and what happens without it, is from
values. Without caBundle, the value that is there is left alone.
*/ -}}
{{- define "berth.webhook" -}}
{{- $root := .root -}}
{{- $certificates := .root.Values.certificates -}}
{{- $terms := index .root.Values.webhook.webhooks .entry.values -}}
name: {{ .entry.name }}.berth.dev
clientConfig:
  {{- if eq $certificates.mode "provided" }}
  caBundle: {{ $certificates.provided.caBundle | trim | printf "%s\n" | b64enc }}
  {{- end }}
  service:
    name: {{ include "berth.webhookService" .root }}
    namespace: {{ .root.Release.Namespace | quote }}
    path: {{ .entry.path }}{{ if .entry.proven }}{{ with include "berth.callerToken" .root }}/{{ . }}{{ end }}{{ end }}
    port: 443
admissionReviewVersions: [v1]
failurePolicy: {{ $terms.failurePolicy }}
matchPolicy: Equivalent
# Events on owners of what is denied are side effects; there are none in a dry run.
sideEffects: NoneOnDryRun
timeoutSeconds: {{ $terms.timeoutSeconds }}
{{- if eq .entry.configuration "Mutating" }}
# What later webhooks add is injected for, too.
reinvocationPolicy: IfNeeded
{{- end }}
rules:
  {{- toYaml .entry.rules | nindent 2 }}
{{- range $field, $expressions := dict "namespaceSelector" .entry.namespaces "objectSelector" .entry.objects }}
{{- with fromJsonArray (include "berth.expressions" (dict "root" $root "expressions" $expressions)) }}
{{ $field }}:
  matchExpressions:
    {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}
{{- if and .root.Values.webhook.matchConditions.enabled .entry.conditions }}
matchConditions:
  {{- range .entry.conditions }}
  {{- if include "berth.isOn" (dict "root" $root "when" .when) }}
  - name: {{ .name }}
    expression: {{ include "berth.cel" (dict "root" $root "terms" .terms) | quote }}
  {{- end }}
  {{- end }}
  {{- if eq .entry.name "pods" }}
  {{- with .root.Values.webhook.matchConditions.leftByPolicies }}
  - name: left-by-policies
    expression: {{ . | quote }}
  {{- end }}
  {{- end }}
{{- end }}
{{- end -}}

{{- /* (dict "root" $ "expressions" (list …)): those of a label selector that are on, as JSON. */ -}}
{{- define "berth.expressions" -}}
{{- $root := .root -}}
{{- $written := list -}}
{{- range .expressions -}}
{{- if include "berth.isOn" (dict "root" $root "when" .when) -}}
{{- $one := pick . "key" "operator" "values" -}}
{{- with .source -}}{{- $_ := set $one "values" (fromJsonArray (include . $root)) -}}{{- end -}}
{{- $written = append $written $one -}}
{{- end -}}
{{- end -}}
{{- $written | toJson -}}
{{- end -}}

{{- /* (dict "root" $ "terms" (list …)): CEL that is true if any of the terms that are on is true. */ -}}
{{- define "berth.cel" -}}
{{- $root := .root -}}
{{- $written := list -}}
{{- range .terms -}}
{{- $values := list -}}
{{- with .values -}}
{{- range fromJsonArray (include . $root) -}}{{- $values = append $values (squote .) -}}{{- end -}}
{{- end -}}
{{- if and (or $values (not .values)) (include "berth.isOn" (dict "root" $root "when" .when)) -}}
{{- $written = append $written (replace "{values}" (printf "[%s]" (join ", " $values)) .expression) -}}
{{- end -}}
{{- end -}}
{{- join " || " $written -}}
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

{{- /* Sources of files/roles.json, as JSON. */ -}}
{{- define "berth.exemptNamespaces" -}}
{{- concat (fromJsonArray (include "berth.neverAsked" .)) .Values.webhook.exemptNamespaces | uniq | toJson -}}
{{- end -}}

{{- define "berth.neverAsked" -}}
{{- list "kube-system" .Release.Namespace | uniq | toJson -}}
{{- end -}}

{{- define "berth.injectionLabels" -}}
{{- concat (keys .Values.webhook.controlSwitches.userDefinedInjections | sortAlpha) .Values.webhook.injectionLabels | uniq | toJson -}}
{{- end -}}

{{- define "berth.ownNamespace" -}}{{- list .Release.Namespace | toJson -}}{{- end -}}

{{- define "berth.claimTemplatesName" -}}{{- list .Values.controller.args.claimTemplates | toJson -}}{{- end -}}
