{{/* The pod, the same for a StatefulSet and a Deployment. */}}

{{- define "pgweir.probe" -}}
httpGet:
  path: {{ .path }}
  port: http
{{ toYaml (omit .probe "enabled") }}
{{- end -}}

{{- define "pgweir.spread" -}}
{{- $context := . -}}
{{- $items := list -}}
{{- range .Values.topologySpreadConstraints -}}
{{- $item := . -}}
{{- if not (hasKey $item "labelSelector") -}}
{{- $item = merge (dict "labelSelector" (dict "matchLabels" (fromYaml (include "pgweir.selector" $context)))) $item -}}
{{- end -}}
{{- $items = append $items $item -}}
{{- end -}}
{{- toYaml $items -}}
{{- end -}}

{{/* Settings by the environment, where there is no file. */}}
{{- define "pgweir.urlEnv" -}}
{{- $settings := fromJson (include "pgweir.podSettings" .) -}}
{{- $together := include "pgweir.part" (dict "context" . "name" "settings.max_server_connections" "value" (include "pgweir.urlConnections" . | int64)) -}}
{{- $_ := set $settings "max_server_connections" $together -}}
{{- range $key := list "default_pool_size" "auto_pool_size_max" -}}
{{- if regexMatch "^[0-9]+$" (get $settings $key) -}}
{{- $_ := set $settings $key (min (int64 (get $settings $key)) (int64 $together) | toString) -}}
{{- end -}}
{{- end -}}
- name: DATABASE_URL_FILE
  value: {{ include "pgweir.secretPath" .Values.urlSecret }}
{{- range $key, $value := $settings }}
- name: PGWEIR_{{ upper $key }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}

{{/* Each once: the values' own go before the chart's. */}}
{{- define "pgweir.podAnnotations" -}}
{{- $own := dict "kubectl.kubernetes.io/default-container" "pgweir" -}}
{{- if .Values.monitoring.scrapeAnnotations -}}
{{- $_ := set $own "prometheus.io/scrape" "true" -}}
{{- $_ := set $own "prometheus.io/port" (int64 .Values.http.port | toString) -}}
{{- $_ := set $own "prometheus.io/path" "/metrics" -}}
{{- end -}}
{{- $all := merge (dict) .Values.podAnnotations .Values.commonAnnotations $own -}}
{{- if include "pgweir.hasFiles" . -}}
{{- /* Other settings are taken up by a pod that runs. */ -}}
{{- $_ := set $all "pgweir/restart-settings" (include "pgweir.restartSettings" . | sha256sum) -}}
{{- end -}}
{{- toYaml $all -}}
{{- end -}}

{{- define "pgweir.podTemplate" -}}
{{- $secrets := fromJson (include "pgweir.secrets" .) -}}
metadata:
  labels:
    {{- /* Without the versions: a new chart alone replaces no pod. */}}
    {{- include "pgweir.allLabels" (dict "context" . "labels" .Values.podLabels) | nindent 4 }}
  annotations:
    {{- include "pgweir.podAnnotations" . | nindent 4 }}
spec:
  serviceAccountName: {{ include "pgweir.serviceAccount" . }}
  # It asks the API server for nothing.
  automountServiceAccountToken: false
  # Else a Service called pgweir sets variables that look like settings.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ include "pgweir.graceSeconds" . }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- with .Values.schedulerName }}
  schedulerName: {{ . }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- include "pgweir.spread" . | nindent 4 }}
  {{- end }}
  {{- with .Values.hostAliases }}
  hostAliases:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.dnsPolicy }}
  dnsPolicy: {{ . }}
  {{- end }}
  {{- with .Values.dnsConfig }}
  dnsConfig:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: pgweir
      image: {{ include "pgweir.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        {{- if not (include "pgweir.hasFiles" .) }}
        - run
        {{- end }}
        {{- range .Values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
        {{- if include "pgweir.hasPeers" . }}
        # The file of its own number: it has the pod's peer_id, and includes what all have in common.
        - {{ include "pgweir.configFolder" . }}/$(POD_NAME).ini
        {{- else if include "pgweir.hasFiles" . }}
        - {{ include "pgweir.configFolder" . }}/pgweir.ini
        {{- end }}
      env:
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        {{- if not (include "pgweir.hasFiles" .) }}
        {{- include "pgweir.urlEnv" . | nindent 8 }}
        {{- end }}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .Values.extraEnvFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - name: postgresql
          containerPort: {{ int64 .Values.port }}
          protocol: TCP
        {{- if .Values.http.enabled }}
        - name: http
          containerPort: {{ int64 .Values.http.port }}
          protocol: TCP
        {{- end }}
      {{- if .Values.startupProbe.enabled }}
      startupProbe:
        {{- include "pgweir.probe" (dict "path" "/live" "probe" .Values.startupProbe) | nindent 8 }}
      {{- end }}
      {{- if .Values.livenessProbe.enabled }}
      livenessProbe:
        {{- include "pgweir.probe" (dict "path" "/live" "probe" .Values.livenessProbe) | nindent 8 }}
      {{- end }}
      {{- if .Values.readinessProbe.enabled }}
      readinessProbe:
        {{- include "pgweir.probe" (dict "path" "/ready" "probe" .Values.readinessProbe) | nindent 8 }}
      {{- end }}
      {{- if and (gt (int64 .Values.drain.preStopSeconds) 0) (include "pgweir.kubeAtLeast" (dict "context" . "version" "1.30.0")) }}
      lifecycle:
        preStop:
          # Until no node sends new connections here any more. The image has no program that could sleep.
          sleep:
            seconds: {{ int64 .Values.drain.preStopSeconds }}
      {{- end }}
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.securityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        {{- if include "pgweir.hasFiles" . }}
        # Folders, not single files: those Kubernetes would not renew.
        - name: config
          mountPath: {{ include "pgweir.configFolder" . }}
          readOnly: true
        {{- end }}
        {{- range $name := keys $secrets | sortAlpha }}
        - name: {{ include "pgweir.volumeName" $name }}
          mountPath: {{ include "pgweir.secretsFolder" $ }}/{{ $name }}
          readOnly: true
        {{- end }}
        {{- if .Values.tls.server.caConfigMap.name }}
        - name: server-ca
          mountPath: /run/pgweir-ca
          readOnly: true
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- with .Values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    {{- if include "pgweir.hasFiles" . }}
    - name: config
      configMap:
        name: {{ include "pgweir.fullname" . }}
    {{- end }}
    {{- range $name := keys $secrets | sortAlpha }}
    - name: {{ include "pgweir.volumeName" $name }}
      secret:
        secretName: {{ $name }}
        # For the pod's group.
        defaultMode: 0440
        items:
          {{- range get $secrets $name }}
          - key: {{ . }}
            path: {{ . }}
          {{- end }}
    {{- end }}
    {{- with .Values.tls.server.caConfigMap }}
    {{- if .name }}
    - name: server-ca
      configMap:
        name: {{ .name }}
        items:
          - key: {{ .key }}
            path: {{ .key }}
    {{- end }}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* Names of volumes are shorter than those of Secrets, and have no dots. */}}
{{- define "pgweir.volumeName" -}}
{{- printf "secret-%s-%s" (. | replace "." "-" | trunc 45 | trimSuffix "-") (sha256sum . | trunc 6) -}}
{{- end -}}
