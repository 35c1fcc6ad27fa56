"""The console read by pgAdmin's ways with psycopg 3: its connections, cursors and statements, in its order, without pgAdmin.

pgadmin.py URL COMMAND …   prints a line for each way and row, as console.py does. Ends with status 1 where pgAdmin would give up, or where it would
                           show something else. Statements that it sends are written as far as the console reads them.
"""

import asyncio
import sys

import psycopg
from psycopg.rows import dict_row

from console import tell

# All in one text, by the simple protocol, at each connection.
FIRST = (
    "SET DateStyle=ISO; SET client_min_messages=notice; SELECT set_config('bytea_output','hex',false)"
    " FROM pg_show_all_settings() WHERE name = 'bytea_output'; SET client_encoding='utf-8';"
)
DATABASE = "\nSELECT\n    db.oid as did, db.datname, db.datallowconn,\n    datistemplate\nFROM\n    pg_catalog.pg_database db"
USER = "\n        SELECT\n            roles.oid as id, roles.rolname as name,\n            true\n        FROM\n            pg_catalog.pg_roles as roles"
RECOVERY = "SELECT CASE WHEN usesuper\n       THEN pg_catalog.pg_is_in_recovery()\n       ELSE FALSE\n       END as inrecovery,\n       FALSE"
REPLICATION = "SELECT CASE\n    WHEN (SELECT count(extname) FROM pg_catalog.pg_extension WHERE extname='bdr') > 0\n    THEN 'pgd'\nEND as type;"
DATABASES = "SELECT\n    db.oid as did, db.datname as name, ta.spcname as spcname\nFROM\n    pg_catalog.pg_database db\n\nORDER BY datname;"
DASHBOARD = "/*pga4dash*/\n\n\nSELECT 'session_stats' AS chart_name, pg_catalog.row_to_json(t) AS chart_data\nFROM (SELECT 1) t"
TYPES = "SELECT oid, pg_catalog.format_type(oid, NULL) AS typname FROM pg_catalog.pg_type WHERE oid = ANY(%s) ORDER BY oid;"


class Cursor(psycopg.Cursor):
    def __init__(self, *arguments, **_):
        super().__init__(*arguments, row_factory=dict_row)


class AsyncCursor(psycopg.AsyncCursor):
    def __init__(self, *arguments, **_):
        super().__init__(*arguments, row_factory=dict_row)


def hello(execute, fetch):
    """The same at each connection, whatever it is for. Returns the database."""
    execute(FIRST)
    execute("SELECT version()")
    assert fetch()[0]["version"].startswith("PgBouncer "), "pgAdmin shows it"
    execute(DATABASE)
    [database] = fetch()
    assert database["datname"] == "pgbouncer" and database["datallowconn"] is True and database["datistemplate"] is False, database
    execute(USER)
    [user] = fetch()
    assert user["name"] == "postgres" and user["is_superuser"] is False and user["can_signal_backend"] is False, user
    return database["did"]


def server(url, prepare_threshold):
    """A server is connected, its databases and its dashboard are opened."""
    connection = psycopg.Connection.connect(url, cursor_factory=Cursor, prepare_threshold=prepare_threshold)
    connection.autocommit = True
    assert connection.info.server_version == 12502, "pgAdmin takes it for 1.25.2, and asks for nothing newer"
    cursor = connection.cursor()

    def ask(statement):
        cursor.execute(statement)
        return cursor.fetchall()

    did = hello(cursor.execute, lambda: cursor.fetchmany(1))
    assert ask(RECOVERY) == [{"inrecovery": False, "isreplaypaused": False}]
    assert ask(REPLICATION) == [{"type": None}]
    # It hides databases with smaller ids.
    assert did >= 16384 and [(row["did"], row["name"], row["datallowconn"]) for row in ask(DATABASES)] == [(did, "pgbouncer", True)]
    assert ask(DASHBOARD) == []
    # It asks for extensions of PostgreSQL, and goes on without.
    try:
        cursor.execute("SELECT COUNT(*) FROM pg_catalog.pg_extension WHERE extname IN ('edb_job_scheduler')")
        raise AssertionError("no SELECT but those that it cannot do without")
    except psycopg.errors.ProtocolViolation:
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    connection.close()


def query_tool(way, url, commands, **options):
    """The editor, which runs each call in an event loop of its own."""
    connection = asyncio.run(psycopg.AsyncConnection.connect(url, cursor_factory=AsyncCursor, **options))
    cursor = connection.cursor()

    def execute(statement, parameters=None):
        asyncio.run(cursor.execute(statement, parameters))

    hello(execute, lambda: asyncio.run(cursor.fetchmany(1)))
    for command in commands:
        execute(command)
        rows = asyncio.run(cursor.fetchall())
        assert cursor.nextset() is None
        tell(way, command, [row.values() for row in rows])
        # For the heads of columns, by the extended protocol with an array.
        codes = [column.type_code for column in cursor.description]
        execute(TYPES, [codes])
        names = {row["oid"]: row["typname"] for row in asyncio.run(cursor.fetchall())}
        assert all(names[code] in ("text", "integer", "bigint", "numeric", "bytea") for code in codes), (names, codes)
    asyncio.run(connection.close())


if __name__ == "__main__":
    server(sys.argv[1], None)
    # The number of executions after which a statement is prepared is a setting of a server.
    server(sys.argv[1], 1)
    query_tool("pgAdmin", sys.argv[1], sys.argv[2:], autocommit=True, prepare_threshold=None)
    query_tool("pgAdmin without auto commit", sys.argv[1], sys.argv[2:], autocommit=False, prepare_threshold=None)
