{{- /* What is on, and which certificates are used: "true" or "". */ -}}

{{- /* The roles that this release runs, one a line. */ -}}
{{- define "berth.roles" -}}
{{- $roles := list -}}
{{- range list "webhook" "controller" "gateway" "agent" -}}
{{- if (index $.Values .).enabled -}}{{- $roles = append $roles . -}}{{- end -}}
{{- end -}}
{{- if include "berth.keepsCertificates" . -}}{{- $roles = append $roles "certificates" -}}{{- end -}}
{{- $roles | toJson -}}
{{- end -}}

{{- define "berth.keepsCertificates" -}}
{{- if and (eq .Values.certificates.mode "self-managed") (or .Values.webhook.enabled .Values.gateway.enabled) -}}true{{- end -}}
{{- end -}}

{{- define "berth.usesSystemNamespace" -}}
{{- if or .Values.controller.enabled .Values.gateway.enabled .Values.agent.enabled -}}true{{- end -}}
{{- end -}}

{{- define "berth.webhookSecret" -}}
{{- if eq .Values.certificates.mode "self-managed" -}}
{{- /* Of the release's own: two that keep one Secret would undo each other's work without end. */ -}}
{{ include "berth.fullname" . }}-webhook-tls
{{- else if eq .Values.certificates.mode "cert-manager" -}}
{{- /* Not the name above: a Secret that cert-manager leaves behind would be taken for one that somebody renews. */ -}}
{{ include "berth.fullname" . }}-webhook-cert
{{- else -}}
{{ .Values.certificates.provided.secretName }}
{{- end -}}
{{- end -}}

{{- define "berth.gatewaySecret" -}}
{{- if eq .Values.certificates.mode "self-managed" -}}berth-gateway-tls{{- else -}}{{ .Values.gateway.certificate.secretName }}{{- end -}}
{{- end -}}

{{- /* The port of the OTLP endpoint, as the NetworkPolicies need it. */ -}}
{{- define "berth.tracingPort" -}}
{{- $port := regexFind ":[0-9]+(/|$)" .Values.tracing.endpoint | trimPrefix ":" | trimSuffix "/" -}}
{{- if $port -}}{{ $port }}{{- else if hasPrefix "https://" .Values.tracing.endpoint -}}443{{- else -}}80{{- end -}}
{{- end -}}
