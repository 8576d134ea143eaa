{{- /* What is on, and which certificates are used: "true" or "". */ -}}

{{- define "berth.keepsCertificates" -}}
{{- if and (eq .Values.certificates.mode "self-managed") (or .Values.webhook.enabled .Values.gateway.enabled (and .Values.ui.enabled (not .Values.ui.certificate.secretName))) -}}true{{- end -}}
{{- end -}}

{{- /* Whether a role has rights in `universe`. */ -}}
{{- define "berth.usesSystemNamespace" -}}
{{- range fromJsonArray (include "berth.running" .) -}}
{{- if fromJsonArray (include "berth.rules" (dict "root" $ "rules" .rules.system)) -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Whether the controller of RMD runs, and the ports of its daemons. */ -}}
{{- define "berth.runsRmd" -}}{{- include "berth.isOn" (dict "root" . "when" "controller.enabled,controller.args.controllers=rmd") -}}{{- end -}}

{{- define "berth.rmdPlainPort" -}}{{- if include "berth.runsRmd" . -}}8081{{- end -}}{{- end -}}

{{- /* The client certificate for daemons, where there is one: as JSON. */ -}}
{{- define "berth.rmdClientVolume" -}}
{{- dict "secret" (dict "secretName" .Values.rmd.clientCertificate "optional" true "defaultMode" 256) | toJson -}}
{{- end -}}

{{- define "berth.rmdTlsPort" -}}{{- if include "berth.runsRmd" . -}}8443{{- end -}}{{- end -}}

{{- define "berth.webhookSecret" -}}
{{- if eq .Values.certificates.mode "self-managed" -}}
{{- /* Of the release's own: two that keep one Secret would undo each other's work without end. */ -}}
{{ include "berth.fullname" . }}-webhook-tls
{{- else if eq .Values.certificates.mode "cert-manager" -}}
{{- /* Not the name above: a Secret that cert-manager leaves behind would be taken for one that is renewed. */ -}}
{{ include "berth.fullname" . }}-webhook-cert
{{- else -}}
{{ .Values.certificates.provided.secretName }}
{{- end -}}
{{- end -}}

{{- /* The Secret of the page's certificate, and whether the certificates role keeps it. */ -}}
{{- define "berth.uiSecret" -}}
{{- if .Values.ui.certificate.secretName -}}{{ .Values.ui.certificate.secretName }}
{{- else if eq .Values.certificates.mode "cert-manager" -}}{{ include "berth.fullname" . }}-ui-cert
{{- else -}}{{ include "berth.fullname" . }}-ui-tls{{- end -}}
{{- end -}}

{{- define "berth.keepsUiCertificate" -}}
{{- if and .Values.ui.enabled (not .Values.ui.certificate.secretName) (eq .Values.certificates.mode "self-managed") -}}true{{- end -}}
{{- end -}}

{{- /* The CA of front proxies: its file, and its volume as JSON. */ -}}
{{- define "berth.frontProxyFile" -}}
{{- with .Values.ui.frontProxy -}}{{- if or .secret .configMap -}}/etc/berth/front-proxy/{{ .key }}{{- end -}}{{- end -}}
{{- end -}}

{{- define "berth.frontProxyVolume" -}}
{{- with .Values.ui.frontProxy -}}
{{- $items := dict "items" (list (dict "key" .key "path" .key)) "defaultMode" 288 -}}
{{- if .secret -}}{{- dict "secret" (set $items "secretName" .secret) | toJson -}}
{{- else if .configMap -}}{{- dict "configMap" (set $items "name" .configMap) | toJson -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "berth.gatewaySecret" -}}
{{- if eq .Values.certificates.mode "self-managed" -}}berth-gateway-tls{{- else -}}{{ .Values.gateway.certificate.secretName }}{{- end -}}
{{- end -}}

{{- /* The CA of the API server's client certificate: its file, its volume as JSON, and whether there is none. */ -}}
{{- define "berth.clientCAFile" -}}
{{- with .Values.webhook.args.clientCA -}}{{- if or .secret .configMap -}}/etc/berth/client-ca/{{ .key }}{{- end -}}{{- end -}}
{{- end -}}

{{- define "berth.clientCAVolume" -}}
{{- with .Values.webhook.args.clientCA -}}
{{- $items := dict "items" (list (dict "key" .key "path" .key)) "defaultMode" 288 -}}
{{- if .secret -}}{{- dict "secret" (set $items "secretName" .secret) | toJson -}}
{{- else if .configMap -}}{{- dict "configMap" (set $items "name" .configMap) | toJson -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /*
The token by which the API server proves itself where it shows no certificate: whether there is one, its Secret, file and
volume, the tokens in it, and the first of them, which ends the paths. One that is made is kept in the values, for all
templates, and in the Secret, for upgrades. Administrators may add others to the Secret, one a line.
*/ -}}
{{- define "berth.usesCallerToken" -}}
{{- $args := .Values.webhook.args -}}
{{- $asked := or $args.appwrappers $args.claims (ne $args.rmdBackend "off") -}}
{{- if and .Values.webhook.enabled $asked (not (include "berth.clientCAFile" .)) -}}true{{- end -}}
{{- end -}}

{{- define "berth.callerTokenSecret" -}}{{ include "berth.fullname" . }}-webhook-caller{{- end -}}

{{- define "berth.callerTokenFile" -}}
{{- if include "berth.usesCallerToken" . -}}/etc/berth/caller-token/token{{- end -}}
{{- end -}}

{{- define "berth.callerTokenVolume" -}}
{{- if include "berth.usesCallerToken" . -}}
{{- dict "secret" (dict "secretName" (include "berth.callerTokenSecret" .) "defaultMode" 288) | toJson -}}
{{- end -}}
{{- end -}}

{{- define "berth.callerTokens" -}}
{{- if include "berth.usesCallerToken" . -}}
{{- if not .Values.webhook.callerToken -}}
{{- $present := lookup "v1" "Secret" .Release.Namespace (include "berth.callerTokenSecret" .) -}}
{{- $kept := get ($present.data | default dict) "token" | b64dec -}}
{{- $_ := set .Values.webhook "callerToken" ($kept | default (randAlphaNum 64 | lower)) -}}
{{- end -}}
{{- .Values.webhook.callerToken -}}
{{- end -}}
{{- end -}}

{{- define "berth.callerToken" -}}{{- include "berth.callerTokens" . | regexFind "[0-9a-z]+" -}}{{- end -}}

{{- define "berth.withoutClientCA" -}}{{- if not (include "berth.clientCAFile" .) -}}true{{- end -}}{{- end -}}

{{- /* What the controller binds in tenants' namespaces. */ -}}
{{- define "berth.controllerGrant" -}}
berth-controller-tenants={{ .Release.Namespace }}/{{ include "berth.fullname" . }}-controller
{{- end -}}

{{- define "berth.gatewayGrant" -}}
berth-gateway-tenants={{ .Release.Namespace }}/{{ include "berth.fullname" . }}-gateway
{{- end -}}

{{- /* The port of the OTLP endpoint, as the NetworkPolicies need it. */ -}}
{{- define "berth.tracingPort" -}}
{{- $port := regexFind ":[0-9]+(/|$)" .Values.tracing.endpoint | trimPrefix ":" | trimSuffix "/" -}}
{{- if $port -}}{{ $port }}{{- else if hasPrefix "https://" .Values.tracing.endpoint -}}443{{- else -}}80{{- end -}}
{{- end -}}

{{- /* The service account of the controller, where the release has one. */ -}}
{{- define "berth.controllerAccount" -}}
{{- if .Values.controller.enabled -}}{{ .Release.Namespace }}/{{ include "berth.fullname" . }}-controller{{- end -}}
{{- end -}}

{{- /* The ClusterRole that owns the policies. The API server deletes them when it is deleted. */ -}}
{{- define "berth.policiesOwner" -}}{{ include "berth.fullname" . }}-controller{{- end -}}

{{- /* The ConfigMap of controller policies. */ -}}
{{- define "berth.policiesConfig" -}}{{ include "berth.fullname" . }}-policies{{- end -}}

{{- define "berth.keepsPolicies" -}}
{{- include "berth.isOn" (dict "root" . "when" "controller.enabled,controller.args.controllers=policies") -}}
{{- end -}}
