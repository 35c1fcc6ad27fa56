"""psycopg 3 against a pool of one server: queries that take too long, and clients that cannot wait.

    deadlines.py URL query_timeout|waits|crowd

The pooler has query_wait_notify = 1; query_timeout is set here. Whatever is not as it should be ends the program with a traceback; what
was measured is printed.
"""

import re
import sys
import threading
import time

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

URL = sys.argv[1]
# Whoever waits longer waits for ever.
PATIENCE_S = 300


def connect(**settings):
    return psycopg.connect(URL, autocommit=True, **settings)


def one(connection, text):
    return connection.execute(text).fetchone()[0]


def cancelled(connection, text):
    """The time it took until 57014, and what its DETAIL says, as a dictionary of numbers."""
    began = time.monotonic()
    try:
        connection.execute(text)
    except errors.QueryCanceled as error:
        lasted = time.monotonic() - began
        detail = error.diag.message_detail or ""
        return lasted, dict((name, int(number)) for name, number in re.findall(r"(\w+)=(\d+)", detail)), error
    raise AssertionError(f"{text} was not cancelled")


class Timeout:
    """A query_timeout of so many seconds, in force within the `with` block. Outside it there is none: on a busy machine any query may take a second."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __enter__(self):
        self.set(self.seconds)

    def __exit__(self, *_):
        self.set(0)

    def set(self, seconds):
        with psycopg.connect(URL.rsplit("/", 1)[0] + "/pgbouncer", autocommit=True) as console:
            console.execute(f"set query_timeout = {seconds}")


def query_timeout():
    with connect() as connection:
        pid = one(connection, "select pg_backend_pid()")
        with Timeout(1):
            lasted, detail, error = cancelled(connection, "select pg_sleep(3600)")
        # That it is told in that moment and not later is proven by the transcripts deadlines/query-*.
        assert lasted >= 1, lasted
        assert str(error).startswith("canceling statement due to user request"), error
        assert detail["query_timeout_ms"] == 1000 and detail["ran_ms"] >= 1000, detail
        assert one(connection, "select pg_backend_pid()") == pid, "the server goes on"
        print(f"query_timeout of 1 s: told after {lasted:.3f} s: {detail}")
        # A transaction has failed, and is its client's to roll back.
        with connection.transaction(force_rollback=True):
            connection.execute("create table never (i int)")
            try:
                with connection.transaction():
                    with Timeout(1):
                        cancelled(connection, "select pg_sleep(3600)")
                    raise RuntimeError("on to the savepoint")
            except RuntimeError:
                pass
            assert connection.info.transaction_status == TransactionStatus.INTRANS
            assert one(connection, "select count(*) from never") == 0, "what came before it is still there"
        assert one(connection, "select to_regclass('never')") is None
        # What follows at once is not struck. It would be by its own timeout only if one of these took five seconds.
        with Timeout(5):
            for _ in range(2):
                cancelled(connection, "select pg_sleep(3600)")
                assert [one(connection, f"select {number}") for number in range(20)] == list(range(20))
        # Prepared statements, and a pipeline.
        for _ in range(7):
            assert connection.execute("select %s::int", (7,)).fetchone() == (7,)
        try:
            with Timeout(1), connection.pipeline():
                first = connection.execute("select 1")
                connection.execute("select pg_sleep(3600)")
                last = connection.execute("select 3")
        except errors.QueryCanceled:
            pass
        assert one(connection, "select 5") == 5 and first.fetchone() == (1,) and last is not None


class Holder:
    """Keeps the only server in a transaction."""

    def __init__(self):
        self.connection = psycopg.connect(URL)

    def __enter__(self):
        self.connection.execute("select 1")
        return self

    def __exit__(self, *_):
        self.connection.rollback()
        self.connection.close()


def deadlines():
    with connect() as connection:
        connection.execute("create table if not exists came (i int)")
        connection.execute("truncate came")
    with connect(options="-c pgweir.deadline_ms=300") as begun, connect() as waiter:
        assert one(begun, "show pgweir.deadline_ms") == "300"
        waiter.execute("set pgweir.deadline_ms = '200ms'")
        assert one(waiter, "select current_setting('pgweir.deadline_ms')") == "200ms"
        assert one(begun, "show pgweir.deadline_ms") == "300"
        for who, text, wanted in [
            (begun, "insert into came values (1)", 300),
            (waiter, "insert into came values (2)", 200),
            (waiter, "insert into came values (3) /*deadline_ms=100,route='/x'*/", 100),
            (begun, "/*deadline_ms=150*/ insert into came values (4)", 150),
        ]:
            with Holder():
                lasted, detail, error = cancelled(who, text)
            assert detail["deadline_ms"] == wanted, detail
            if "expected_wait_ms" in detail:
                # After the holders before, nobody expects the server so soon.
                assert detail["expected_wait_ms"] >= wanted and detail["waited_ms"] == 0, detail
            else:
                assert wanted / 1000 <= lasted + 0.002 and detail["waited_ms"] >= wanted, (detail, lasted)
            assert str(error).startswith("canceling statement due to deadline"), error
            assert who.info.transaction_status == TransactionStatus.IDLE
            print(f"deadline of {wanted} ms: told after {lasted * 1000:.0f} ms: {detail}")
        # By the extended protocol, with a parameter, and what comes behind it in a pipeline.
        with Holder():
            try:
                waiter.execute("insert into came values (%s)", (5,))
                raise AssertionError("it was served")
            except errors.QueryCanceled:
                pass
            try:
                with waiter.pipeline():
                    waiter.execute("insert into came values (%s)", (6,))
                    waiter.execute("insert into came values (%s)", (7,))
                raise AssertionError("it was served")
            except (errors.QueryCanceled, psycopg.errors.PipelineAborted):
                pass
        assert one(waiter, "select count(*) from came") == 0, "PostgreSQL has seen none of them"
        waiter.execute("reset pgweir.deadline_ms")
        assert one(waiter, "select current_setting('pgweir.deadline_ms')") == ""
        assert one(begun, "show pgweir.deadline_ms") == "300"
        begun.execute("set pgweir.deadline_ms = 0")
        with Holder() as holder:
            threading.Timer(0.6, holder.connection.rollback).start()
            assert one(begun, "select 1") == 1, "no deadline any more"
        begun.execute("reset pgweir.deadline_ms")
        assert one(begun, "show pgweir.deadline_ms") == "300", "what it began with"


def told():
    """Who waits is told its place, and for how long it will wait: while it waits, since it is served when it has been told."""
    details, is_told = [], threading.Event()

    def hears(notice):
        details.append(notice.message_detail)
        is_told.set()

    with connect() as waiter, Holder() as holder:
        waiter.add_notice_handler(hears)
        answer = []
        waits = threading.Thread(daemon=True, target=lambda: answer.append(one(waiter, "select 7")))
        waits.start()
        assert is_told.wait(PATIENCE_S), "it is told nothing"
        assert not answer, "it was served before"
        holder.connection.rollback()
        waits.join(PATIENCE_S)
        assert answer == [7], answer
    found = re.fullmatch(r"place=1 of 1 expected_wait_ms=\d+", details[0])
    assert found, details
    print(f"who waits is told: {details[0]}")


def crowd():
    """Many at one server: some are in a hurry. Who is, is served in time or told at once; what waits is told how long it will."""
    stop = time.monotonic() + 6
    counts = {"served": 0, "hasty": 0, "late": 0, "patient": 0}
    slowest, notices, lock = [0.0], [], threading.Lock()

    def patient(number):
        with connect() as connection:
            told = []
            connection.add_notice_handler(lambda notice: told.append((time.monotonic(), notice.message_detail)))
            while time.monotonic() < stop:
                # The service time is PostgreSQL's.
                connection.execute("select pg_sleep(0.05)")
                now = time.monotonic()
                with lock:
                    counts["patient"] += 1
                    notices.extend((now - at, detail) for at, detail in told)
                told.clear()

    def hurried(number):
        with connect(options="-c pgweir.deadline_ms=500") as connection:
            while time.monotonic() < stop:
                began = time.monotonic()
                try:
                    connection.execute("select pg_sleep(0.05)")
                    with lock:
                        counts["served"] += 1
                except errors.QueryCanceled as error:
                    lasted = time.monotonic() - began
                    kind = "hasty" if "expected_wait_ms" in error.diag.message_detail else "late"
                    with lock:
                        counts[kind] += 1
                        slowest[0] = max(slowest[0], lasted if kind == "hasty" else 0)
                    time.sleep(0.1)

    failures = []
    threading.excepthook = lambda failure: failures.append(failure.exc_value)
    threads = [threading.Thread(target=patient, args=(number,)) for number in range(30)]
    threads += [threading.Thread(target=hurried, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    print(f"30 patient and 5 hurried clients at one server: {counts}, slowest hasty refusal {slowest[0] * 1000:.0f} ms")
    assert counts["patient"] > 0 and counts["hasty"] > counts["late"], counts
    waits = [(waited, re.fullmatch(r"place=(\d+) of (\d+) expected_wait_ms=(\d+)", detail)) for waited, detail in notices]
    known = [(waited, int(found[3]) / 1000) for waited, found in waits if found]
    assert len(known) >= 10, notices[:5]
    ratio = sum(expected for _, expected in known) / sum(waited for waited, _ in known)
    print(f"{len(known)} notices: what they expect is {ratio:.2f} of what was waited from then on")
    assert 0.5 < ratio < 2, ratio


if sys.argv[2] == "query_timeout":
    query_timeout()
elif sys.argv[2] == "crowd":
    crowd()
else:
    deadlines()
    told()
