"""The ledger's clients as threads of an application that share a psycopg_pool. ../README.md describes what is printed."""

import importlib.metadata
import os
import platform
import random
import sys
import threading
import time

import psycopg
import psycopg_pool

CALL = (
    "with entry as (insert into ledger values (%s::bigint, %s::int) returning client) "
    "update accounts set entries = entries + 1 from entry where accounts.client = entry.client"
)
UNKNOWN = "08007"

closing = threading.Event()
printing = threading.Lock()


def say(event, client, more=""):
    with printing:
        print(event, client, more, flush=True)


def code_of(error):
    return error.sqlstate or "closed"


def has_ended(error):
    """A FATAL error, or none of the server's: the driver has lost the connection."""
    return error.sqlstate is None or error.diag.severity in ("FATAL", "PANIC")


class Client(threading.Thread):
    def __init__(self, pool, number):
        super().__init__()
        self.pool, self.number, self.next, self.dropped = pool, number, 0, 0
        self.kind = ("block", "call", "idle")[number % 3]
        self.random = random.Random(number)

    def run(self):
        if self.kind == "idle":
            return self.rest()
        while not closing.is_set():
            try:
                with self.pool.connection() as connection:
                    (self.block if self.kind == "block" else self.call)(connection)
            except psycopg.Error as error:
                self.refused(error)
                continue
            closing.wait(self.random.uniform(0.15, 0.45))

    def rest(self):
        """Its connection is not given back until the end."""
        connection = None
        while connection is None and not closing.is_set():
            try:
                connection = self.pool.getconn()
            except psycopg.Error as error:
                self.refused(error)
                continue
            if not self.call(connection):
                self.pool.putconn(connection)
                connection = None
        closing.wait()
        if connection is not None and not self.call(connection):
            say("idle-lost", self.number)

    def refused(self, error):
        say("refused", self.number, "timeout" if isinstance(error, psycopg_pool.PoolTimeout) else code_of(error))
        time.sleep(0.1)

    def begin(self):
        number = self.number * 1_000_000 + self.next
        self.next += 1
        say("sends", self.number, number)
        return number

    def drop(self, error):
        if has_ended(error):
            self.dropped += 1
            say("dropped", self.number, code_of(error))

    def block(self, connection):
        number = self.begin()
        first, commits = True, False
        try:
            with connection.transaction():
                first = False
                connection.execute("insert into ledger values (%s, %s)", (number, self.number))
                time.sleep(0.05)
                connection.execute("update accounts set entries = entries + 1 where client = %s", (self.number,))
                commits = True
                say("commits", self.number)
            say("committed", self.number)
        except psycopg.Error as error:
            code = code_of(error)
            if commits and (has_ended(error) or code == UNKNOWN):
                say("unknown", self.number, code)
            elif has_ended(error):
                say("ended", self.number, code)
            else:
                say("failed-first" if first else "failed", self.number, code)
            self.drop(error)

    def call(self, connection):
        """Whether it was answered."""
        number = self.begin()
        try:
            rows = connection.execute(CALL, (number, self.number)).rowcount
        except psycopg.Error as error:
            code = code_of(error)
            say("unknown" if has_ended(error) or code == UNKNOWN else "failed-first", self.number, code)
            self.drop(error)
            return False
        if rows == 1:
            say("committed", self.number)
        else:
            say("failed-first", self.number, f"rows-{rows}")
        return True


def main():
    if sys.argv[1] == "--version":
        version = importlib.metadata.version
        print(f"psycopg_pool {version('psycopg_pool')}, psycopg {version('psycopg')}, Python {platform.python_version()}")
        return
    host, port, user, database, clients = sys.argv[1:]
    target = f"host={host} port={port} user={user} dbname={database}"
    # Lone statements are to be lone: psycopg begins a block before the first one otherwise.
    pool = psycopg_pool.ConnectionPool(target, min_size=int(clients), kwargs={"autocommit": True}, open=True)
    pool.wait(timeout=60)
    threads = [Client(pool, number) for number in range(int(clients))]
    for thread in threads:
        thread.start()
    line = sys.stdin.readline()
    closing.set()
    # Without a line, the program that reads the output has ended.
    if line:
        for thread in threads:
            thread.join()
        # The pool throws a connection away when it comes back in a state that is no good.
        thrown_away = pool.get_stats().get("returns_bad", 0) - sum(thread.dropped for thread in threads)
        for _ in range(thrown_away):
            say("evicted", 0, "returned")
    os._exit(0)


main()
