"""asyncpg with its defaults, and its own pool. How it is called and what it prints: sessions.py.

By default asyncpg prepares every statement under a name of its own and keeps a hundred; asks for types it does not know
with `jit` switched off and on again by set_config; prepares again by itself what a changed table has made stale; and says
`SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL;` when a connection comes back to its pool.
"""

import asyncio
import contextlib

import asyncpg
from sessions import PATIENCE_S, SESSIONS, check, main, same
from tasks import at_once, in_step, raises

URL = ""


@contextlib.asynccontextmanager
async def connected(**wishes):
    connection = await asyncpg.connect(URL, **wishes)
    try:
        yield connection
    finally:
        # Not an orderly close: that would hang where a failed check has left it.
        if not connection.is_closed():
            connection.terminate()


def prepare(url):
    global URL
    URL = url

    async def make():
        async with connected() as connection:
            await connection.execute(
                """
                create table ledger (tenant text, amount int);
                alter table ledger enable row level security;
                create policy own on ledger using (tenant = current_setting('app.tenant'));
                create role clerk;
                grant all on ledger to clerk;
                create table counted (n int);
                insert into counted values (0);
                create table orders (id serial, session int);
                create type pair as (number int, word text);
                """
            )
            for number in range(SESSIONS):
                kind = "int" if number % 2 else "text"
                await connection.execute(
                    f"""
                    insert into ledger values ('tenant {number}', {number});
                    create schema tenant_{number};
                    create table tenant_{number}.things (value {kind});
                    insert into tenant_{number}.things values ('{number}');
                    """
                )

    asyncio.run(make())


@check
def settings():
    """SET and RESET; transactions, savepoints and errors undo them."""

    async def talk(number, step):
        async with connected() as connection:
            await connection.execute(f"set work_mem = '{1000 + number}kB'")
            for _ in range(8):
                await step()
                same(await connection.fetchval("show work_mem"), f"{1000 + number}kB", "work_mem")
            with contextlib.suppress(ZeroDivisionError):
                async with connection.transaction():
                    await connection.execute(f"set work_mem = '{2000 + number}kB'")
                    raise ZeroDivisionError
            await step()
            same(await connection.fetchval("show work_mem"), f"{1000 + number}kB", "work_mem after a rollback")
            async with connection.transaction(isolation="serializable", deferrable=True):
                await connection.execute(f"set work_mem = '{3000 + number}kB'")
                with contextlib.suppress(asyncpg.DivisionByZeroError):
                    async with connection.transaction():
                        await connection.execute("set work_mem = '9MB'; set lock_timeout = '9s'")
                        await connection.fetchval("select 1 / $1::int", 0)
                await connection.execute("set local statement_timeout = '9s'")
            await step()
            same(await connection.fetchval("show work_mem"), f"{3000 + number}kB", "work_mem after a savepoint's end")
            same(await connection.fetchval("show lock_timeout"), "0", "the savepoint's own setting")
            same(await connection.fetchval("show statement_timeout"), "0", "a SET LOCAL after its transaction")
            changed = connection.fetchval("select set_config('work_mem', $1, false)", f"{1100 + number}kB")
            same(await changed, f"{1100 + number}kB", "set_config")
            await step()
            same(await connection.fetchval("show work_mem"), f"{1100 + number}kB", "work_mem after set_config")

    in_step(talk)


@check
def server_settings():
    """What the startup packet says is what RESET and RESET ALL return to."""

    async def talk(number, step):
        wishes = {"search_path": f"tenant_{number}", "app.tenant": f"start {number}", "application_name": f"p{number}"}
        async with connected(server_settings={**wishes, "work_mem": f"{2000 + number}", "timezone": "Asia/Tokyo"}) as c:
            for _ in range(3):
                await step()
                same(str(await c.fetchval("select value from things")), f"{number}", "by the search_path of the start")
                same(await c.fetchval("show work_mem"), f"{2000 + number}kB", "work_mem of the start")
            await c.execute("set work_mem = '1MB'; set search_path = public; set app.tenant = 'x'; set timezone = 'UTC'")
            await step()
            same(await c.fetchval("show work_mem"), "1MB", "work_mem after SET")
            same(await c.fetchval("show app.tenant"), "x", "app.tenant after SET")
            await c.execute("reset work_mem; reset timezone")
            await step()
            same(await c.fetchval("show work_mem"), f"{2000 + number}kB", "work_mem after RESET")
            same(await c.fetchval("show timezone"), "Asia/Tokyo", "timezone after RESET")
            await c.execute("reset all")
            await step()
            got = [await c.fetchval(f"show {name}") for name in ("search_path", "app.tenant", "application_name")]
            same(got, [f"tenant_{number}", f"start {number}", f"p{number}"], "the rest after RESET ALL")

    in_step(talk)


@check
def tenants():
    """A schema and a row-security setting a tenant; the driver's cache has one name for the statement in each session."""

    async def talk(number, step):
        async with connected() as connection:
            await connection.execute(f"set search_path to tenant_{number}, public")
            # fetchval asks for one row and no more, so its statement is not run to its end.
            await connection.fetchval("select set_config('app.tenant', $1, false)", f"tenant {number}")
            await connection.execute("set role clerk")
            for _ in range(8):
                await step()
                rows = await connection.fetch("select tenant, amount from ledger")
                same([tuple(row) for row in rows], [(f"tenant {number}", number)], "the rows of this tenant")
                async with connection.transaction():
                    await connection.execute("set local role none")
                    value = await connection.fetchval("select value from things")
                    same(value, number if number % 2 else f"{number}", "the value of this tenant")

    in_step(talk)


@check
def types():
    """Types unknown to the driver: it asks the catalogue, with `jit` off meanwhile and back afterwards."""

    async def talk(number, step):
        async with connected() as connection:
            await connection.execute("set jit = on" if number % 2 else "set jit = off")
            await step()
            got = await connection.fetchval("select array[row($1::int, $2::text)::pair]", number, "x")
            same([tuple(pair) for pair in got], [(number, "x")], "an array of a composite type")
            await step()
            same(await connection.fetchval("show jit"), "on" if number % 2 else "off", "jit after the driver's toggle")
            await connection.set_type_codec("numeric", encoder=str, decoder=lambda t: f"<{t}>", schema="pg_catalog")
            await step()
            same(await connection.fetchval("select $1::numeric", 1.50), "<1.5>", "a codec of one's own")

    in_step(talk)


@check
def prepared_and_at_rest():
    """Statements prepared on purpose, first executed after everybody has prepared: asyncpg ends prepare() without a Sync."""

    async def talk(number, step):
        async with connected() as connection:
            kept = await connection.prepare("select $1::int * 2, $2::text")
            same([a.name for a in kept.get_attributes()], ["?column?", "text"], "the columns that were described")
            for turn in range(3):
                await step()
                same(tuple(await kept.fetchrow(turn, f"{number}")), (turn * 2, f"{number}"), "a row by a kept statement")

    in_step(talk)


@check
def prepared():
    """Statements of the cache, more than it keeps, over many transactions, failures between."""

    async def talk(number, step):
        async with connected() as connection:
            for turn in range(5):
                await step()
                for kind in range(30):
                    row = await connection.fetchrow(f"select $1::int + {kind} + {turn % 2 * 100}, $2::text", turn, f"{number}")
                    same(tuple(row), (turn + kind + turn % 2 * 100, f"{number}"), "a row by a cached statement")
                await raises(asyncpg.DivisionByZeroError, "division", connection.fetchval("select 1 / $1::int", 0))
                async with connection.transaction():
                    cursor = await connection.cursor("select generate_series(1, $1::int)", 50)
                    got = [row[0] for row in await cursor.fetch(20)] + [row[0] for row in await cursor.fetch(40)]
                    same(got, list(range(1, 51)), "a portal's rows in two parts")
                await connection.executemany("select $1::int", [(n,) for n in range(20)])

    in_step(talk)


@check
def changed_table():
    """Outside a transaction the driver heals a stale statement by itself; within one it says so."""

    async def make(sql):
        async with connected() as connection:
            await connection.execute(sql)

    async def talk(number, step):
        async with connected() as connection:
            for _ in range(3):
                same(tuple(await connection.fetchrow("select * from shape")), (1,), "the old shape")
            await step()
            if number == 0:
                await make("alter table shape add column b text default 'new'")
            await step()
            same(tuple(await connection.fetchrow("select * from shape")), (1, "new"), "the new shape")
            await step()
            if number == 0:
                await make("alter table shape drop column a; alter table shape add column a text default 'text'")
            await step()
            try:
                async with connection.transaction():
                    await connection.execute("set local work_mem = '9MB'")
                    row = await connection.fetchrow("select * from shape")
                    same(tuple(row), ("new", "text"), "the shape after that, within a transaction")
            except asyncpg.InvalidCachedStatementError:
                pass
            same(tuple(await connection.fetchrow("select * from shape")), ("new", "text"), "the shape after that")
            await step()

    asyncio.run(make("drop table if exists shape; create table shape (a int); insert into shape values (1)"))
    in_step(talk)


@check
def sql_prepare():
    """PREPARE and EXECUTE, each session with its own meaning of the name."""

    async def talk(number, step):
        async with connected() as connection:
            await connection.execute(f"prepare mine (int) as select $1 + {number * 100}")
            for turn in range(6):
                await step()
                same(await connection.fetchval(f"execute mine({turn})"), number * 100 + turn, "EXECUTE")
            await connection.execute("deallocate mine")
            await step()
            await raises(asyncpg.InvalidSQLStatementNameError, "after DEALLOCATE", connection.execute("execute mine(1)"))

    in_step(talk)


@check
def temporary_tables():
    """Temporary tables filled by the driver's binary COPY and read over several transactions."""

    async def talk(number):
        async with connected() as connection:
            if number % 2:
                for _ in range(8):
                    same(await connection.fetchval("select to_regclass('scratch')::text"), None, "somebody else's table")
                return
            await connection.execute("create temp table scratch (n int, t text)")
            await connection.copy_records_to_table("scratch", records=[(n, f"{number}") for n in range(500)])
            for _ in range(4):
                row = await connection.fetchrow("select count(*), min(t), max(t) from scratch")
                same(tuple(row), (500, f"{number}", f"{number}"), "the temporary table")
            await connection.execute("discard temp")
            same(await connection.fetchval("select to_regclass('scratch')::text"), None, "after DISCARD TEMP")

    at_once(talk)


@check
def held_cursors():
    """A cursor WITH HOLD, and the driver's CLOSE ALL."""

    async def talk(number):
        async with connected() as connection:
            await connection.execute(f"declare walk cursor with hold for select {number} + generate_series(1, 30)")
            got = []
            while rows := await connection.fetch("fetch 7 from walk"):
                got += [row[0] for row in rows]
            same(got, [number + n for n in range(1, 31)], "what the cursor walked over")
            await connection.execute("close all")
            await raises(asyncpg.InvalidCursorNameError, "after CLOSE ALL", connection.execute("fetch 1 from walk"))

    at_once(talk)


@check
def advisory_locks():
    """A session lock around two transactions that nobody may come between."""

    async def talk(number):
        async with connected() as connection:
            for _ in range(3):
                await connection.execute("select pg_advisory_lock($1)", 42)
                seen = await connection.fetchval("select n from counted")
                await connection.execute("update counted set n = $1", seen + 1)
                same(await connection.fetchval("select pg_advisory_unlock($1)", 42), True, "the unlock")

    at_once(talk)

    async def total():
        async with connected() as connection:
            same(await connection.fetchval("select n from counted"), SESSIONS * 3, "what was counted under the lock")

    asyncio.run(total())


@check
def listen():
    """add_listener and NOTIFY from the neighbour, who is known by the pid that he was told."""
    pids = {}

    async def talk(number, step):
        async with connected() as connection:
            told = asyncio.Queue()
            pids[number] = connection.get_server_pid()

            def hear(_, pid, channel, payload):
                told.put_nowait((pid, channel, payload))

            await connection.add_listener(f"channel_{number}", hear)
            await step()
            for turn in range(3):
                neighbour = (number + 1) % SESSIONS
                await connection.execute("select pg_notify($1, $2)", f"channel_{neighbour}", f"{number}/{turn}")
                async with asyncio.timeout(PATIENCE_S):
                    got = await told.get()
                before = (number - 1) % SESSIONS
                same(got, (pids[before], f"channel_{number}", f"{before}/{turn}"), "pid, channel, payload")
                await step()
            await connection.remove_listener(f"channel_{number}", hear)
            await step()
            await connection.execute("select pg_notify($1, 'late')", f"channel_{neighbour}")
            await step()
            same(told.qsize(), 0, "notifications after the listener was removed")

    in_step(talk)


@check
def current_values():
    """currval and lastval over transactions of other sessions' inserts, once somebody has asked for one."""

    async def first():
        async with connected() as connection:
            undefined = asyncpg.ObjectNotInPrerequisiteStateError
            await raises(undefined, "the first who asks", connection.fetchval("select lastval()"))

    asyncio.run(first())

    async def talk(number):
        async with connected() as connection:
            for _ in range(5):
                given = await connection.fetchval("insert into orders (session) values ($1) returning id", number)
                same(await connection.fetchval("select currval('orders_id_seq')"), given, "currval")
                same(await connection.fetchval("select lastval()"), given, "lastval")

    at_once(talk)


@check
def pool_reset():
    """The driver's pool resets what a session has left, and does not touch its role: RESET ALL does not."""

    async def everybody(work):
        async with asyncpg.create_pool(URL, min_size=SESSIONS, max_size=SESSIONS) as pool:
            await asyncio.gather(*[work(pool, number) for number in range(SESSIONS)])

    async def work(pool, number):
        for turn in range(4):
            async with pool.acquire() as connection:
                row = await connection.fetchrow(
                    "select current_user, current_setting('work_mem'), current_setting('search_path'),"
                    " coalesce(current_setting('app.tenant', true), ''),"
                    " (select count(*) from pg_cursors where name = 'leftover')"
                )
                same(tuple(row)[1:], ("4MB", '"$user", public', "", 0), "what the pool's reset leaves")
                if row["current_user"] != "clerk":
                    same(row["current_user"], "postgres", "current user")
                    await connection.execute("set role clerk")
                await connection.execute(f"set work_mem = '{1000 + number}kB'; set search_path = tenant_{number}")
                await connection.execute(f"set app.tenant = 'tenant {number}'")
                rows = await connection.fetch("select tenant from public.ledger")
                same([row[0] for row in rows], [f"tenant {number}"], "the rows of this tenant")
                if turn == 2:
                    await connection.execute("declare leftover cursor with hold for select 1")
                    await connection.execute("select pg_advisory_lock_shared(5)")

    asyncio.run(everybody(work))

    async def total():
        async with connected() as connection, asyncio.timeout(PATIENCE_S):
            await connection.execute("select pg_advisory_lock(5)")

    asyncio.run(total())


@check
def timeouts():
    """The driver's timeout cancels the statement, and the session goes on with what it has."""

    async def talk(number):
        async with connected() as connection:
            await connection.execute(f"set work_mem = '{1000 + number}kB'")
            for _ in range(3):
                await raises(TimeoutError, "a timeout", connection.execute("select pg_sleep(3600)", timeout=0.05))
                same(await connection.fetchval("show work_mem"), f"{1000 + number}kB", "work_mem after a cancel")

    at_once(talk)


main(f"asyncpg {asyncpg.__version__}", prepare)
