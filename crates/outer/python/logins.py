"""Logs in with psycopg's libpq, once for each line of standard input, and says what became of it.

A line is host, port, user, database, password, sslmode, CA, certificate and key, with tabs between. The answer is a line, too: `ok`,
or the SQLSTATE (`-` where the driver does not tell one), a tab and the server's words.
"""

import sys

import psycopg

NAMES = ("host", "port", "user", "dbname", "password", "sslmode", "sslrootcert", "sslcert", "sslkey")


def log_in(line):
    given = {name: value for name, value in zip(NAMES, line.split("\t"), strict=True) if value or name == "password"}
    try:
        with psycopg.connect(**given, connect_timeout=120) as connection:
            connection.execute("select 1")
    except psycopg.Error as error:
        words = str(error).strip()
        return f"{error.sqlstate or '-'}\t{words.rpartition('FATAL:')[2].strip()}"
    return "ok"


for line in sys.stdin:
    print(log_in(line.rstrip("\n")).replace("\n", " "), flush=True)
