{{- /* Names and labels. */ -}}

{{- define "berth.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- /* At most 40 characters and no dots: the longest suffix still leaves a valid name of a Service. */ -}}
{{- define "berth.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $whole := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- .Values.fullnameOverride | default $whole | replace "." "-" | trunc 40 | trimAll "-" -}}
{{- end -}}

{{- /* What never changes of a role's Pods: (dict "root" $ "role" "webhook"). */ -}}
{{- define "berth.selectorLabels" -}}
app.kubernetes.io/name: {{ include "berth.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .role }}
{{- end -}}

{{- define "berth.labels" -}}
{{ include "berth.selectorLabels" . }}
{{ include "berth.commonLabels" .root }}
{{- end -}}

{{- /* Without the chart's version: a new chart that changes no Pod starts none anew. */ -}}
{{- define "berth.podLabels" -}}
{{ include "berth.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Values.image.tag | default .root.Chart.AppVersion | trunc 63 | trimAll "._-" | quote }}
app.kubernetes.io/part-of: berth
{{- end -}}

{{- /* Labels of what belongs to no role; instance and name are those of the release. */ -}}
{{- define "berth.releaseLabels" -}}
app.kubernetes.io/name: {{ include "berth.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{ include "berth.commonLabels" . }}
{{- end -}}

{{- define "berth.commonLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: berth
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- /* metadata of an object of a role: (dict "root" $ "role" "webhook" ["suffix" "metrics"] ["entry" …]); namespaced. */ -}}
{{- define "berth.metadata" -}}
name: {{ include "berth.fullname" .root }}-{{ .role }}{{ with .suffix }}-{{ . }}{{ end }}
namespace: {{ include "berth.namespaceOf" . | quote }}
labels:
  {{- include "berth.labels" . | nindent 2 }}
{{- end -}}

{{- /* The namespace of a role: (dict "root" $ ["entry" ENTRY-OF-roles.json]). */ -}}
{{- define "berth.namespaceOf" -}}
{{- $source := (.entry | default dict).namespace -}}
{{- if $source -}}{{ (include "berth.read" (dict "root" .root "source" $source) | fromJson).value }}{{- else -}}{{ .root.Release.Namespace }}{{- end -}}
{{- end -}}

{{- define "berth.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* The namespace of rules, their companions and the agent's Lease; fixed in the code. */ -}}
{{- define "berth.systemNamespace" -}}universe{{- end -}}

{{- define "berth.namespace" -}}{{ .Release.Namespace }}{{- end -}}

{{- define "berth.rmdDaemonSets" -}}{{ include "berth.fullname" . }}-rmd-daemon-sets{{- end -}}

{{- define "berth.webhookService" -}}{{- if .Values.webhook.enabled -}}{{ include "berth.fullname" . }}-webhook{{- end -}}{{- end -}}

{{- /* Of the page whose certificate the certificates role keeps. */ -}}
{{- define "berth.uiService" -}}{{- if include "berth.keepsUiCertificate" . -}}{{ include "berth.fullname" . }}-ui{{- end -}}{{- end -}}

{{- define "berth.release" -}}{{ .Release.Name }}{{- end -}}

{{- define "berth.gatewayService" -}}{{ include "berth.fullname" . }}-gateway{{- end -}}

{{- define "berth.priorityClassName" -}}
{{- if .Values.priorityClass.create -}}
{{- .Values.priorityClass.name | default (include "berth.fullname" .) -}}
{{- else -}}
{{- .Values.priorityClass.name -}}
{{- end -}}
{{- end -}}
