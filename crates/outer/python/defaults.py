"""psycopg 3 as people use it, through a pooler in transaction mode: prints what it did, fails at the first surprise.

Every statement carries a token that its result must echo. psycopg prepares a statement by name when it has been
executed five times; 20 threads share three servers, so the names must follow their clients.
"""

import sys
import threading
import uuid

import psycopg

THREADS = 20
ROUNDS = 60


def check(condition, words):
    if not condition:
        raise AssertionError(words)


def talk(url, failures):
    try:
        with psycopg.connect(url) as connection:
            for number in range(ROUNDS):
                one_round(connection, number)
    except Exception as error:  # the thread's end must not hide why
        failures.append(repr(error))


def one_round(connection, number):
    token = str(uuid.uuid4())
    # The same text again and again: prepared by the driver after the fifth time.
    row = connection.execute("select %s::text, %s::int", (token, number)).fetchone()
    check(row == (token, number), f"asked for {token}, got {row}")
    # Types that psycopg sends and reads in their own way.
    row = connection.execute("select %s::text[], %s::numeric, %s", ([token, None], 1.5, None)).fetchone()
    check(row[0] == [token, None], f"asked for {token}, got {row}")
    if number % 7 == 0:
        failing(connection, token)
    connection.commit()


def failing(connection, token):
    connection.commit()
    try:
        connection.execute("select %s::text, 1 / 0", (token,))
        raise AssertionError("division by zero went through")
    except psycopg.errors.DivisionByZero:
        connection.rollback()


def pipelines(url):
    with psycopg.connect(url, autocommit=True) as connection, connection.pipeline():
        tokens = [str(uuid.uuid4()) for _ in range(200)]
        cursors = [connection.execute("select %s::text", (token,)) for token in tokens]
        for token, cursor in zip(tokens, cursors):
            check(cursor.fetchone() == (token,), "a pipeline's answers come in order")


def copies(url):
    with psycopg.connect(url) as connection:
        connection.execute("create table copied (n int, t text)")
        with connection.cursor().copy("copy copied from stdin") as copy:
            for number in range(10_000):
                copy.write_row((number, f"row {number}"))
        total = connection.execute("select count(*), sum(n) from copied").fetchone()
        check(total == (10_000, 49_995_000), f"copied {total}")
        with connection.cursor().copy("copy copied to stdout") as copy:
            check(sum(1 for _ in copy.rows()) == 10_000, "everything comes back")


def cursors(url):
    with psycopg.connect(url) as connection, connection.cursor(name="slow") as cursor:
        cursor.itersize = 100
        cursor.execute("select generate_series(1, 5000)")
        check(sum(row[0] for row in cursor) == 12_502_500, "a server-side cursor sees every row")


def main():
    url = sys.argv[1]
    failures = []
    threads = [threading.Thread(target=talk, args=(url, failures)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(not failures, f"{len(failures)} of {THREADS} threads failed: {failures[:3]}")
    pipelines(url)
    copies(url)
    cursors(url)
    print(f"psycopg {psycopg.__version__}: {THREADS} threads x {ROUNDS} rounds, pipeline of 200, COPY of 10000 rows, cursor")


main()
