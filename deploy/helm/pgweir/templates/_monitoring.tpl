{{/* Rules without metrics would say for ever that no pgweir answers. */}}
{{- define "pgweir.hasRules" -}}
{{- if .Values.http.enabled -}}
{{- include "pgweir.switch" (dict "context" . "value" .Values.monitoring.prometheusRule.enabled "api" "monitoring.coreos.com/v1/PrometheusRule") -}}
{{- end -}}
{{- end -}}

{{/* The rules' file, without the alerts that are not wanted, and with the labels that are. */}}
{{- define "pgweir.ruleGroups" -}}
{{- $wanted := .Values.monitoring.prometheusRule -}}
{{- $groups := list -}}
{{- $known := list -}}
{{- $text := .Files.Get "files/pgweir.rules.yaml" -}}
{{- with $wanted.runbookUrl -}}{{- $text = replace "runbook_url: docs/guide/alerts.md" (printf "runbook_url: %s" .) $text -}}{{- end -}}
{{- range (fromYaml $text).groups -}}
{{- $rules := list -}}
{{- range .rules -}}
{{- if hasKey . "alert" -}}
{{- $known = append $known .alert -}}
{{- if not (has .alert $wanted.disabled) -}}
{{- $rules = append $rules (set . "labels" (merge (dict) $wanted.alertLabels (.labels | default dict))) -}}
{{- end -}}
{{- else -}}
{{- $rules = append $rules . -}}
{{- end -}}
{{- end -}}
{{- if $rules -}}{{- $groups = append $groups (set . "rules" $rules) -}}{{- end -}}
{{- end -}}
{{- range $wanted.disabled -}}
{{- if not (has . $known) -}}
{{- fail (printf "monitoring.prometheusRule.disabled has %s, but there is no such alert. The alerts are: %s." . ($known | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- toYaml (dict "groups" $groups) -}}
{{- end -}}
