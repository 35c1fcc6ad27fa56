"""Prometheus's own parser against the page of metrics.

    metrics.py URL DATABASE

Metrics of pgbouncer_exporter 0.12 have to be there with its names, types and labels, and a pool of that database. Whatever is not as it should be ends the
program with a traceback; what there is is printed.
"""

import collections
import itertools
import math
import sys
import urllib.request

from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_families
from prometheus_client.parser import text_string_to_metric_families

URL, DATABASE = sys.argv[1:]

# Of the exporter: its prefix, type and labels, and what it makes of columns. Only for PgBouncer before 1.8: stats_totals_queries_total.
EXPORTER = [
    (
        "pgbouncer_stats_totals_",
        "counter",
        ["database"],
        "queries_pooled_total queries_duration_seconds_total received_bytes_total sent_bytes_total client_wait_seconds_total"
        " sql_transactions_pooled_total server_in_transaction_seconds_total client_parses_total server_parses_total binds_total"
        " server_assignments_total",
    ),
    (
        "pgbouncer_pools_",
        "gauge",
        ["database", "user"],
        "client_active_connections client_active_cancel_connections client_waiting_connections client_waiting_cancel_connections"
        " server_active_connections server_active_cancel_connections server_being_canceled_connections server_idle_connections"
        " server_used_connections server_testing_connections server_login_connections client_maxwait_seconds",
    ),
    (
        "pgbouncer_databases_",
        "gauge",
        ["name", "host", "port", "database", "force_user", "pool_mode"],
        "pool_size reserve_pool max_connections current_connections paused disabled",
    ),
    (
        "pgbouncer_",
        "gauge",
        [],
        "databases users pools free_clients used_clients login_clients free_servers used_servers cached_dns_names cached_dns_zones"
        " in_flight_dns_queries config_max_client_connections config_max_user_connections up",
    ),
    ("pgbouncer_", "gauge", ["version"], "version_info"),
]


def fetched(accept):
    request = urllib.request.Request(URL, headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def check_histogram(family):
    """Each has bounds that rise, counts that never fall, and one without bound that is its count."""
    by_labels = collections.defaultdict(list)
    for sample in family.samples:
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        by_labels[tuple(sorted(labels.items()))].append(sample)
    for labels, samples in by_labels.items():
        of = lambda end: [sample for sample in samples if sample.name == family.name + end]
        bounds = [float(sample.labels["le"]) for sample in of("_bucket")]
        counts = [sample.value for sample in of("_bucket")]
        assert bounds == sorted(set(bounds)) and bounds[-1] == math.inf, (family.name, labels, bounds)
        assert counts == sorted(counts) and [counts[-1]] == [sample.value for sample in of("_count")], (family.name, labels, counts)
        assert len(of("_sum")) == 1 and of("_sum")[0].value >= 0, (family.name, labels)
    return len(by_labels)


def check_order(page):
    """All lines of a metric stand together, below the one line that says its type."""
    typed = [line.split(" ")[2] for line in page.splitlines() if line.startswith("# TYPE ")]
    assert len(typed) == len(set(typed)), [name for name, count in collections.Counter(typed).items() if count > 1]
    names = [line.split("{")[0].split(" ")[0] for line in page.splitlines() if not line.startswith("#")]
    together = [name for name, _ in itertools.groupby(names)]
    # Those of a histogram take turns.
    plain = [name for name in together if not name.endswith(("_bucket", "_sum", "_count"))]
    assert len(plain) == len(set(plain)), [name for name, count in collections.Counter(plain).items() if count > 1]


def check_page(page, families):
    series, types, labels = set(), {}, {}
    for family in families:
        assert family.samples, family.name
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in series, key
            series.add(key)
            types[sample.name] = family.type
            labels.setdefault(sample.name, []).append(set(sample.labels))
            assert not math.isnan(sample.value), key
            assert family.type != "counter" or sample.name.endswith("_total"), key
    for prefix, kind, names_of_labels, metrics in EXPORTER:
        for name in [prefix + metric for metric in metrics.split()]:
            assert types.get(name) == kind, (name, types.get(name), kind)
            assert all(found == set(names_of_labels) for found in labels[name]), (name, labels[name])
    histograms = sum(check_histogram(family) for family in families if family.type == "histogram")
    untyped = [family.name for family in families if family.type in ("untyped", "unknown")]
    assert not untyped, untyped
    assert histograms > 0
    pools = {sample.labels["database"] for family in families for sample in family.samples if family.name == "pgbouncer_pools_server_idle_connections"}
    assert DATABASE in pools, pools
    check_order(page)
    return f"{len(types)} metrics, {len(series)} series, {histograms} histograms, {len(page)} bytes"


kind, page = fetched(None)
assert kind.startswith("text/plain; version=0.0.4"), kind
print("text format:", check_page(page, list(text_string_to_metric_families(page))))
kind, page = fetched("application/openmetrics-text; version=1.0.0")
assert kind.startswith("application/openmetrics-text; version=1.0.0"), kind
print("OpenMetrics:", check_page(page, list(open_metrics_families(page))))
