{{/* What both Certificates have. */}}
{{- define "pgweir.certificate" -}}
{{- with .duration -}}
duration: {{ . }}
{{ end -}}
{{- with .renewBefore -}}
renewBefore: {{ . }}
{{ end -}}
privateKey:
  {{- /* The pooler takes up the new key when the Secret changes. */}}
  {{- toYaml (merge (dict) .privateKey (dict "algorithm" "ECDSA" "size" 256 "rotationPolicy" "Always")) | nindent 2 }}
issuerRef:
  {{- toYaml (merge (dict) .issuerRef (dict "kind" "Issuer" "group" "cert-manager.io")) | nindent 2 }}
{{- end -}}
