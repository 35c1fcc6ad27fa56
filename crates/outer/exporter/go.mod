module exporter

go 1.25.0

require github.com/prometheus-community/pgbouncer_exporter v0.12.1
