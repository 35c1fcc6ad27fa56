"""psycopg 3 with its defaults: settings that a session keeps on purpose. How it is called: sessions.py.

By default psycopg opens a transaction with the first statement, prepares what has been executed five times under a name
of its own, and forgets all names (DEALLOCATE ALL) after a ROLLBACK, a DROP and an ALTER.
"""

import datetime

import psycopg
from psycopg import errors
from sessions import at_once, check, in_step, main, raises, same
from through_psycopg import autocommitting, connect, one, prepare, show


@check
def settings():
    """SET lasts over transactions, RESET ends it; a timeout is in force and not only shown."""

    def talk(number, step):
        with connect() as connection:
            usual = show(connection, "work_mem")
            connection.execute(f"set work_mem = '{1000 + number}kB'")
            connection.execute(f"set lock_timeout to {60_001 + number}")
            connection.commit()
            for _ in range(8):
                step()
                same(show(connection, "work_mem"), f"{1000 + number}kB", "work_mem in a later transaction")
                same(show(connection, "lock_timeout"), f"{60_001 + number}ms", "lock_timeout in a later transaction")
            connection.execute("reset work_mem")
            connection.commit()
            step()
            same(show(connection, "work_mem"), usual, "work_mem after RESET")
            same(show(connection, "lock_timeout"), f"{60_001 + number}ms", "lock_timeout after the other's RESET")
            # What comes before and behind it is to be shorter on any machine.
            connection.execute("set statement_timeout = '2s'")
            connection.commit()
            step()
            raises(errors.QueryCanceled, "statement_timeout of 2 s", connection.execute, "select pg_sleep(3600)")
            connection.rollback()
            connection.execute("reset all")
            connection.commit()
            step()
            same(show(connection, "lock_timeout"), "0", "lock_timeout after RESET ALL")
            same(show(connection, "statement_timeout"), "0", "statement_timeout after RESET ALL")

    in_step(talk)


@check
def settings_of_a_transaction():
    """SET LOCAL and set_config(…, true) end with their transaction; a rollback undoes SET; so do savepoints."""

    def talk(number, step):
        with connect() as connection:
            connection.execute(f"set work_mem = '{1000 + number}kB'")
            connection.commit()
            step()
            connection.execute(f"set local work_mem = '{2000 + number}kB'")
            one(connection, "select set_config('lock_timeout', %s, true)", (f"{300 + number}ms",))
            same(one(connection, "show work_mem"), f"{2000 + number}kB", "work_mem after SET LOCAL")
            same(one(connection, "show lock_timeout"), f"{300 + number}ms", "lock_timeout within its transaction")
            connection.commit()
            step()
            same(show(connection, "work_mem"), f"{1000 + number}kB", "work_mem after SET LOCAL's transaction")
            same(show(connection, "lock_timeout"), "0", "lock_timeout after its transaction")
            connection.execute(f"set work_mem = '{3000 + number}kB'")
            connection.rollback()
            step()
            same(show(connection, "work_mem"), f"{1000 + number}kB", "work_mem after a rollback")
            with connection.transaction():
                connection.execute(f"set work_mem = '{4000 + number}kB'")
                with connection.transaction(force_rollback=True):
                    connection.execute(f"set work_mem = '{5000 + number}kB'")
                    connection.execute("set lock_timeout = '5s'")
                same(one(connection, "show work_mem"), f"{4000 + number}kB", "work_mem after ROLLBACK TO")
                with connection.transaction():
                    connection.execute(f"set idle_in_transaction_session_timeout = '{100 + number}s'")
            step()
            same(show(connection, "work_mem"), f"{4000 + number}kB", "work_mem of the outer transaction")
            same(show(connection, "lock_timeout"), "0", "lock_timeout of the savepoint that was rolled back")
            kept = one(connection, "select setting from pg_settings where name = 'idle_in_transaction_session_timeout'")
            connection.commit()
            same(kept, f"{(100 + number) * 1000}", "the setting of the savepoint that was released")

    in_step(talk)


@check
def settings_and_errors():
    """An error undoes the SETs of its transaction, the implicit one of a text with several statements included."""

    def talk(number, step):
        with autocommitting() as connection:
            connection.execute(f"set work_mem = '{1000 + number}kB'; set lock_timeout = '{70 + number}s'")
            step()
            several = "set work_mem = '2MB'; reset lock_timeout; select 1 / 0"
            raises(errors.DivisionByZero, "the third statement", connection.execute, several)
            step()
            same(show(connection, "work_mem"), f"{1000 + number}kB", "work_mem after an error behind it")
            raises(errors.InvalidParameterValue, "a wrong value", connection.execute, "set work_mem = 'much'")
            raises(errors.UndefinedObject, "a wrong name", connection.execute, "set there_is_no_such = 1")
            step()
            same(show(connection, "work_mem"), f"{1000 + number}kB", "work_mem after a SET that failed")
            same(one(connection, "select current_setting('lock_timeout')"), f"{70 + number}s", "lock_timeout")

    in_step(talk)


@check
def set_config():
    """set_config(…, false) with the value as a parameter, prepared after five times."""

    def talk(number, step):
        with connect() as connection:
            for turn in range(8):
                wanted = f"{3101 + number * 10 + turn}kB"
                one(connection, "select set_config('work_mem', %s, false)", (wanted,))
                one(connection, "select set_config('app.turn', %s, false)", (f"{number}/{turn}",))
                connection.commit()
                step()
                same(show(connection, "work_mem"), wanted, "work_mem by set_config")
                same(show(connection, "app.turn"), f"{number}/{turn}", "app.turn by set_config")
            one(connection, "select set_config('work_mem', '9MB', false)")
            connection.rollback()
            step()
            same(show(connection, "work_mem"), wanted, "work_mem after a rolled back set_config")

    in_step(talk)


@check
def set_config_of_any_name():
    """The setting's name, too, is a parameter, so that no text tells which it is."""

    def talk(number, step):
        with connect() as connection:
            for turn in range(4):
                for name, value in (("work_mem", f"{3101 + number}kB"), ("app.word", f"{number}/{turn}")):
                    one(connection, "select set_config(%s, %s, false)", (name, value))
                    connection.commit()
                    step()
                    same(show(connection, name), value, f"{name} by set_config")
            one(connection, "select set_config(%s, %s, true)", ("app.word", "local"))
            connection.commit()
            same(show(connection, "app.word"), f"{number}/3", "app.word after its transaction")

    in_step(talk)
    with connect() as connection:
        for _ in range(6):
            same(one(connection, "select coalesce(current_setting('app.word', true), '')"), "", "what a newcomer finds")
            connection.commit()


@check
def row_security():
    """A custom setting that decides which rows are seen, under a role that is held to it."""

    def talk(number, step):
        with connect() as connection:
            connection.execute("set role clerk")
            connection.execute(f"set app.tenant = 'tenant {number}'")
            connection.commit()
            for _ in range(12):
                step()
                rows = connection.execute("select tenant, amount from ledger").fetchall()
                connection.commit()
                same(rows, [(f"tenant {number}", number)], "the rows of this tenant")
            connection.execute("set local app.tenant = 'tenant 5'")
            rows = connection.execute("select tenant, amount from ledger").fetchall()
            same(rows, [("tenant 5", 5)], "the rows of a tenant for a transaction")
            connection.commit()
            step()
            rows = connection.execute("select tenant, amount from ledger").fetchall()
            same(rows, [(f"tenant {number}", number)], "the rows of this tenant again")

    in_step(talk)


@check
def roles():
    """SET ROLE, SET SESSION AUTHORIZATION, and back."""

    def talk(number, step):
        with connect() as connection:
            login = one(connection, "select current_user")
            connection.execute(f"set role worker_{number}")
            connection.commit()
            for _ in range(8):
                step()
                row = connection.execute("select current_user, session_user").fetchone()
                connection.commit()
                same(row, (f"worker_{number}", login), "current and session user under SET ROLE")
            raises(errors.InsufficientPrivilege, "another's table", connection.execute, "select * from counted")
            connection.rollback()
            connection.execute("set role none")
            connection.commit()
            step()
            same(one(connection, "select current_user"), login, "current user after SET ROLE NONE")
            connection.execute(f"set session authorization worker_{number}")
            connection.commit()
            step()
            row = connection.execute("select current_user, session_user").fetchone()
            connection.commit()
            same(row, (f"worker_{number}", f"worker_{number}"), "users under SET SESSION AUTHORIZATION")
            same(connection.info.parameter_status("session_authorization"), f"worker_{number}", "what the driver was told")
            connection.execute("reset session authorization")
            connection.commit()
            step()
            row = connection.execute("select current_user, session_user").fetchone()
            same(row, (login, login), "users after RESET SESSION AUTHORIZATION")

    in_step(talk)


@check
def search_path():
    """A schema a tenant: one statement, prepared, over twelve tables of which half have another type."""

    def talk(number, step):
        expected = number if number % 2 else str(number)
        with connect() as connection:
            connection.execute(f"set search_path = tenant_{number}, public")
            connection.commit()
            for _ in range(10):
                step()
                same(one(connection, "select value from things"), expected, "the value of this tenant")
                connection.commit()
            connection.execute("update things set value = value")
            same(one(connection, "select count(*) from things"), 1, "rows")
            connection.commit()
            connection.execute("reset search_path")
            connection.commit()
            step()
            raises(errors.UndefinedTable, "no schema, no table", connection.execute, "select value from things t")
            connection.rollback()

    in_step(talk)


@check
def time_zone():
    """The three ways to say a time zone, dates in two styles, and an encoding: told to the driver and used by it."""
    zones = [("Asia/Tokyo", 9), ("UTC", 0), ("America/Caracas", -4), ("Asia/Dubai", 4)]
    moment = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)

    def talk(number, step):
        zone, hours = zones[number % len(zones)]
        with connect() as connection:
            ways = [f"set time zone '{zone}'", f"set timezone to '{zone}'", f"set session time zone '{zone}'"]
            connection.execute(ways[number % len(ways)])
            connection.execute("set datestyle = 'German'" if number % 2 else "set datestyle = 'ISO, DMY'")
            connection.execute("set client_encoding = 'latin1'" if number % 3 == 0 else "set client_encoding = 'utf8'")
            connection.commit()
            for _ in range(8):
                step()
                text, date = connection.execute(
                    "select '2024-01-01 00:00+00'::timestamptz::text, '2024-02-01'::date::text"
                ).fetchone()
                same(date, "01.02.2024" if number % 2 else "2024-02-01", "a date")
                if not number % 2:
                    value = one(connection, "select '2024-01-01 00:00+00'::timestamptz")
                    same(value, moment, "the moment")
                    same(value.utcoffset(), datetime.timedelta(hours=hours), f"the offset in {zone}, text {text}")
                same(one(connection, "select 'naïve'"), "naïve", "a text in another encoding")
                same(one(connection, "select octet_length(%s::text)", ("naïve",)), 6, "its length in the server")
                connection.commit()
                same(connection.info.parameter_status("TimeZone"), zone, "what the driver was told")

    in_step(talk)


@check
def characteristics():
    """SET SESSION CHARACTERISTICS, and the driver's own way to choose isolation."""

    def talk(number, step):
        with connect() as connection:
            mode = "read only" if number % 2 else "read write"
            level = "serializable" if number % 3 else "read committed"
            connection.execute(f"set session characteristics as transaction isolation level {level}, {mode}")
            connection.commit()
            for _ in range(4):
                step()
                same(one(connection, "show transaction_isolation"), level, "isolation")
                if number % 2:
                    insert = "insert into counted values (0)"
                    raises(errors.ReadOnlySqlTransaction, "writing while read only", connection.execute, insert)
                else:
                    connection.execute("insert into counted values (0)")
                connection.rollback()
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            step()
            same(one(connection, "show transaction_isolation"), "repeatable read", "isolation by BEGIN")
            connection.commit()

    in_step(talk)


@check
def startup_options():
    """What the startup packet says is what RESET returns to."""

    def talk(number, step):
        options = f"-c search_path=tenant_{number} -c work_mem={2000 + number} -c app.tenant=start"
        with connect(options=options, application_name=f"program {number}") as connection:
            for _ in range(3):
                step()
                same(one(connection, "select value::text from things"), f"{number}", "by the search_path of the start")
                same(show(connection, "work_mem"), f"{2000 + number}kB", "work_mem of the start")
                same(show(connection, "application_name"), f"program {number}", "application_name of the start")
            connection.execute(f"set work_mem = '1MB'; set search_path = public; set app.tenant = '{number}'")
            connection.commit()
            step()
            same(show(connection, "app.tenant"), f"{number}", "app.tenant after SET")
            same(show(connection, "work_mem"), "1MB", "work_mem after SET")
            connection.execute("reset work_mem; reset search_path; set app.tenant to default")
            connection.commit()
            step()
            same(show(connection, "work_mem"), f"{2000 + number}kB", "work_mem after RESET")
            same(show(connection, "search_path"), f"tenant_{number}", "search_path after RESET")
            same(show(connection, "app.tenant"), "start", "app.tenant after SET TO DEFAULT")
            connection.execute("set application_name = 'other'; reset all")
            connection.commit()
            step()
            same(show(connection, "application_name"), f"program {number}", "application_name after RESET ALL")

    in_step(talk)


main(f"psycopg {psycopg.__version__}", prepare)
