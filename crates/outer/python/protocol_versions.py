"""What libpq 18 makes of each version of the protocol, before the pooler.

    protocol_versions.py CONNINFO

CONNINFO is libpq's, without a version. A query is cancelled by PQcancelCreate, which sends the key of that very connection and
encrypts it as that one is. One line is printed for each version asked for: the version spoken, and what became of the query.
"""

import sys
import threading

import psycopg


def cancelled(conninfo):
    with psycopg.connect(conninfo, autocommit=True) as connection:
        version = connection.pgconn.full_protocol_version
        # The query is cancelled as soon as the other side has begun it, which its notice says.
        connection.add_notice_handler(lambda _: threading.Thread(target=connection.cancel_safe).start())
        try:
            connection.execute("do $$ begin raise notice 'begun'; perform pg_sleep(600); end $$")
            outcome = "not cancelled"
        except psycopg.errors.QueryCanceled:
            outcome = "cancelled"
        assert connection.execute("select 1").fetchone() == (1,)
        return f"{version} {outcome}"


def main():
    (conninfo,) = sys.argv[1:]
    assert psycopg.pq.version() >= 180000, f"libpq is {psycopg.pq.version()}"
    for asked in ["3.0", "3.2", "latest"]:
        print(asked, cancelled(f"{conninfo} max_protocol_version={asked}"))
    print("at least 3.2", cancelled(f"{conninfo} min_protocol_version=3.2 max_protocol_version=latest"))


main()
