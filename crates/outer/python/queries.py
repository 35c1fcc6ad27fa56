"""Statements in each of the ways in which psycopg 3 sends them, for statistics to be held against PostgreSQL's own.

    queries.py URL

Each way is used a known number of times, but the numbers are not told: both sides count for themselves.
"""

import sys

import psycopg

url = sys.argv[1]

with psycopg.connect(url, autocommit=True) as client:
    client.execute("create table if not exists counted (id int primary key, word text)")
    # The extended protocol: unnamed at first, prepared under a name from the sixth time on.
    for number in range(20):
        client.execute("insert into counted values (%s, %s)", (number, "it's a word"))
    for number in range(20):
        client.execute("select id, word from counted where id < %s", (number,)).fetchall()
    client.execute("update counted set word = word || %s where id > %s", ("!", 9), prepare=True)
    # The simple protocol.
    with psycopg.ClientCursor(client) as cursor:
        for number in range(3):
            cursor.execute("select count(*) from counted where id <> %s and word <> %s", (number, "a 'quoted' one"))
    # A transaction, and one that fails.
    with client.transaction():
        client.execute("select max(id) from counted where id <> %s", (1,))
        client.execute("delete from counted where id = %s", (3,))
    for _ in range(2):
        try:
            with client.transaction():
                client.execute("select min(id) from counted where id <> %s", (1,))
                client.execute("select id / (id - id) from counted where id <> %s", (1,))
        except psycopg.errors.DivisionByZero:
            pass
    # COPY in both directions.
    with client.cursor() as cursor:
        with cursor.copy("copy counted (id, word) from stdin") as copy:
            for number in range(100, 150):
                copy.write_row((number, "copied"))
        with cursor.copy("copy counted to stdout") as copy:
            rows = sum(1 for _ in copy.rows())
            assert rows == 69, rows
    # A pipeline, with one Sync for several statements.
    with client.pipeline():
        for number in range(10):
            client.execute("select word from counted where id = %s", (number,))
            client.execute("update counted set word = %s where id = %s", ("piped", number))
    # A cursor of the server.
    with client.transaction(), client.cursor("named") as cursor:
        cursor.execute("select id from counted order by id")
        assert len(cursor.fetchmany(7)) == 7
