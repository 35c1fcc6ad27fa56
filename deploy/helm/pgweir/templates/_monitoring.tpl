{{/* Rules without metrics would say for ever that no pgweir answers. */}}
{{- define "pgweir.hasRules" -}}
{{- if .Values.http.enabled -}}
{{- include "pgweir.switch" (dict "context" . "value" .Values.monitoring.prometheusRule.enabled "api" "monitoring.coreos.com/v1/PrometheusRule") -}}
{{- end -}}
{{- end -}}

{{/*
Which series are those of this release's pods, by the labels that the operator gives them. Only the whole pattern of a pod's name keeps
out a release whose name is this one's and more. A Deployment cuts long names, and the last hyphen with them.
*/}}
{{- define "pgweir.ownSeries" -}}
{{- $pod := eq .Values.kind "StatefulSet" | ternary "[0-9]+" "[a-z0-9]+-?[a-z0-9]{5}" -}}
{{- printf "namespace=%q, pod=~\"%s-%s\"" .Release.Namespace (include "pgweir.fullname" .) $pod -}}
{{- end -}}

{{/* An expression of the rules' file, each metric with these labels: context, expr. */}}
{{- define "pgweir.ownExpr" -}}
{{- $own := include "pgweir.ownSeries" .context -}}
{{- $expr := regexReplaceAll "\\b(up|(?:pgweir|pgbouncer)_[a-z0-9_]+)\\b" .expr (printf "${1}{%s}" $own) -}}
{{- replace (printf "%s}{" $own) (printf "%s, " $own) $expr -}}
{{- end -}}

{{/* The rules' file for this release: without the alerts that are not wanted, and with the labels that are. */}}
{{- define "pgweir.ruleGroups" -}}
{{- $wanted := .Values.monitoring.prometheusRule -}}
{{- $groups := list -}}
{{- $known := list -}}
{{- $text := .Files.Get "files/pgweir.rules.yaml" -}}
{{- with $wanted.runbookUrl -}}{{- $text = replace "runbook_url: docs/guide/alerts.md" (printf "runbook_url: %s" .) $text -}}{{- end -}}
{{- range (fromYaml $text).groups -}}
{{- $rules := list -}}
{{- range .rules -}}
{{- $_ := set . "expr" (include "pgweir.ownExpr" (dict "context" $ "expr" .expr)) -}}
{{- if hasKey . "alert" -}}
{{- $known = append $known .alert -}}
{{- if not (has .alert $wanted.disabled) -}}
{{- /* Nothing else tells apart what two releases of a namespace miss. */ -}}
{{- $_ := set . "labels" (merge (dict) $wanted.alertLabels (.labels | default dict) (dict "release" $.Release.Name)) -}}
{{- if eq .alert "PgweirAbsent" -}}
{{- $_ := set .annotations "summary" (printf "No pod of %s in namespace %s answers Prometheus." (include "pgweir.fullname" $) $.Release.Namespace) -}}
{{- $_ := set .annotations "description" "Prometheus has had no metrics of any of the release's pods for five minutes. No pod runs, or Prometheus does not find them." -}}
{{- end -}}
{{- $rules = append $rules . -}}
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
