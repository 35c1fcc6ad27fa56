"""psycopg 3 with its defaults: prepared statements and objects that a session keeps on purpose, and what becomes of all of
them when it discards them or ends. How it is called: sessions.py.
"""

import decimal

import psycopg
from psycopg import errors
from sessions import PATIENCE_S, SESSIONS, Different, at_once, check, eventually, in_step, main, raises, same
from through_psycopg import autocommitting, connect, one, prepare, show


@check
def sql_prepare():
    """PREPARE, EXECUTE and DEALLOCATE under one name with twelve meanings; a rollback does not undo them."""

    def talk(number, step):
        with connect(prepare_threshold=None) as connection:
            connection.execute(f"prepare triple (int) as select $1 * 3, {number}")
            connection.commit()
            for turn in range(8):
                step()
                same(connection.execute(f"execute triple({turn})").fetchone(), (turn * 3, number), "EXECUTE")
                connection.commit()
            again = "prepare triple as select 1"
            raises(errors.DuplicatePreparedStatement, "the same name again", connection.execute, again)
            connection.rollback()
            connection.execute(f"prepare kept as select 'kept', {number}")
            connection.rollback()
            step()
            same(connection.execute("execute kept").fetchone(), ("kept", number), "a PREPARE that was rolled back")
            listed = "select name from pg_prepared_statements where from_sql order by name"
            same(connection.execute(listed).fetchall(), [("kept",), ("triple",)], "pg_prepared_statements")
            connection.commit()
            connection.execute("deallocate triple")
            connection.rollback()
            step()
            gone = raises(errors.InvalidSqlStatementName, "after DEALLOCATE", connection.execute, "execute triple(1)")
            same(gone.diag.message_primary, 'prepared statement "triple" does not exist', "the message")
            connection.rollback()
            connection.execute("deallocate all")
            connection.commit()
            step()
            raises(errors.InvalidSqlStatementName, "after DEALLOCATE ALL", connection.execute, "execute kept")
            connection.rollback()

    in_step(talk)


@check
def prepared():
    """Implicit prepared statements over many transactions, more of them than the driver or the pooler keeps."""

    def talk(number, step):
        with connect() as connection:
            for turn in range(7):
                step()
                for kind in range(30):
                    row = connection.execute(f"select %s::int + {kind}, %s::text", (turn, f"{number}")).fetchone()
                    same(row, (turn + kind, f"{number}"), "a row by a prepared statement")
                    if kind % 7 == number % 7:
                        connection.commit()
                connection.commit()
                if turn == 5 and number % 4 == 0:
                    raises(errors.DivisionByZero, "division", connection.execute, "select 1 / (%s::int - 5)", (turn,))
                    connection.rollback()  # and the driver deallocates all

    in_step(talk)


@check
def changed_table():
    """After ALTER TABLE a prepared statement fails once, as PostgreSQL does, or shows the new column; never the old row."""
    with autocommitting() as connection:
        connection.execute("create table shape (a int)")
        connection.execute("insert into shape values (1)")

    def talk(number, step):
        with autocommitting() as connection:
            for _ in range(8):
                same(connection.execute("select * from shape").fetchall(), [(1,)], "the old shape")
            step()
            if number == 0:
                connection.execute("alter table shape add column b text default 'new'")
            step()
            try:
                rows = connection.execute("select * from shape").fetchall()
            except errors.FeatureNotSupported as error:
                same(error.diag.message_primary, "cached plan must not change result type", "the message")
                connection.execute("deallocate all")
                connection.prepare_threshold = None
                rows = connection.execute("select * from shape").fetchall()
            same(rows, [(1, "new")], "the new shape")
            step()

    in_step(talk)
    with autocommitting() as connection:
        connection.execute("drop table shape")


@check
def type_made_again():
    """A type and a table dropped and made again: sessions that come later must not meet what was planned before."""
    statements = ["select %s::mood", "select mood from moods", "select size from moods"]

    def talk(number, step, size):
        with connect() as connection:
            for _ in range(8):
                same(one(connection, statements[0], ("good",)), "good", "a value of the type")
                same(one(connection, statements[1]), "good", "a column of the type")
                same(one(connection, statements[2]), size, "a column whose type changes")
                connection.commit()
            step()

    for size, kind in [(1, "int"), ("1", "text"), (decimal.Decimal(1), "numeric")]:
        with autocommitting() as connection:
            connection.execute("drop table if exists moods; drop type if exists mood")
            connection.execute("create type mood as enum ('good', 'bad')")
            connection.execute(f"create table moods (mood mood, size {kind}); insert into moods values ('good', '1')")
        in_step(lambda number, step, size=size: talk(number, step, size))


@check
def temporary_tables():
    """Temporary tables of one name in many sessions; the rest neither sees nor reaches them."""

    def talk(number):
        with connect() as connection:
            if number % 2:
                for _ in range(10):
                    same(one(connection, "select to_regclass('scratch')::text"), None, "somebody else's temporary table")
                    connection.commit()
                return
            connection.execute(f"create temporary table scratch as select {number} as n")
            connection.commit()
            for turn in range(5):
                connection.execute("insert into scratch values (%s)", (turn,))
                connection.commit()
            total = one(connection, "select sum(n) from scratch")
            same(total, number + 10, "the sum over a temporary table")
            connection.rollback()
            connection.execute("create temp table passing (n int) on commit drop")
            connection.commit()
            raises(errors.UndefinedTable, "after ON COMMIT DROP", connection.execute, "select * from passing")
            connection.rollback()
            connection.execute("drop table scratch")
            connection.commit()
            same(one(connection, "select to_regclass('scratch')::text"), None, "after DROP")
            connection.execute("create temp table undone (n int)")
            connection.rollback()
            same(one(connection, "select to_regclass('undone')::text"), None, "after a rollback")
            connection.execute("create temp sequence numbers start 7")
            connection.commit()
            same(one(connection, "select nextval('numbers')"), 7, "a temporary sequence")

    at_once(talk)


@check
def held_cursors():
    """A server-side cursor WITH HOLD, read over many transactions."""

    def talk(number):
        with connect() as connection:
            with connection.cursor(name="walk", withhold=True) as cursor:
                cursor.execute("select n from generate_series(%s::int, %s::int) n", (number, number + 99))
                connection.commit()
                got = []
                while rows := cursor.fetchmany(10):
                    got += [row[0] for row in rows]
                    connection.commit()
            same(got, list(range(number, number + 100)), "what the cursor walked over")
            connection.commit()
            raises(errors.InvalidCursorName, "after CLOSE", connection.execute, "fetch 1 from walk")
            connection.rollback()
            connection.execute("declare undone cursor with hold for select 1")
            connection.rollback()
            raises(errors.InvalidCursorName, "after a rollback", connection.execute, "fetch 1 from undone")

    at_once(talk)


@check
def advisory_locks():
    """A session lock keeps eleven others out over several transactions; it is counted, and only its owner gives it back."""
    with autocommitting() as connection:
        connection.execute("truncate counted; insert into counted values (0)")

    def talk(number):
        with connect() as connection:
            for _ in range(3):
                connection.execute("select pg_advisory_lock(hashtext('counted'))")
                connection.commit()
                connection.execute("select pg_advisory_lock(hashtext('counted'))")
                connection.commit()
                same(one(connection, "select pg_advisory_unlock(hashtext('counted'))"), True, "one of two unlocks")
                connection.commit()
                # Nobody else may come between the two transactions.
                seen = one(connection, "select n from counted")
                connection.commit()
                connection.execute("update counted set n = %s", (seen + 1,))
                connection.commit()
                same(one(connection, "select pg_advisory_unlock(hashtext('counted'))"), True, "the other unlock")
                connection.commit()
            same(one(connection, "select pg_advisory_unlock(%s)", (1000 + number,)), False, "unlocking what is not held")
            connection.commit()
            same(one(connection, "select pg_try_advisory_lock(7, %s)", (number,)), True, "a lock of two keys")
            connection.rollback()
            held = "select count(*) from pg_locks where locktype = 'advisory' and classid = 7 and objid = %s"
            same(one(connection, held, (number,)), 1, "a lock outlives its rollback")
            connection.commit()
            connection.execute("select pg_advisory_unlock_all()")
            connection.commit()
            same(one(connection, held, (number,)), 0, "after pg_advisory_unlock_all")

    at_once(talk)
    with autocommitting() as connection:
        same(one(connection, "select n from counted"), SESSIONS * 3, "what twelve sessions counted under the lock")


@check
def listen():
    """Everybody listens, everybody tells the next; the sender's pid is the one the sender knows."""
    pids = {}

    def talk(number, step):
        with autocommitting() as connection:
            pids[number] = connection.info.backend_pid
            connection.execute(f"listen channel_{number}")
            step()
            neighbour = (number + 1) % SESSIONS
            connection.execute("select pg_notify(%s, %s)", (f"channel_{neighbour}", f"from {number}"))
            told = list(connection.notifies(timeout=PATIENCE_S, stop_after=1))
            before = (number - 1) % SESSIONS
            same([(n.channel, n.payload) for n in told], [(f"channel_{number}", f"from {before}")], "the notification")
            same(told[0].pid, pids[before], "the sender's pid")
            listening = connection.execute("select pg_listening_channels()").fetchall()
            same(listening, [(f"channel_{number}",)], "pg_listening_channels")
            step()
            connection.execute("begin")
            connection.execute("listen undone")
            connection.execute("rollback")
            connection.execute(f"unlisten channel_{number}")
            step()
            connection.execute(f"notify channel_{neighbour}; notify undone")
            step()
            same(list(connection.notifies(timeout=0.1)), [], "notifications after UNLISTEN")

    in_step(talk)


@check
def listen_to_oneself():
    """A notification to one's own channel is there when the COMMIT's answer is; within a transaction it is not."""

    def talk(number):
        with connect() as connection:
            told = []
            connection.add_notify_handler(lambda n: told.append((n.channel, n.payload, n.pid)))
            connection.execute("listen own")
            connection.commit()
            connection.execute(f"select pg_notify('own', '{number}')")
            same([entry for entry in told if entry[1] == f"{number}"], [], "within the transaction")
            connection.commit()
            mine = [entry for entry in told if entry[1] == f"{number}"]
            same(mine, [("own", f"{number}", connection.info.backend_pid)], "one's own notification after COMMIT")
            connection.execute("unlisten *")
            connection.commit()

    at_once(talk)


@check
def current_values():
    """currval and lastval are the session's own, whoever inserts meanwhile; without a nextval there is none.

    The first who asks teaches the pooler that it matters.
    """
    with connect() as connection:
        raises(errors.ObjectNotInPrerequisiteState, "the first who asks", connection.execute, "select lastval()")

    def talk(number):
        with connect() as connection:
            if number % 3 == 0:
                ask = "select currval('orders_id_seq')"
                raises(errors.ObjectNotInPrerequisiteState, "currval without nextval", connection.execute, ask)
                connection.rollback()
                raises(errors.ObjectNotInPrerequisiteState, "lastval without nextval", connection.execute, "select lastval()")
                connection.rollback()
            for _ in range(5):
                given = one(connection, "insert into orders (session) values (%s) returning id", (number,))
                connection.commit()
                same(one(connection, "select currval('orders_id_seq')"), given, "currval in a later transaction")
                connection.commit()
                same(one(connection, "select lastval()"), given, "lastval in a later transaction")
                connection.commit()

    at_once(talk)


@check
def copying():
    """COPY in both directions obeys the session's settings."""

    def talk(number, step):
        with connect() as connection:
            connection.execute("set datestyle = 'SQL, DMY'" if number % 2 else "set datestyle = 'ISO, MDY'")
            connection.execute(f"set search_path = tenant_{number}")
            connection.commit()
            connection.execute("create table copied (day date)")
            connection.commit()
            step()
            with connection.cursor().copy("copy copied from stdin") as copy:
                copy.write("02/01/2024\n" * 1000)
            connection.commit()
            step()
            with connection.cursor().copy("copy (select distinct day from copied) to stdout") as copy:
                lines = b"".join(bytes(block) for block in copy).decode()
            connection.commit()
            # The second of January to the odd, the first of February to the even.
            same(lines, "02/01/2024\n" if number % 2 else "2024-02-01\n", "the date that was copied")
            step()
            try:
                with connection.cursor().copy("copy copied from stdin") as copy:
                    copy.write("not a date\n")
                raise Different("a wrong date was copied")
            except errors.InvalidDatetimeFormat:
                connection.rollback()
            same(one(connection, "select count(*) from copied"), 1000, "rows after a COPY that failed")
            connection.commit()
            connection.execute("drop table copied")

    in_step(talk)


@check
def hidden_in_functions():
    """Settings, locks and temporary tables made inside DO, functions, procedures and triggers."""
    with autocommitting() as connection:
        connection.execute(
            """
            create function remember(word text) returns text language plpgsql as
              $$ begin perform set_config('app.word', word, false); return word; end $$;
            create procedure remember_too(word text) language plpgsql as
              $$ begin perform set_config('work_mem', word, false); end $$;
            create function lock_it(key int) returns void language sql as $$ select pg_advisory_lock(77, key) $$;
            create table watched (n int);
            create function on_insert() returns trigger language plpgsql as
              $$ begin perform set_config('app.inserted', new.n::text, false); return new; end $$;
            create trigger watch before insert on watched for each row execute function on_insert();
            """
        )

    def talk(number):
        with connect() as connection:
            connection.execute("select remember(%s)", (f"word {number}",))
            connection.commit()
            connection.execute("call remember_too(%s)", (f"{1000 + number}kB",))
            connection.commit()
            connection.execute("insert into watched values (%s)", (number,))
            connection.commit()
            connection.execute(f"do $$ begin execute 'set lock_timeout = {number + 1000}'; end $$")
            connection.commit()
            for _ in range(5):
                same(show(connection, "app.word"), f"word {number}", "a setting made by a function")
                same(show(connection, "work_mem"), f"{1000 + number}kB", "a setting made by a procedure")
                same(show(connection, "app.inserted"), f"{number}", "a setting made by a trigger")
                name = "select setting from pg_settings where name = 'lock_timeout'"
                same(one(connection, name), f"{number + 1000}", "a setting made by DO")
                connection.commit()
            connection.execute("select lock_it(%s)", (number,))
            connection.commit()
            same(one(connection, "select pg_advisory_unlock(77, %s)", (number,)), True, "a lock taken by a function")
            connection.commit()
            connection.execute("do $$ begin create temp table hidden as select 1 as n; end $$")
            connection.commit()
            same(one(connection, "select n from hidden"), 1, "a temporary table made by DO")

    at_once(talk)


@check
def discard_all():
    """DISCARD ALL, as several pools say it when a connection comes back to them."""

    def talk(number, step):
        with autocommitting(prepare_threshold=None) as connection:
            usual = one(connection, "show work_mem")
            login = one(connection, "select current_user")
            for _ in range(3):
                connection.execute(f"set work_mem = '{1000 + number}kB'; set role worker_{number}")
                connection.execute(f"set app.tenant = '{number}'; set search_path = tenant_{number}")
                connection.execute(f"prepare mine as select {number}")
                step()
                row = connection.execute("select current_user, current_setting('app.tenant')").fetchone()
                same(row, (f"worker_{number}", f"{number}"), "before DISCARD ALL")
                same(one(connection, "execute mine"), number, "EXECUTE before DISCARD ALL")
                step()
                with connection.transaction(force_rollback=True):
                    raises(errors.ActiveSqlTransaction, "DISCARD ALL in a block", connection.execute, "discard all")
                connection.execute("discard all")
                step()
                same(one(connection, "show work_mem"), usual, "work_mem after DISCARD ALL")
                same(one(connection, "select current_user"), login, "current user after DISCARD ALL")
                same(one(connection, "show search_path"), '"$user", public', "search_path after DISCARD ALL")
                same(one(connection, "select current_setting('app.tenant', true)") or "", "", "app.tenant after it")
                raises(errors.InvalidSqlStatementName, "EXECUTE after it", connection.execute, "execute mine")
                step()

    in_step(talk)


def make_dirty(connection, number):
    connection.execute("set work_mem = '3333kB'; set application_name = 'dirty'; set timezone = 'Asia/Tokyo'")
    connection.execute("select set_config('app.tenant', 'tenant 3', false)")
    connection.execute("prepare leftover as select 'leftover'; listen leftover")
    connection.execute("select pg_advisory_lock(99)" if number == 0 else "select pg_advisory_lock_shared(98)")
    connection.execute("create temp table leftover as select 1 as n")
    connection.execute("begin; declare leftover cursor with hold for select 1; commit")
    connection.execute(f"set search_path = tenant_{number}; set role worker_{number}")
    connection.execute("set default_transaction_read_only = on; set statement_timeout = '33s'")


@check
def left_behind():
    """Sessions that end with all kinds of state, in order or in the middle of a transaction: who comes next sees none."""
    asked = """
        select current_user::text, session_user::text, current_setting('work_mem'), current_setting('search_path'),
          current_setting('timezone'), current_setting('default_transaction_read_only'),
          current_setting('statement_timeout'), coalesce(current_setting('app.tenant', true), ''),
          to_regclass('pg_temp.leftover')::text, (select count(*) from pg_prepared_statements where from_sql),
          (select count(*) from pg_cursors), (select count(*) from pg_listening_channels())
        """
    with autocommitting() as connection:
        expected = connection.execute(asked).fetchone()

    def dirty(number):
        connection = autocommitting()
        make_dirty(connection, number)
        if number % 3 == 1:
            connection.execute("begin")
            connection.execute("set local work_mem = '4444kB'")
        if number % 3 == 2:
            connection.execute("reset role")
        connection.close()

    def clean(number, step):
        with connect(prepare_threshold=None) as connection:
            for _ in range(6):
                step()
                same(connection.execute(asked).fetchone(), expected, "what a newcomer finds")
                connection.commit()

    at_once(dirty)
    in_step(clean)
    with autocommitting() as connection:
        # A backend whose client has gone needs a moment to end.
        for key in (98, 99):
            free = "select pg_try_advisory_xact_lock(%s)"
            eventually(f"advisory lock {key} is free", lambda key=key: one(connection, free, (key,)))


main(f"psycopg {psycopg.__version__}", prepare)
