{{/*
Sizes are for the whole release. Here they are divided among pods, and their sum is held against what PostgreSQL allows.
*/}}

{{/* The most replicas that may be asked for. */}}
{{- define "pgweir.replicasMax" -}}
{{- if or .Values.autoscaling.enabled .Values.autoscaling.keda.enabled -}}
{{- int64 .Values.autoscaling.maxReplicas -}}
{{- else -}}
{{- int64 .Values.replicaCount -}}
{{- end -}}
{{- end -}}

{{/*
Replicas to ask for. With an autoscaler those that there are: without a number Kubernetes takes 1, and all clients would meet in one
pod. Where Helm sees no cluster (helm template) nothing is said.
*/}}
{{- define "pgweir.replicas" -}}
{{- if not (or .Values.autoscaling.enabled .Values.autoscaling.keda.enabled) -}}
{{- int64 .Values.replicaCount -}}
{{- else if lookup "v1" "ConfigMap" .Release.Namespace "kube-root-ca.crt" -}}
{{- $there := lookup "apps/v1" .Values.kind .Release.Namespace (include "pgweir.fullname" .) -}}
{{- $replicas := dig "spec" "replicas" .Values.autoscaling.minReplicas ($there | default dict) -}}
{{- int64 $replicas -}}
{{- end -}}
{{- end -}}

{{/*
A Deployment's strategy: one pod more at a time, as far as nothing else is said. Kubernetes' own default is a quarter more. It refuses a
rollout that may neither add nor take away a pod.
*/}}
{{- define "pgweir.strategy" -}}
{{- $given := .Values.updateStrategy -}}
{{- if eq (get $given "type" | default "RollingUpdate") "RollingUpdate" -}}
{{- $rolling := dict -}}
{{- range $key, $value := get $given "rollingUpdate" | default dict -}}
{{- if not (kindIs "invalid" $value) -}}{{- $_ := set $rolling $key $value -}}{{- end -}}
{{- end -}}
{{- if not (hasKey $rolling "maxSurge") -}}{{- $_ := set $rolling "maxSurge" 1 -}}{{- end -}}
{{- if not (hasKey $rolling "maxUnavailable") -}}
{{- $_ := set $rolling "maxUnavailable" (has (toString $rolling.maxSurge) (list "0" "0%") | ternary 1 0) -}}
{{- end -}}
{{- $given = merge (dict "type" "RollingUpdate" "rollingUpdate" $rolling) (omit $given "type" "rollingUpdate") -}}
{{- end -}}
{{- toYaml $given -}}
{{- end -}}

{{/* A Deployment's pods beyond its replicas during a rollout. */}}
{{- define "pgweir.surge" -}}
{{- $strategy := fromYaml (include "pgweir.strategy" .) -}}
{{- if eq (get $strategy "type") "Recreate" -}}0
{{- else -}}
{{- $surge := toString (dig "rollingUpdate" "maxSurge" 0 $strategy) -}}
{{- if hasSuffix "%" $surge -}}
{{- divf (mulf (include "pgweir.replicasMax" .) (trimSuffix "%" $surge)) 100 | ceil | int64 -}}
{{- else -}}
{{- int64 $surge -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
The most pods that can hold connections at one time. A StatefulSet gives a pod's number to a new pod only when the old one has
ended. A Deployment does not count pods that are ending, so that in a rollout all old ones may still drain beside the new ones.
*/}}
{{- define "pgweir.pods" -}}
{{- $replicas := include "pgweir.replicasMax" . | int64 -}}
{{- $most := $replicas -}}
{{- if and (eq .Values.kind "Deployment") (ne (get .Values.updateStrategy "type") "Recreate") -}}
{{- $most = add $replicas (include "pgweir.surge" .) $replicas -}}
{{- end -}}
{{- $given := int64 .Values.sizing.pods -}}
{{- if and (gt $given 0) (lt $given $replicas) -}}
{{- fail (printf "sizing.pods is %d, but there may be %d replicas. Set it to %d or more, or to 0 to have pods counted." $given $replicas $replicas) -}}
{{- end -}}
{{- if gt $given 0 -}}{{- $given -}}{{- else -}}{{- max $most 1 -}}{{- end -}}
{{- end -}}

{{/* Each pod's part of a size: context, name, value; atLeastOne: rounded up. 0, auto and nothing stay. */}}
{{- define "pgweir.part" -}}
{{- if or (kindIs "invalid" .value) (kindIs "string" .value) -}}
{{- .value -}}
{{- else -}}
{{- $whole := int64 .value -}}
{{- $pods := include "pgweir.pods" .context | int64 -}}
{{- if .atLeastOne -}}
{{- div (add $whole (sub $pods 1)) $pods -}}
{{- else if and (gt $whole 0) (lt $whole $pods) -}}
{{- $count := "replicaCount" -}}
{{- if or .context.Values.autoscaling.enabled .context.Values.autoscaling.keda.enabled -}}{{- $count = "autoscaling.maxReplicas" -}}{{- end -}}
{{- fail (printf "%s is %d for the whole release, but there may be %d pods at one time, and each needs 1 of it at least. Set it to %d or more, or lower %s." .name $whole $pods $pods $count) -}}
{{- else -}}
{{- div $whole $pods -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Names of the values that are divided; those of min are rounded up. */}}
{{- define "pgweir.divided" -}}
settings: [default_pool_size, min_pool_size, reserve_pool_size, max_db_connections, max_user_connections, max_server_connections, max_pinned, auto_pool_size_max, fingerprint_max_active]
databases: [pool_size, min_pool_size, reserve_pool_size, reserve_pool, max_db_connections, max_pinned]
users: [pool_size, reserve_pool_size, max_user_connections, max_pinned]
classes: [max, max_waiting, tps, tps_burst, qps, qps_burst, logins, logins_burst, max_active]
min: [min, auto_pool_size_min]
{{- end -}}

{{/* A value as a pod's file has it: context, section, place (its name in values), key, value. */}}
{{- define "pgweir.sized" -}}
{{- $divided := fromYaml (include "pgweir.divided" .) -}}
{{- if has .key $divided.min -}}
{{- include "pgweir.part" (dict "context" .context "name" .place "value" .value "atLeastOne" true) -}}
{{- else if has .key (get $divided .section) -}}
{{- include "pgweir.part" (dict "context" .context "name" .place "value" .value) -}}
{{- else if eq .key "fingerprint_limits" -}}
{{- include "pgweir.fingerprintLimits" . -}}
{{- else -}}
{{- include "pgweir.value" (dict "value" .value "place" .place) -}}
{{- end -}}
{{- end -}}

{{/* `statement:number, ...`: the numbers are divided. */}}
{{- define "pgweir.fingerprintLimits" -}}
{{- $context := .context -}}
{{- $place := .place -}}
{{- $list := .value -}}
{{- if kindIs "string" $list -}}{{- $list = splitList "," $list -}}{{- end -}}
{{- $parts := list -}}
{{- range $list -}}
{{- $pair := splitList ":" (trim .) -}}
{{- if ne (len $pair) 2 -}}
{{- fail (printf "%s has %q, but each item is statement:number, such as 54856474b8f4c0e4:6." $place .) -}}
{{- end -}}
{{- $part := include "pgweir.part" (dict "context" $context "name" (printf "%s, %s," $place (first $pair)) "value" (int64 (last $pair))) -}}
{{- $parts = append $parts (printf "%s:%s" (first $pair) $part) -}}
{{- end -}}
{{- join ", " $parts -}}
{{- end -}}

{{/* What one pod may open for a database: {"perPod", "why"}; perPod is -1 if nothing bounds it. context, name, database. */}}
{{- define "pgweir.databaseBound" -}}
{{- $context := .context -}}
{{- $settings := $context.Values.settings -}}
{{- $name := .name -}}
{{- $database := .database -}}
{{- $own := dict -}}
{{- with get $database "user" -}}{{- $own = get $context.Values.users . | default dict -}}{{- end -}}
{{- $size := get $settings "default_pool_size" -}}
{{- $why := "settings.default_pool_size" -}}
{{- if hasKey $database "pool_size" -}}{{- $size = $database.pool_size -}}{{- $why = printf "databases.%s.pool_size" $name -}}{{- end -}}
{{- if hasKey $own "pool_size" -}}{{- $size = $own.pool_size -}}{{- $why = printf "users.%s.pool_size" $database.user -}}{{- end -}}
{{- if eq (toString $size) "auto" -}}{{- $size = $settings.auto_pool_size_max -}}{{- $why = "settings.auto_pool_size_max" -}}{{- end -}}
{{- $part := include "pgweir.part" (dict "context" $context "name" $why "value" (int64 $size)) | int64 -}}
{{- $words := printf "%s %d" $why (int64 $size) -}}
{{- $reserve := get $settings "reserve_pool_size" -}}
{{- $reserveWhy := "settings.reserve_pool_size" -}}
{{- range $key := list "reserve_pool" "reserve_pool_size" -}}
{{- if hasKey $database $key -}}{{- $reserve = get $database $key -}}{{- $reserveWhy = printf "databases.%s.%s" $name $key -}}{{- end -}}
{{- end -}}
{{- if hasKey $own "reserve_pool_size" -}}{{- $reserve = $own.reserve_pool_size -}}{{- $reserveWhy = printf "users.%s.reserve_pool_size" $database.user -}}{{- end -}}
{{- if eq (toString (get $settings "reserve_pool_timeout")) "0" -}}{{- $reserve = 0 -}}{{- end -}}
{{- if gt (int64 $reserve) 0 -}}
{{- $part = add $part (include "pgweir.part" (dict "context" $context "name" $reserveWhy "value" (int64 $reserve)) | int64) -}}
{{- $words = printf "%s + %s %d" $words $reserveWhy (int64 $reserve) -}}
{{- end -}}
{{- $limit := get $settings "max_db_connections" -}}
{{- $limitWhy := "settings.max_db_connections" -}}
{{- if hasKey $database "max_db_connections" -}}{{- $limit = $database.max_db_connections -}}{{- $limitWhy = printf "databases.%s.max_db_connections" $name -}}{{- end -}}
{{- $limitPart := include "pgweir.part" (dict "context" $context "name" $limitWhy "value" (int64 $limit)) | int64 -}}
{{- $isOne := and (get $database "user") (ne $name "*") -}}
{{- if and (gt $limitPart 0) (ne $name "*") (or (not $isOne) (lt $limitPart $part)) -}}
{{- $part = $limitPart -}}
{{- $words = printf "%s %d" $limitWhy (int64 $limit) -}}
{{- else if not $isOne -}}
{{- $part = -1 -}}
{{- end -}}
{{- dict "perPod" $part "why" $words | toJson -}}
{{- end -}}

{{/* What is allowed at a server ("host:port"): {"max", "reserved", "others"}. */}}
{{- define "pgweir.allowed" -}}
{{- $postgresql := .context.Values.postgresql -}}
{{- $own := get $postgresql.servers .server | default dict -}}
{{- $max := int64 (get $own "maxConnections" | default $postgresql.maxConnections) -}}
{{- $reserved := int64 (hasKey $own "reservedConnections" | ternary (get $own "reservedConnections") $postgresql.reservedConnections) -}}
{{- $others := int64 (hasKey $own "otherConnections" | ternary (get $own "otherConnections") $postgresql.otherConnections) -}}
{{- dict "max" $max "reserved" $reserved "others" $others "allowed" (max 0 (sub (sub $max $reserved) $others)) | toJson -}}
{{- end -}}

{{/* For each server what all pods may open there, as JSON: {"host:port": {"perPod", "total", "allowed", "max", "databases"}}. Fails where it does not fit. */}}
{{- define "pgweir.budget" -}}
{{- $context := . -}}
{{- $settings := .Values.settings -}}
{{- $pods := include "pgweir.pods" . | int64 -}}
{{- $together := include "pgweir.part" (dict "context" . "name" "settings.max_server_connections" "value" (int64 (get $settings "max_server_connections"))) | int64 -}}
{{- $servers := dict -}}
{{- range $name, $given := .Values.databases -}}
{{- $database := $given | default dict -}}
{{- $port := get $database "port" | default 5432 | int64 -}}
{{- $bound := fromJson (include "pgweir.databaseBound" (dict "context" $context "name" $name "database" $database)) -}}
{{- $perPod := int64 $bound.perPod -}}
{{- /* auth_query has a connection of its own. */ -}}
{{- $isAsked := or (get $database "auth_user") (get $settings "auth_user") -}}
{{- $isAsked = and $isAsked (or (not (get $settings "auth_dbname")) (eq (get $settings "auth_dbname" | toString) $name)) -}}
{{- /* All connections of a database with several hosts may end up at one of them. */ -}}
{{- range $host := splitList "," (get $database "host") | uniq -}}
{{- $server := printf "%s:%d" (trim $host) $port -}}
{{- $entry := get $servers $server | default (dict "perPod" 0 "unbounded" list "databases" list "why" list) -}}
{{- if lt $perPod 0 -}}
{{- $_ := set $entry "unbounded" (append $entry.unbounded $name) -}}
{{- else -}}
{{- $_ := set $entry "perPod" (add (int64 $entry.perPod) $perPod) -}}
{{- end -}}
{{- if $isAsked -}}{{- $_ := set $entry "perPod" (add (int64 $entry.perPod) 1) -}}{{- end -}}
{{- $_ := set $entry "databases" (append $entry.databases $name) -}}
{{- $_ := set $entry "why" (append $entry.why $bound.why) -}}
{{- $_ := set $servers $server $entry -}}
{{- end -}}
{{- end -}}
{{- range $server, $entry := $servers -}}
{{- $allowed := fromJson (include "pgweir.allowed" (dict "context" $context "server" $server)) -}}
{{- $perPod := int64 $entry.perPod -}}
{{- $why := join ", " $entry.why -}}
{{- if and (gt $together 0) (or $entry.unbounded (lt $together $perPod)) -}}
{{- $perPod = $together -}}
{{- $why = printf "settings.max_server_connections %d" (int64 $settings.max_server_connections) -}}
{{- else if and $entry.unbounded (gt (int64 $allowed.max) 0) -}}
{{- $name := first $entry.unbounded -}}
{{- if eq $name "*" -}}
{{- fail (printf "databases.\"*\" makes a database of any name, so nothing bounds its connections to %s. Set settings.max_server_connections to %d at most, or take \"*\" out; or turn the check off with postgresql.maxConnections: 0." $server (int64 $allowed.allowed)) -}}
{{- end -}}
{{- fail (printf "databases.%s has a pool for each user who logs in, so nothing bounds its connections to %s. Set databases.%s.max_db_connections (%d at most), or databases.%s.user for one pool; or turn the check off with postgresql.maxConnections: 0." $name $server $name (int64 $allowed.allowed) $name) -}}
{{- end -}}
{{- $total := mul $perPod $pods -}}
{{- if and (gt (int64 $allowed.max) 0) (gt $total (int64 $allowed.allowed)) -}}
{{- fail (printf "The pools of %s may open %d connections to %s (%d on each of up to %d pods, by %s), but it allows %d: max_connections %d, less %d reserved and %d for others. Lower these sizes to %d in sum, or raise max_connections in PostgreSQL and postgresql.maxConnections to %d." (join ", " $entry.databases) $total $server $perPod $pods $why (int64 $allowed.allowed) (int64 $allowed.max) (int64 $allowed.reserved) (int64 $allowed.others) (mul (div (int64 $allowed.allowed) $pods) $pods) (add $total (int64 $allowed.reserved) (int64 $allowed.others))) -}}
{{- end -}}
{{- $_ := set $entry "perPod" $perPod -}}
{{- $_ := set $entry "total" $total -}}
{{- $_ := set $entry "allowed" $allowed.allowed -}}
{{- $_ := set $entry "max" $allowed.max -}}
{{- end -}}
{{- toJson $servers -}}
{{- end -}}

{{/* From a URL: the connections of all pods together. */}}
{{- define "pgweir.urlConnections" -}}
{{- $given := int64 (get .Values.settings "max_server_connections") -}}
{{- $allowed := fromJson (include "pgweir.allowed" (dict "context" . "server" "")) -}}
{{- if and (gt $given 0) (gt (int64 $allowed.max) 0) (gt $given (int64 $allowed.allowed)) -}}
{{- fail (printf "settings.max_server_connections is %d, but PostgreSQL allows %d: max_connections %d, less %d reserved and %d for others. Lower it, or raise max_connections in PostgreSQL and postgresql.maxConnections to %d." $given (int64 $allowed.allowed) (int64 $allowed.max) (int64 $allowed.reserved) (int64 $allowed.others) (add $given (int64 $allowed.reserved) (int64 $allowed.others))) -}}
{{- end -}}
{{- if gt $given 0 -}}
{{- $given -}}
{{- else if gt (int64 $allowed.max) 0 -}}
{{- int64 $allowed.allowed -}}
{{- else -}}
{{- fail "With urlSecret and postgresql.maxConnections: 0 nothing bounds the connections to PostgreSQL. Set settings.max_server_connections." -}}
{{- end -}}
{{- end -}}
