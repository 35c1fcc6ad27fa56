"""The console read by psycopg 3 and asyncpg with their defaults, and in the ways of theirs that need more of the protocol.

console.py URL COMMAND …   prints a line for each way and row: the way, the command, and each value, all separated by tabs; NULL is \\N.
                           Every way must give the same as any other. Ends with status 1 if something is not as it should be.
"""

import asyncio
import sys

import asyncpg
import psycopg

NULL = "\\N"


def tell(way, command, rows):
    for row in rows:
        print(way, command, *(NULL if value is None else str(value) for value in row), sep="\t")


def psycopg_ways(url, commands):
    def ask(way, connection, **options):
        for command in commands:
            cursor = connection.execute(command, **options)
            rows = cursor.fetchall()
            kinds = [column.type_code for column in cursor.description]
            # int4, int8: a driver that does not know the type gives a text.
            assert all(isinstance(value, int) for row in rows for kind, value in zip(kinds, row) if kind in (20, 23)), rows
            tell(way, command, rows)

    # It begins a transaction before its first command.
    with psycopg.connect(url) as connection:
        ask("psycopg", connection)
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        connection.commit()
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        with connection.transaction():
            ask("psycopg transaction", connection)
        try:
            connection.execute("show nonsense")
            raise AssertionError("there is no such command")
        except psycopg.errors.ProtocolViolation as error:
            assert "invalid command 'show nonsense'" in str(error), error
        connection.rollback()
    with psycopg.connect(url, autocommit=True) as connection:
        ask("psycopg autocommit", connection)
        ask("psycopg binary", connection, binary=True)
        # The second time it is executed by its name.
        for _ in range(2):
            ask("psycopg prepared", connection, prepare=True)
        with connection.pipeline():
            ask("psycopg pipeline", connection)
        connection.execute("set application_name = 'some script'")


async def asyncpg_ways(url, commands):
    connection = await asyncpg.connect(url)
    for command in commands:
        tell("asyncpg", command, await connection.fetch(command))
        statement = await connection.prepare(command)
        tell("asyncpg prepared", command, await statement.fetch())
        async with connection.transaction():
            # Two rows at a time: a portal that is suspended, and goes on.
            tell("asyncpg cursor", command, [row async for row in connection.cursor(command, prefetch=2)])
    try:
        await connection.fetch("select 1")
        raise AssertionError("SELECT is no command")
    except asyncpg.PostgresError as error:
        assert error.sqlstate == "08P01", error
    # What a pool sends when a connection comes back to it.
    try:
        await connection.reset()
        raise AssertionError("it is a SELECT")
    except asyncpg.PostgresError as error:
        assert error.sqlstate == "08P01", error
    await connection.execute("show version")
    await connection.close()


if __name__ == "__main__":
    psycopg_ways(sys.argv[1], sys.argv[2:])
    asyncio.run(asyncpg_ways(sys.argv[1], sys.argv[2:]))
