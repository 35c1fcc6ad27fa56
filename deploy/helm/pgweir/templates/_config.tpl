{{/* The files that the pooler reads, and where their secrets lie. */}}

{{- define "pgweir.configFolder" -}}/etc/pgweir{{- end -}}
{{- define "pgweir.secretsFolder" -}}/run/secrets/pgweir{{- end -}}

{{/* A value as the file has it: value, place. */}}
{{- define "pgweir.value" -}}
{{- if kindIs "bool" .value -}}
{{- ternary 1 0 .value -}}
{{- else if kindIs "slice" .value -}}
{{- join ", " .value -}}
{{- else if kindIs "float64" .value -}}
{{- if eq (floor .value) .value -}}{{- printf "%.0f" .value -}}{{- else -}}{{- .value -}}{{- end -}}
{{- else if kindIs "string" .value -}}
{{- $text := trim .value -}}
{{- if contains "\n" $text -}}
{{- fail (printf "%s has a line break, which the pooler's file cannot hold. Write it in one line." .place) -}}
{{- end -}}
{{- $text -}}
{{- else if not (kindIs "invalid" .value) -}}
{{- .value -}}
{{- end -}}
{{- end -}}

{{/* A name at the beginning of a line. */}}
{{- define "pgweir.iniName" -}}
{{- if regexMatch "^[A-Za-z0-9_.*-]+$" . -}}
{{- . -}}
{{- else -}}
{{- if contains "\n" . -}}{{- fail (printf "The name %q has a line break." .) -}}{{- end -}}
{{- printf "\"%s\"" (replace "\"" "\"\"" .) -}}
{{- end -}}
{{- end -}}

{{/* `key=value key='another value'`: context, section, place, parameters. */}}
{{- define "pgweir.pairs" -}}
{{- $pairs := list -}}
{{- range $key, $value := .parameters -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $text := include "pgweir.sized" (dict "context" $.context "section" $.section "place" (printf "%s.%s" $.place $key) "key" $key "value" $value) -}}
{{- if not (regexMatch "^[^ \t']+$" $text) -}}{{- $text = printf "'%s'" (replace "'" "''" $text) -}}{{- end -}}
{{- $pairs = append $pairs (printf "%s=%s" $key $text) -}}
{{- end -}}
{{- end -}}
{{- join " " $pairs -}}
{{- end -}}

{{/* Where a key of a Secret is mounted: name, key. */}}
{{- define "pgweir.secretPath" -}}
{{- printf "%s/%s/%s" (include "pgweir.secretsFolder" .) .name .key -}}
{{- end -}}

{{/* The Secret with the certificate for clients, and with the one that PostgreSQL is shown: {"name", "cert", "key"}. */}}
{{- define "pgweir.clientCertificate" -}}
{{- if .Values.certManager.client.enabled -}}
{{- dict "name" (printf "%s-client-tls" (include "pgweir.fullname" .)) "cert" "tls.crt" "key" "tls.key" | toJson -}}
{{- else -}}
{{- toJson .Values.tls.client.secret -}}
{{- end -}}
{{- end -}}

{{- define "pgweir.serverCertificate" -}}
{{- if .Values.certManager.server.enabled -}}
{{- dict "name" (printf "%s-server-tls" (include "pgweir.fullname" .)) "cert" "tls.crt" "key" "tls.key" | toJson -}}
{{- else -}}
{{- toJson .Values.tls.server.secret -}}
{{- end -}}
{{- end -}}

{{- define "pgweir.clientTlsMode" -}}
{{- $certificate := fromJson (include "pgweir.clientCertificate" .) -}}
{{- .Values.tls.client.mode | default (ternary "require" "disable" (ne $certificate.name "")) -}}
{{- end -}}

{{/* A URL says it by itself. */}}
{{- define "pgweir.serverTlsMode" -}}
{{- .Values.tls.server.mode | default (ternary "prefer" "" (eq (include "pgweir.hasFiles" .) "yes")) -}}
{{- end -}}

{{/* The path of the CA of PostgreSQL's certificate, if there is one. */}}
{{- define "pgweir.serverCa" -}}
{{- $tls := .Values.tls.server -}}
{{- if $tls.caSecret.name -}}
{{- include "pgweir.secretPath" (dict "name" $tls.caSecret.name "key" $tls.caSecret.key) -}}
{{- else if $tls.caConfigMap.name -}}
{{- printf "/run/pgweir-ca/%s" $tls.caConfigMap.key -}}
{{- else if and .Values.certManager.server.enabled .Values.certManager.server.ca -}}
{{- include "pgweir.secretPath" (dict "name" (printf "%s-server-tls" (include "pgweir.fullname" .)) "key" "ca.crt") -}}
{{- end -}}
{{- end -}}

{{/*
Whether pods may fail to pass on cancel requests to each other, because tls.server holds for these connections too: "none" if pods show
no certificate, "other" if it is not known to be of the CA that PostgreSQL's is checked by.
*/}}
{{- define "pgweir.peerTrouble" -}}
{{- $mode := include "pgweir.serverTlsMode" . -}}
{{- $ca := include "pgweir.serverCa" . -}}
{{- $client := fromJson (include "pgweir.clientCertificate" .) -}}
{{- $manager := .Values.certManager -}}
{{- $isTogether := eq $ca (include "pgweir.secretPath" (dict "name" $client.name "key" "ca.crt")) -}}
{{- $isIssuedTogether := and $manager.client.enabled $manager.server.enabled (hasSuffix "-server-tls/ca.crt" $ca) (eq (toJson $manager.client.issuerRef) (toJson $manager.server.issuerRef)) -}}
{{- if not (has $mode (list "require" "verify-ca" "verify-full")) -}}
{{- else if eq (include "pgweir.clientTlsMode" .) "disable" -}}none
{{- else if eq $mode "require" -}}
{{- else if or $isIssuedTogether (and $isTogether (or $manager.client.enabled (eq $mode "verify-ca"))) -}}
{{- else -}}other
{{- end -}}
{{- end -}}

{{/* What the chart itself says in [pgbouncer], as JSON. Who sets one of these in settings is refused. */}}
{{- define "pgweir.ownSettings" -}}
{{- $own := dict
  "listen_addr" "*"
  "listen_port" (int64 .Values.port)
  "unix_socket_dir" ""
  "shutdown_timeout" (int64 .Values.drain.shutdownSeconds) -}}
{{- if .Values.http.enabled -}}
{{- /* The kubelet asks by the pod's address, of whichever family. */ -}}
{{- $_ := set $own "http_listen" (printf "*:%d" (int64 .Values.http.port)) -}}
{{- end -}}
{{- if include "pgweir.hasFiles" . -}}
{{- $_ := set $own "watch_config" 1 -}}
{{- if .Values.auth.hba -}}{{- $_ := set $own "auth_hba_file" (printf "%s/pg_hba.conf" (include "pgweir.configFolder" .)) -}}{{- end -}}
{{- with .Values.auth.hbaSecret -}}{{- if .name -}}{{- $_ := set $own "auth_hba_file" (include "pgweir.secretPath" .) -}}{{- end -}}{{- end -}}
{{- if .Values.auth.ident -}}{{- $_ := set $own "auth_ident_file" (printf "%s/pg_ident.conf" (include "pgweir.configFolder" .)) -}}{{- end -}}
{{- if .Values.classRules -}}{{- $_ := set $own "class_file" (printf "%s/classes.conf" (include "pgweir.configFolder" .)) -}}{{- end -}}
{{- end -}}
{{- with .Values.auth.usersSecret -}}
{{- if .name -}}{{- $_ := set $own "auth_file" (include "pgweir.secretPath" .) -}}{{- end -}}
{{- end -}}
{{- $mode := include "pgweir.clientTlsMode" . -}}
{{- $_ := set $own "client_tls_sslmode" $mode -}}
{{- $client := fromJson (include "pgweir.clientCertificate" .) -}}
{{- if and (ne $mode "disable") $client.name -}}
{{- $_ := set $own "client_tls_cert_file" (include "pgweir.secretPath" (dict "name" $client.name "key" $client.cert)) -}}
{{- $_ := set $own "client_tls_key_file" (include "pgweir.secretPath" (dict "name" $client.name "key" $client.key)) -}}
{{- with .Values.tls.client.caSecret -}}
{{- if .name -}}{{- $_ := set $own "client_tls_ca_file" (include "pgweir.secretPath" .) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- with include "pgweir.serverTlsMode" . -}}{{- $_ := set $own "server_tls_sslmode" . -}}{{- end -}}
{{- with include "pgweir.serverCa" . -}}{{- $_ := set $own "server_tls_ca_file" . -}}{{- end -}}
{{- $server := fromJson (include "pgweir.serverCertificate" .) -}}
{{- if $server.name -}}
{{- $_ := set $own "server_tls_cert_file" (include "pgweir.secretPath" (dict "name" $server.name "key" $server.cert)) -}}
{{- $_ := set $own "server_tls_key_file" (include "pgweir.secretPath" (dict "name" $server.name "key" $server.key)) -}}
{{- end -}}
{{- toJson $own -}}
{{- end -}}

{{/* All settings as a pod has them, as JSON. */}}
{{- define "pgweir.podSettings" -}}
{{- $context := . -}}
{{- $all := dict -}}
{{- range $key, $value := .Values.settings -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $_ := set $all $key (include "pgweir.sized" (dict "context" $context "section" "settings" "place" (printf "settings.%s" $key) "key" $key "value" $value)) -}}
{{- end -}}
{{- end -}}
{{- range $key, $value := fromJson (include "pgweir.ownSettings" .) -}}
{{- $_ := set $all $key (include "pgweir.value" (dict "value" $value "place" $key)) -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{/* A pod that runs cannot take these up: it is started anew when one of them changes. */}}
{{- define "pgweir.restartSettings" -}}
{{- $restart := dict -}}
{{- $settings := fromJson (include "pgweir.podSettings" .) -}}
{{- range .Files.Lines "files/restart-settings.txt" -}}
{{- if hasKey $settings . -}}{{- $_ := set $restart . (get $settings .) -}}{{- end -}}
{{- end -}}
{{- toJson $restart -}}
{{- end -}}

{{- define "pgweir.databaseParameters" -}}
{{- $parameters := omit .database "passwordSecret" -}}
{{- with get .database "passwordSecret" -}}
{{- $_ := set $parameters "password_file" (include "pgweir.secretPath" (dict "name" .name "key" (.key | default "password"))) -}}
{{- end -}}
{{- toJson $parameters -}}
{{- end -}}

{{- define "pgweir.ini" -}}
{{- $context := . -}}
; Made by the Helm chart. Sizes are those of one pod.
{{- range $server, $entry := fromJson (include "pgweir.budget" .) }}
; {{ $server }} gets {{ int64 $entry.perPod }} connections from a pod at most, {{ int64 $entry.total }} from up to {{ include "pgweir.pods" $context }} pods.
{{- end }}
{{- if .Values.databases }}

[databases]
{{- range $name, $database := .Values.databases }}
{{- $parameters := fromJson (include "pgweir.databaseParameters" (dict "database" ($database | default dict))) }}
{{ include "pgweir.iniName" $name }} = {{ include "pgweir.pairs" (dict "context" $context "section" "databases" "place" (printf "databases.%s" $name) "parameters" $parameters) }}
{{- end }}
{{- end }}
{{- if .Values.databasesSecret.name }}
{{- if not .Values.databases }}

[databases]
{{- end }}
%include {{ include "pgweir.secretPath" .Values.databasesSecret }}
{{- end }}
{{- if .Values.users }}

[users]
{{- range $name, $user := .Values.users }}
{{ include "pgweir.iniName" $name }} = {{ include "pgweir.pairs" (dict "context" $context "section" "users" "place" (printf "users.%s" $name) "parameters" ($user | default dict)) }}
{{- end }}
{{- end }}
{{- if .Values.classes }}

[classes]
{{- range $name, $class := .Values.classes }}
{{ include "pgweir.iniName" $name }} = {{ include "pgweir.pairs" (dict "context" $context "section" "classes" "place" (printf "classes.%s" $name) "parameters" ($class | default dict)) }}
{{- end }}
{{- end }}
{{- if include "pgweir.hasPeers" . }}

[peers]
{{- range $index := until (include "pgweir.replicasMax" . | int) }}
{{ add $index 1 }} = host={{ include "pgweir.fullname" $context }}-{{ $index }}.{{ include "pgweir.podsService" $context }}.{{ $context.Release.Namespace }}.svc port={{ int64 $context.Values.port }} pool_size=20
{{- end }}
{{- end }}

[pgbouncer]
{{- with .Values.settingsSecret }}{{ if .name }}
%include {{ include "pgweir.secretPath" . }}
{{- end }}{{ end }}
{{- range $key, $value := fromJson (include "pgweir.podSettings" .) }}
{{ $key }} ={{ with $value }} {{ . }}{{ end }}
{{- end }}
{{ end -}}

{{/* Secrets that are mounted, as JSON: {"NAME": ["KEY", ...]}. */}}
{{- define "pgweir.secrets" -}}
{{- $wanted := list -}}
{{- if include "pgweir.hasFiles" . -}}
{{- range $name, $database := .Values.databases -}}
{{- with get ($database | default dict) "passwordSecret" -}}{{- $wanted = append $wanted (list .name (.key | default "password")) -}}{{- end -}}
{{- end -}}
{{- with .Values.databasesSecret -}}{{- $wanted = append $wanted (list .name .key) -}}{{- end -}}
{{- with .Values.settingsSecret -}}{{- $wanted = append $wanted (list .name .key) -}}{{- end -}}
{{- with .Values.auth.hbaSecret -}}{{- $wanted = append $wanted (list .name .key) -}}{{- end -}}
{{- else -}}
{{- with .Values.urlSecret -}}{{- $wanted = append $wanted (list .name .key) -}}{{- end -}}
{{- end -}}
{{- with .Values.auth.usersSecret -}}{{- $wanted = append $wanted (list .name .key) -}}{{- end -}}
{{- if ne (include "pgweir.clientTlsMode" .) "disable" -}}
{{- with fromJson (include "pgweir.clientCertificate" .) -}}{{- $wanted = append $wanted (list .name .cert) -}}{{- $wanted = append $wanted (list .name .key) -}}{{- end -}}
{{- with .Values.tls.client.caSecret -}}{{- $wanted = append $wanted (list .name .key) -}}{{- end -}}
{{- end -}}
{{- with fromJson (include "pgweir.serverCertificate" .) -}}{{- $wanted = append $wanted (list .name .cert) -}}{{- $wanted = append $wanted (list .name .key) -}}{{- end -}}
{{- with .Values.tls.server.caSecret -}}{{- $wanted = append $wanted (list .name .key) -}}{{- end -}}
{{- if and .Values.certManager.server.enabled .Values.certManager.server.ca (not .Values.tls.server.caSecret.name) (not .Values.tls.server.caConfigMap.name) -}}
{{- $wanted = append $wanted (list (printf "%s-server-tls" (include "pgweir.fullname" .)) "ca.crt") -}}
{{- end -}}
{{- $secrets := dict -}}
{{- range $wanted -}}
{{- if first . -}}
{{- $keys := get $secrets (first .) | default list -}}
{{- $_ := set $secrets (first .) (append $keys (last .) | uniq | sortAlpha) -}}
{{- end -}}
{{- end -}}
{{- toJson $secrets -}}
{{- end -}}

{{/* Those of them that cert-manager makes. */}}
{{- define "pgweir.madeSecrets" -}}
{{- $made := list -}}
{{- if .Values.certManager.client.enabled -}}{{- $made = append $made (printf "%s-client-tls" (include "pgweir.fullname" .)) -}}{{- end -}}
{{- if .Values.certManager.server.enabled -}}{{- $made = append $made (printf "%s-server-tls" (include "pgweir.fullname" .)) -}}{{- end -}}
{{- toJson $made -}}
{{- end -}}
