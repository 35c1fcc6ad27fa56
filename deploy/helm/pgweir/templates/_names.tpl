{{/* Names and labels. */}}

{{- define "pgweir.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* A pod's name has a number behind it, and the names of other objects a word. */}}
{{- define "pgweir.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "pgweir.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "pgweir.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "pgweir.podsService" -}}{{ include "pgweir.fullname" . }}-pods{{- end -}}

{{- define "pgweir.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "pgweir.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "pgweir.selector" -}}
app.kubernetes.io/name: {{ include "pgweir.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: pooler
{{- end -}}

{{- define "pgweir.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ include "pgweir.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: pooler
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* Each label once: those by which objects find their pods, before the object's own, before everybody's. context, labels, others. */}}
{{- define "pgweir.allLabels" -}}
{{- $selector := fromYaml (include "pgweir.selector" .context) -}}
{{- toYaml (merge (dict) $selector (.labels | default dict) .context.Values.commonLabels (.others | default dict)) -}}
{{- end -}}

{{/* The metadata of an object: context, name, and namespace, labels and annotations of its own. */}}
{{- define "pgweir.metadata" -}}
name: {{ .name }}
namespace: {{ .namespace | default .context.Release.Namespace }}
labels:
  {{- include "pgweir.allLabels" (dict "context" .context "labels" .labels "others" (fromYaml (include "pgweir.labels" .context))) | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) .context.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "pgweir.image" -}}
{{- $repository := .Values.image.repository -}}
{{- with .Values.image.registry -}}{{- $repository = printf "%s/%s" (trimSuffix "/" .) $repository -}}{{- end -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "pgweir.kubeAtLeast" -}}
{{- if semverCompare (printf ">=%s-0" .version) .context.Capabilities.KubeVersion.Version -}}yes{{- end -}}
{{- end -}}

{{/* A switch that may be auto: context, value, api. */}}
{{- define "pgweir.switch" -}}
{{- if eq (toString .value) "auto" -}}
{{- if .context.Capabilities.APIVersions.Has .api -}}yes{{- end -}}
{{- else if eq (toString .value) "true" -}}yes{{- end -}}
{{- end -}}

{{/* Whether the pooler is served from files, rather than from a URL. */}}
{{- define "pgweir.hasFiles" -}}
{{- if not .Values.urlSecret.name -}}yes{{- end -}}
{{- end -}}

{{/* Whether pods pass on each other's cancel requests. */}}
{{- define "pgweir.hasPeers" -}}
{{- if and (eq .Values.kind "StatefulSet") (include "pgweir.hasFiles" .) -}}yes{{- end -}}
{{- end -}}

{{- define "pgweir.graceSeconds" -}}
{{- $drain := .Values.drain -}}
{{- $least := add $drain.preStopSeconds $drain.shutdownSeconds $drain.transactionSeconds 5 -}}
{{- if kindIs "invalid" .Values.terminationGracePeriodSeconds -}}
{{- $least -}}
{{- else -}}
{{- $grace := int64 .Values.terminationGracePeriodSeconds -}}
{{- if lt $grace $least -}}
{{- fail (printf "terminationGracePeriodSeconds is %d, but a pod needs %d s to end: drain.preStopSeconds %d, drain.shutdownSeconds %d, drain.transactionSeconds %d, and 5. Raise it to %d, or lower one of these." $grace $least (int64 $drain.preStopSeconds) (int64 $drain.shutdownSeconds) (int64 $drain.transactionSeconds) $least) -}}
{{- end -}}
{{- $grace -}}
{{- end -}}
{{- end -}}
