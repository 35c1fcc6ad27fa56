{{/* What cannot work is refused here, with a sentence that says what to change. */}}

{{- define "pgweir.checks" -}}
{{- include "pgweir.checkSource" . -}}
{{- include "pgweir.checkLogins" . -}}
{{- include "pgweir.checkSettings" . -}}
{{- include "pgweir.checkDatabases" . -}}
{{- include "pgweir.checkClasses" . -}}
{{- include "pgweir.checkTls" . -}}
{{- include "pgweir.checkHttp" . -}}
{{- include "pgweir.checkService" . -}}
{{- include "pgweir.checkScaling" . -}}
{{- include "pgweir.checkMonitoring" . -}}
{{- include "pgweir.checkTest" . -}}
{{- if .Values.checks.secrets -}}{{- include "pgweir.checkSecrets" . -}}{{- end -}}
{{- end -}}

{{- define "pgweir.checkSource" -}}
{{- if not .Values.image.repository -}}
{{- fail "image.repository is not set: say where the cluster finds the image, such as registry.example.org/pgweir. `make image` builds it." -}}
{{- end -}}
{{- $hasFiles := or .Values.databases .Values.databasesSecret.name -}}
{{- if and .Values.urlSecret.name $hasFiles -}}
{{- fail "urlSecret.name is set, and databases or databasesSecret too. Keep one: a URL for one database, databases for everything else." -}}
{{- end -}}
{{- if not (or .Values.urlSecret.name $hasFiles) -}}
{{- fail "There is no database. Set databases (a host for each name), or urlSecret.name, a Secret that has a postgres:// URL." -}}
{{- end -}}
{{- if .Values.urlSecret.name -}}
{{- range $key := list "users" "classes" "classRules" -}}
{{- if get $.Values $key -}}{{- fail (printf "%s needs the pooler's file, and with urlSecret there is none. Describe the database in databases instead of urlSecret." $key) -}}{{- end -}}
{{- end -}}
{{- if .Values.settingsSecret.name -}}
{{- fail "settingsSecret.name needs the pooler's file, and with urlSecret there is none. Give a setting with a password as a variable of the pod, such as PGWEIR_AUTH_LDAP_OPTIONS, by extraEnv from a Secret; or describe the database in databases instead of urlSecret." -}}
{{- end -}}
{{- if .Values.auth.hbaSecret.name -}}
{{- fail "auth.hbaSecret.name needs the pooler's file, and with urlSecret there is none. Describe the database in databases instead of urlSecret." -}}
{{- end -}}
{{- range $key := list "hba" "ident" -}}
{{- if get $.Values.auth $key -}}{{- fail (printf "auth.%s needs the pooler's file, and with urlSecret there is none. Describe the database in databases instead of urlSecret." $key) -}}{{- end -}}
{{- end -}}
{{- if .Values.auth.usersSecret.name -}}
{{- fail "auth.usersSecret.name needs the pooler's file, and with urlSecret there is none: who knows the password of the URL may log in. Describe the database in databases instead of urlSecret." -}}
{{- end -}}
{{- $_ := include "pgweir.urlConnections" . -}}
{{- end -}}
{{- if and .Values.databasesSecret.name (not (get .Values.settings "max_server_connections")) -}}
{{- fail "databasesSecret.name is set, and the chart cannot see the sizes in that Secret. Set settings.max_server_connections, which bounds the connections of all its databases together." -}}
{{- end -}}
{{- end -}}

{{- define "pgweir.checkLogins" -}}
{{- if include "pgweir.hasFiles" . -}}
{{- $type := get .Values.settings "auth_type" | default "md5" -}}
{{- $users := .Values.auth.usersSecret.name -}}
{{- if eq $type "pam" -}}
{{- fail "settings.auth_type is pam, which the image's program has not: it is static. Use another auth_type, such as scram-sha-256 or ldap." -}}
{{- end -}}
{{- if and (eq $type "hba") (not (or .Values.auth.hba .Values.auth.hbaSecret.name)) -}}
{{- fail "settings.auth_type is hba, but there are no rules. Put the lines of pg_hba.conf into auth.hba, or name a Secret that has them in auth.hbaSecret.name." -}}
{{- end -}}
{{- if and .Values.auth.hba .Values.auth.hbaSecret.name -}}
{{- fail "auth.hba and auth.hbaSecret.name are both set. Keep one of them." -}}
{{- end -}}
{{- if and (not $users) (has $type (list "md5" "scram-sha-256" "plain" "cert" "trust" "peer")) -}}
{{- fail (printf "Nobody could log in: with settings.auth_type = %s users have to be known, and auth.usersSecret.name is not set. Create a Secret with lines `\"user\" \"password\"` (kubectl create secret generic pooler-users --from-file=users.txt) and name it there." $type) -}}
{{- end -}}
{{- if and (get .Values.settings "auth_user") (not $users) -}}
{{- fail "settings.auth_user runs auth_query, and its password has to be in auth_file. Name the Secret that has it in auth.usersSecret.name." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The value of the chart that stands for a setting. */}}
{{- define "pgweir.elsewhere" -}}
listen_addr: "pods listen on all addresses; see service and networkPolicy"
listen_port: "use port"
unix_socket_dir: "a pod has no Unix socket"
unix_socket_group: "a pod has no Unix socket"
unix_socket_mode: "a pod has no Unix socket"
shutdown_timeout: "use drain.shutdownSeconds"
http_listen: "use http.enabled and http.port"
watch_config: "it is on"
auth_file: "name its Secret in auth.usersSecret"
auth_hba_file: "put its lines into auth.hba, or name their Secret in auth.hbaSecret"
auth_ident_file: "put its lines into auth.ident"
class_file: "put its lines into classRules"
client_tls_sslmode: "use tls.client.mode"
client_tls_cert_file: "use tls.client.secret or certManager.client"
client_tls_key_file: "use tls.client.secret or certManager.client"
client_tls_ca_file: "use tls.client.caSecret"
server_tls_sslmode: "use tls.server.mode"
server_tls_cert_file: "use tls.server.secret or certManager.server"
server_tls_key_file: "use tls.server.secret or certManager.server"
server_tls_ca_file: "use tls.server.caSecret or tls.server.caConfigMap"
peer_id: "the chart numbers the pods of a StatefulSet"
so_reuseport: "a pod has one process"
conffile: "the chart makes the file"
pidfile: "the pod's files are read-only, and nothing needs it"
logfile: "the log goes to the pod's output: kubectl logs"
syslog: "the log goes to the pod's output: kubectl logs"
user: "use podSecurityContext.runAsUser"
job_name: "it has no meaning here"
{{- end -}}

{{- define "pgweir.checkSettings" -}}
{{- if contains "ldapbindpasswd" (get .Values.settings "auth_ldap_options" | toString) -}}
{{- $instead := eq (include "pgweir.hasFiles" .) "yes" | ternary "Put the line `auth_ldap_options = ...` into a Secret, and name that in settingsSecret.name" "Set PGWEIR_AUTH_LDAP_OPTIONS by extraEnv from a Secret" -}}
{{- fail (printf "settings.auth_ldap_options has ldapbindpasswd, a password that would stand in the open for all to read. %s." $instead) -}}
{{- end -}}
{{- if contains "ldapbindpasswd" .Values.auth.hba -}}
{{- fail "auth.hba has ldapbindpasswd, a password that would stand in a ConfigMap for all to read. Put the lines into a Secret, and name that in auth.hbaSecret.name." -}}
{{- end -}}
{{- $elsewhere := fromYaml (include "pgweir.elsewhere" .) -}}
{{- range $key, $value := .Values.settings -}}
{{- if hasKey $elsewhere $key -}}
{{- fail (printf "settings.%s cannot be set: %s." $key (get $elsewhere $key)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "pgweir.checkDatabases" -}}
{{- range $name, $given := .Values.databases -}}
{{- $database := $given | default dict -}}
{{- if eq $name "pgbouncer" -}}
{{- fail "databases.pgbouncer: this name is the console's. Take another name, and the database's own in dbname." -}}
{{- end -}}
{{- if not (get $database "host") -}}
{{- fail (printf "databases.%s.host is not set: say where its PostgreSQL is, such as db.example.org." $name) -}}
{{- end -}}
{{- if hasPrefix "/" (get $database "host") -}}
{{- fail (printf "databases.%s.host is %s, a Unix socket, which a pod has not. Give a name or an address." $name $database.host) -}}
{{- end -}}
{{- if hasKey $database "password" -}}
{{- fail (printf "databases.%s.password would stand in a ConfigMap for all to read. Put it into a Secret, and name that in databases.%s.passwordSecret." $name $name) -}}
{{- end -}}
{{- $secret := get $database "passwordSecret" -}}
{{- if and $secret (hasKey $database "password_file") -}}
{{- fail (printf "databases.%s has passwordSecret and password_file. Keep one of them." $name) -}}
{{- end -}}
{{- if and $secret (not (get $secret "name")) -}}
{{- fail (printf "databases.%s.passwordSecret.name is not set: name the Secret that has the password of %s." $name (get $database "user" | default "its user")) -}}
{{- end -}}
{{- if and $secret (not (get $database "user")) -}}
{{- fail (printf "databases.%s has passwordSecret but no user: say whose password it is in databases.%s.user." $name $name) -}}
{{- end -}}
{{- end -}}
{{- $_ := include "pgweir.budget" . -}}
{{- end -}}

{{- define "pgweir.checkClasses" -}}
{{- if and .Values.classRules (not .Values.classes) -}}
{{- fail "classRules says who is in which class, but there are no classes. Describe them in classes." -}}
{{- end -}}
{{- range $name, $class := .Values.classes -}}
{{- with get ($class | default dict) "database" -}}
{{- if and (not (hasKey $.Values.databases .)) (not $.Values.databasesSecret.name) -}}
{{- fail (printf "classes.%s.database is %s, which is not in databases. Add databases.%s, or name one of: %s." $name . . (keys $.Values.databases | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- with get ($class | default dict) "long" -}}
{{- if not (hasKey $.Values.classes .) -}}
{{- fail (printf "classes.%s.long is %s, which is not in classes. Add classes.%s, or name one of: %s." $name . . (keys $.Values.classes | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "pgweir.checkTls" -}}
{{- $mode := include "pgweir.clientTlsMode" . -}}
{{- $client := .Values.tls.client -}}
{{- if and (ne $mode "disable") (not (fromJson (include "pgweir.clientCertificate" .)).name) -}}
{{- fail (printf "tls.client.mode is %s, but there is no certificate. Name a Secret in tls.client.secret.name, or set certManager.client.enabled." $mode) -}}
{{- end -}}
{{- if and .Values.certManager.client.enabled $client.secret.name -}}
{{- fail "tls.client.secret.name and certManager.client.enabled are both set. Keep one of them." -}}
{{- end -}}
{{- if and (hasPrefix "verify" $mode) (not $client.caSecret.name) -}}
{{- fail (printf "tls.client.mode is %s, but there is no CA to check clients' certificates by. Name its Secret in tls.client.caSecret.name." $mode) -}}
{{- end -}}
{{- if and .Values.certManager.server.enabled .Values.tls.server.secret.name -}}
{{- fail "tls.server.secret.name and certManager.server.enabled are both set. Keep one of them." -}}
{{- end -}}
{{- if and .Values.tls.server.caSecret.name .Values.tls.server.caConfigMap.name -}}
{{- fail "tls.server.caSecret.name and tls.server.caConfigMap.name are both set. Keep one of them." -}}
{{- end -}}
{{- if and (hasPrefix "verify" (include "pgweir.serverTlsMode" .)) (not (include "pgweir.serverCa" .)) -}}
{{- fail (printf "tls.server.mode is %s, but there is no CA to check PostgreSQL's certificate by. Name it in tls.server.caSecret.name or tls.server.caConfigMap.name." .Values.tls.server.mode) -}}
{{- end -}}
{{- range $side := list "client" "server" -}}
{{- $manager := get $.Values.certManager $side -}}
{{- if and $manager.enabled (not (get $manager.issuerRef "name")) -}}
{{- fail (printf "certManager.%s.enabled is true, but certManager.%s.issuerRef.name is not set. Name the Issuer or ClusterIssuer of cert-manager (with kind)." $side $side) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "pgweir.checkHttp" -}}
{{- if not .Values.http.enabled -}}
{{- range $probe := list "livenessProbe" "readinessProbe" "startupProbe" -}}
{{- if (get $.Values $probe).enabled -}}
{{- fail (printf "http.enabled is false, but %s asks the pod by HTTP. Set http.enabled: true, or %s.enabled: false." $probe $probe) -}}
{{- end -}}
{{- end -}}
{{- if eq (toString .Values.monitoring.podMonitor.enabled) "true" -}}
{{- fail "http.enabled is false, but monitoring.podMonitor.enabled has Prometheus read metrics by HTTP. Set http.enabled: true, or monitoring.podMonitor.enabled: false." -}}
{{- end -}}
{{- if eq (toString .Values.monitoring.prometheusRule.enabled) "true" -}}
{{- fail "http.enabled is false, but monitoring.prometheusRule.enabled has alerts by metrics, which nobody could read. Set http.enabled: true, or monitoring.prometheusRule.enabled: false." -}}
{{- end -}}
{{- if .Values.monitoring.scrapeAnnotations -}}
{{- fail "http.enabled is false, but monitoring.scrapeAnnotations has Prometheus read metrics by HTTP. Set http.enabled: true, or monitoring.scrapeAnnotations: false." -}}
{{- end -}}
{{- if and .Values.test.enabled (not .Values.test.psql.image) -}}
{{- fail "http.enabled is false, but `helm test` asks the pod by HTTP. Set http.enabled: true, or test.enabled: false." -}}
{{- end -}}
{{- end -}}
{{- if eq (int64 .Values.http.port) (int64 .Values.port) -}}
{{- fail (printf "port and http.port are both %d. Change one of them." (int64 .Values.port)) -}}
{{- end -}}
{{- end -}}

{{/* An API server refuses these. */}}
{{- define "pgweir.checkService" -}}
{{- $service := .Values.service -}}
{{- if eq $service.type "ClusterIP" -}}
{{- if and $service.externalTrafficPolicy (not $service.externalIPs) -}}
{{- fail "service.externalTrafficPolicy is for clients from outside of the cluster, and service.type is ClusterIP. Set service.type: LoadBalancer or NodePort, or leave it out." -}}
{{- end -}}
{{- if $service.nodePort -}}
{{- fail "service.nodePort is a port of every node, and service.type is ClusterIP. Set service.type: NodePort or LoadBalancer, or leave it out." -}}
{{- end -}}
{{- end -}}
{{- range $key := list "loadBalancerClass" "loadBalancerSourceRanges" -}}
{{- if and (get $service $key) (ne $service.type "LoadBalancer") -}}
{{- fail (printf "service.%s is for a load balancer, and service.type is %s. Set service.type: LoadBalancer, or leave it out." $key $service.type) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "pgweir.checkScaling" -}}
{{- $scaling := .Values.autoscaling -}}
{{- if and $scaling.enabled $scaling.keda.enabled -}}
{{- fail "autoscaling.enabled and autoscaling.keda.enabled are both true, and would work against each other. Keep one of them." -}}
{{- end -}}
{{- if or $scaling.enabled $scaling.keda.enabled -}}
{{- if gt (int64 $scaling.minReplicas) (int64 $scaling.maxReplicas) -}}
{{- fail (printf "autoscaling.minReplicas is %d, more than autoscaling.maxReplicas, which is %d." (int64 $scaling.minReplicas) (int64 $scaling.maxReplicas)) -}}
{{- end -}}
{{- end -}}
{{- if $scaling.enabled -}}
{{- if not (or $scaling.targetCPUUtilizationPercentage $scaling.targetMemoryUtilizationPercentage $scaling.queueWait.enabled $scaling.extraMetrics) -}}
{{- fail "autoscaling.enabled is true, but there is nothing to scale by. Set autoscaling.targetCPUUtilizationPercentage, or autoscaling.queueWait.enabled." -}}
{{- end -}}
{{- if and $scaling.targetCPUUtilizationPercentage (not (dig "requests" "cpu" "" .Values.resources)) -}}
{{- fail "autoscaling.targetCPUUtilizationPercentage is a part of resources.requests.cpu, which is not set. Set it, or set the percentage to null." -}}
{{- end -}}
{{- if and $scaling.targetMemoryUtilizationPercentage (not (dig "requests" "memory" "" .Values.resources)) -}}
{{- fail "autoscaling.targetMemoryUtilizationPercentage is a part of resources.requests.memory, which is not set. Set it, or set the percentage to null." -}}
{{- end -}}
{{- end -}}
{{- if and $scaling.keda.enabled (not $scaling.keda.prometheusAddress) -}}
{{- fail "autoscaling.keda.enabled is true, but autoscaling.keda.prometheusAddress is not set. Give the address of Prometheus, such as http://prometheus.monitoring.svc:9090." -}}
{{- end -}}
{{- $budget := .Values.podDisruptionBudget -}}
{{- if and $budget.enabled (not (kindIs "invalid" $budget.minAvailable)) (not (kindIs "invalid" $budget.maxUnavailable)) -}}
{{- fail "podDisruptionBudget.minAvailable and podDisruptionBudget.maxUnavailable are both set, and Kubernetes takes one of them." -}}
{{- end -}}
{{- $_ := include "pgweir.graceSeconds" . -}}
{{- end -}}

{{- define "pgweir.checkMonitoring" -}}
{{- if include "pgweir.hasRules" . -}}
{{- if not (.Files.Get "files/pgweir.rules.yaml") -}}
{{- fail "files/pgweir.rules.yaml is not in this copy of the chart: set monitoring.prometheusRule.enabled: false, or take a whole copy." -}}
{{- end -}}
{{- end -}}
{{- if and .Values.monitoring.dashboard.enabled (not (.Files.Get "files/pgweir.json")) -}}
{{- fail "files/pgweir.json is not in this copy of the chart: set monitoring.dashboard.enabled: false, or take a whole copy." -}}
{{- end -}}
{{- end -}}

{{- define "pgweir.checkTest" -}}
{{- with .Values.test.psql -}}
{{- if and $.Values.test.enabled .image -}}
{{- if not (and .user .passwordSecret.name) -}}
{{- fail "test.psql.image is set, but not test.psql.user or test.psql.passwordSecret.name: say as whom `helm test` logs in." -}}
{{- end -}}
{{- if not (include "pgweir.testDatabase" $) -}}
{{- fail "test.psql.database is not set, and databases has no name that `helm test` could take (\"*\" is any). Say where it logs in." -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Only Helm with a cluster can look: a namespace that is there has a ConfigMap kube-root-ca.crt. */}}
{{- define "pgweir.checkSecrets" -}}
{{- if lookup "v1" "ConfigMap" .Release.Namespace "kube-root-ca.crt" -}}
{{- $made := fromJsonArray (include "pgweir.madeSecrets" .) -}}
{{- range $name, $keys := fromJson (include "pgweir.secrets" .) -}}
{{- if not (has $name $made) -}}
{{- $secret := lookup "v1" "Secret" $.Release.Namespace $name -}}
{{- if not $secret -}}
{{- fail (printf "There is no Secret %s in namespace %s. Create it with the keys %s before the release, or set checks.secrets: false if something else will." $name $.Release.Namespace (join ", " $keys)) -}}
{{- end -}}
{{- range $key := $keys -}}
{{- if not (hasKey ($secret.data | default dict) $key) -}}
{{- fail (printf "Secret %s in namespace %s has no key %s. It has: %s." $name $.Release.Namespace $key (keys ($secret.data | default dict) | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
