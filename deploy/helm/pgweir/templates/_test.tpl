{{- define "pgweir.testLabels" -}}
app.kubernetes.io/name: {{ include "pgweir.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: test
{{- end -}}

{{/* Where psql logs in, if there is a name for it. */}}
{{- define "pgweir.testDatabase" -}}
{{- .Values.test.psql.database | default (without (keys .Values.databases | sortAlpha) "*" | first) | default "" -}}
{{- end -}}

{{- define "pgweir.testMetadata" -}}
name: {{ .name }}
namespace: {{ .context.Release.Namespace }}
labels:
  {{- include "pgweir.testLabels" .context | nindent 2 }}
annotations:
  helm.sh/hook: test
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

{{- define "pgweir.testPod" -}}
restartPolicy: Never
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "pgweir.testContainer" -}}
resources:
  requests:
    cpu: 10m
    memory: 32Mi
  limits:
    memory: 128Mi
{{- with .Values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
