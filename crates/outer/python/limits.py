"""psycopg 3 against a pooler with limits, four workers and pools on all of them.

    limits.py URL reject|delay|statement|logins

Whatever is not as it should be ends the program with a traceback; what was measured is printed.
"""

import re
import sys
import threading
import time

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

URL = sys.argv[1]


def connect(**settings):
    return psycopg.connect(URL, autocommit=True, **settings)


def figures(error):
    """What a program reads in an error of a limit."""
    assert error.diag.sqlstate == "53400", error.diag.sqlstate
    detail = dict((name, int(number)) for name, number in re.findall(r"(\w+)=(\d+)", error.diag.message_detail))
    assert set(detail) == {"limit", "remaining", "retry_after_ms"}, detail
    assert error.diag.message_hint == f"Try again in {detail['retry_after_ms']} ms.", error.diag.message_hint
    return detail


def reject():
    """tps=5 tps_burst=1 over=reject: whoever is told no and comes again when it was told gets in."""
    with connect(options="-c pgweir.report_limits=on") as connection:
        pid_of_session, refused, first_time, began = connection.info.backend_pid, 0, 0, time.monotonic()
        for number in range(10):
            # Simple, and with a parameter by the extended protocol.
            question = ("select 7", None) if number % 2 else ("select %s::int", (7,))
            tries = 0
            while True:
                try:
                    assert connection.execute(*question).fetchone() == (7,)
                    break
                except errors.ConfigurationLimitExceeded as error:
                    tries += 1
                    detail = figures(error)
                    assert detail["limit"] == 5 and detail["remaining"] == 0 and 1 <= detail["retry_after_ms"] <= 201, detail
                    assert 'class "default" may begin 5 transactions per second' in str(error), error
                    assert connection.info.transaction_status == TransactionStatus.IDLE
                    assert connection.info.parameter_status("pgweir.limit_remaining") == "0"
                    assert connection.info.parameter_status("pgweir.limit_retry_after_ms") == str(detail["retry_after_ms"])
                    time.sleep(detail["retry_after_ms"] / 1000)
            refused += tries
            first_time += tries == 1
            assert connection.info.backend_pid == pid_of_session
        lasted = time.monotonic() - began
        print(f"5 a second, rejected: 10 statements in {lasted:.2f} s, refused {refused} times, {first_time} got in at the second try")
        assert lasted >= 9 / 5 - 0.1, lasted
        assert first_time >= 6, (first_time, refused)
    # Nobody is told who has not asked.
    with connect() as other:
        assert other.info.parameter_status("pgweir.limit_remaining") is None
        time.sleep(0.25)
        # A batch is passed over up to its end, and the next is served.
        refused = 0
        for _ in range(5):
            try:
                with other.pipeline():
                    other.execute("select 1")
                    other.execute("select 2")
            except errors.ConfigurationLimitExceeded as error:
                refused += 1
                time.sleep(figures(error)["retry_after_ms"] / 1000)
        assert 1 <= refused <= 4, refused


def delay():
    """tps=50 tps_burst=5, delayed: 12 clients that never stop get 50 a second, in all."""
    times, lock, over = [], threading.Lock(), threading.Event()

    def client():
        with connect() as connection:
            while not over.is_set():
                connection.execute("select 1")
                with lock:
                    times.append(time.monotonic())

    clients = [threading.Thread(daemon=True, target=client) for _ in range(12)]
    for each in clients:
        each.start()
    time.sleep(4.5)
    over.set()
    for each in clients:
        each.join()
    times.sort()
    # Behind the burst.
    begin = times[0] + 1
    counts = [sum(begin + second <= at < begin + second + 1 for at in times) for second in range(3)]
    print(f"50 a second, delayed: {counts} in three seconds behind the burst")
    assert sum(at < begin for at in times) <= 5 + 50 + 2, "the burst and what a second brings"
    # A machine with other things to do may do less, and nothing lets it do more.
    assert 120 <= sum(counts) <= 154, counts


def statement():
    """A limit of as many at a time as the second argument says, for a statement, whatever its constants."""
    most, limit, over = 0, int(sys.argv[3]), threading.Event()
    all_there = threading.Barrier(7, timeout=60)

    def sleeper(number):
        with connect() as connection:
            all_there.wait()
            connection.execute(f"select pg_sleep(0.8), {number}")

    def watch():
        nonlocal most
        with connect() as connection:
            text = "select count(*) from pg_stat_activity where state = 'active' and query like 'select pg_sleep(0.8)%%'"
            while not over.is_set():
                most = max(most, connection.execute(text).fetchone()[0])

    watcher = threading.Thread(daemon=True, target=watch)
    watcher.start()
    sleepers = [threading.Thread(daemon=True, target=sleeper, args=(number,)) for number in range(6)]
    for each in sleepers:
        each.start()
    # Nobody else waits for them.
    with connect() as other:
        all_there.wait()
        began = time.monotonic()
        others = 0
        while any(each.is_alive() for each in sleepers):
            other.execute("select 'quick'")
            others += 1
    lasted = time.monotonic() - began
    over.set()
    watcher.join()
    print(f"6 of 0.8 s, {limit} at a time: {lasted:.2f} s, {most} at a time seen by PostgreSQL, {others} others meanwhile")
    assert others >= 10, "they waited for statements that are not their own"
    assert most == limit, most
    assert lasted >= 0.8 * 6 / limit - 0.1, lasted


def logins():
    """logins=2 logins_burst=1 over=reject."""
    refused, let_in = 0, 0
    began = time.monotonic()
    while let_in < 4:
        try:
            connect().close()
            let_in += 1
        except psycopg.OperationalError as error:
            # Before there is a connection, psycopg has the words only.
            words = str(error)
            assert "too many clients of your class log in at this moment" in words, words
            found = re.search(r"DETAIL:  limit=2 remaining=0 retry_after_ms=(\d+)", words)
            assert found and f"HINT:  Try again in {found[1]} ms." in words, words
            refused += 1
            time.sleep(int(found[1]) / 1000)
    lasted = time.monotonic() - began
    print(f"2 logins a second: 4 in {lasted:.2f} s, {refused} refused")
    assert refused >= 2 and lasted >= 1.4, (refused, lasted)


{"reject": reject, "delay": delay, "statement": statement, "logins": logins}[sys.argv[2]]()
