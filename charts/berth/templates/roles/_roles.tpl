{{- /*
The roles of files/roles.json, which `make generate` writes out of app/registry.py, and what it says of their values.

A source is a path in the values (`webhook.args.workers`), or the name of a template (`berth.webhookSecret`). What has
`when` is there while these sources are on.
*/ -}}

{{- /* The roles that this release runs, as JSON. */ -}}
{{- define "berth.running" -}}
{{- $running := list -}}
{{- range (.Files.Get "files/roles.json" | fromJson).roles -}}
{{- if (include "berth.read" (dict "root" $ "source" .enabled) | fromJson).value -}}{{- $running = append $running . -}}{{- end -}}
{{- end -}}
{{- $running | toJson -}}
{{- end -}}

{{- /* Their names, as JSON. */ -}}
{{- define "berth.roles" -}}
{{- $names := list -}}
{{- range fromJsonArray (include "berth.running" .) -}}{{- $names = append $names .name -}}{{- end -}}
{{- $names | toJson -}}
{{- end -}}

{{- /* (dict "root" $ "source" "webhook.args.workers"): {"value": …}. */ -}}
{{- define "berth.read" -}}
{{- $value := .root.Values -}}
{{- if hasPrefix "berth." .source -}}
{{- $value = include .source .root -}}
{{- else -}}
{{- range splitList "." .source -}}{{- $value = index ($value | default dict) . -}}{{- end -}}
{{- end -}}
{{- dict "value" $value | toJson -}}
{{- end -}}

{{- /*
(dict "root" $ "when" "gateway.enabled,!webhook.enabled,controller.args.controllers=tenants"): "true" if every source is on;
one after `!` must be off, one before `=` that item, or a list with it. The text "off" is off.
*/ -}}
{{- define "berth.isOn" -}}
{{- $root := .root -}}
{{- $on := true -}}
{{- range splitList "," (.when | default "") | compact -}}
{{- $parts := splitn "=" 2 (trimPrefix "!" .) -}}
{{- $value := (include "berth.read" (dict "root" $root "source" $parts._0) | fromJson).value -}}
{{- if and $parts._1 (kindIs "string" $value) -}}{{- $value = eq $parts._1 $value -}}
{{- else if $parts._1 -}}{{- $value = has $parts._1 ($value | default list) -}}
{{- else if kindIs "string" $value -}}{{- $value = ne $value "off" | ternary $value "" -}}{{- end -}}
{{- if eq (empty $value) (not (hasPrefix "!" .)) -}}{{- $on = false -}}{{- end -}}
{{- end -}}
{{- if $on -}}true{{- end -}}
{{- end -}}

{{- /* (dict "root" $ "arguments" (list …)): what they become, as JSON. */ -}}
{{- define "berth.arguments" -}}
{{- $root := .root -}}
{{- $written := list -}}
{{- range .arguments -}}
{{- if include "berth.isOn" (dict "root" $root "when" .when) -}}
{{- $value := .text -}}
{{- if .source -}}{{- $value = (include "berth.read" (dict "root" $root "source" .source) | fromJson).value -}}{{- end -}}
{{- if .switch -}}
{{- with ternary .flag .off (not (empty $value)) -}}{{- $written = append $written . -}}{{- end -}}
{{- else -}}
{{- $texts := fromJsonArray (include "berth.texts" $value) -}}
{{- if .repeat -}}
{{- $flag := .flag -}}
{{- range $texts -}}{{- $written = append $written (printf "%s=%s" $flag .) -}}{{- end -}}
{{- else if or $texts .always -}}
{{- $written = append $written (printf "%s=%s" .flag (join "," $texts)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $written | toJson -}}
{{- end -}}

{{- /* A value as texts, as JSON: those of a list; of a map KEY=VALUE, for each of the values that are lists; else itself. */ -}}
{{- define "berth.texts" -}}
{{- $texts := list -}}
{{- if kindIs "map" . -}}
{{- range $key, $below := . -}}
{{- range kindIs "slice" $below | ternary $below (list $below) -}}
{{- $texts = append $texts (printf "%s=%s" $key (include "berth.scalar" .)) -}}
{{- end -}}
{{- end -}}
{{- else if kindIs "slice" . -}}
{{- range . -}}{{- $texts = append $texts (include "berth.scalar" .) -}}{{- end -}}
{{- else if not (or (kindIs "invalid" .) (and (kindIs "string" .) (eq . ""))) -}}
{{- $texts = append $texts (include "berth.scalar" .) -}}
{{- end -}}
{{- $texts | toJson -}}
{{- end -}}

{{- /* Whole numbers without an exponent. */ -}}
{{- define "berth.scalar" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}{{- int64 . -}}{{- else -}}{{- . -}}{{- end -}}
{{- end -}}

{{- /* (dict "root" $ "grace" (list "webhook.args.drainSeconds" "10")): seconds in all, rounded up. */ -}}
{{- define "berth.grace" -}}
{{- $root := .root -}}
{{- $seconds := 0 -}}
{{- range .grace -}}
{{- $one := regexMatch "^[0-9]+$" . | ternary . "" -}}
{{- if not $one -}}{{- $one = (include "berth.read" (dict "root" $root "source" .) | fromJson).value -}}{{- end -}}
{{- $seconds = add $seconds (ceil $one) -}}
{{- end -}}
{{- $seconds -}}
{{- end -}}
