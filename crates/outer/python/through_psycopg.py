"""Connections by psycopg 3, and the tables, schemas and roles that its two programs use."""

import psycopg
from sessions import SESSIONS

URL = ""


def connect(**wishes):
    return psycopg.connect(URL, **wishes)


def autocommitting(**wishes):
    return connect(autocommit=True, **wishes)


def one(connection, sql, values=None):
    return connection.execute(sql, values).fetchone()[0]


def show(connection, name):
    """The value, in a transaction of its own."""
    value = one(connection, f"show {name}")
    connection.commit()
    return value


def prepare(url):
    global URL
    URL = url
    with autocommitting() as connection:
        connection.execute("create role clerk")
        connection.execute("create table ledger (tenant text, amount int)")
        connection.execute("alter table ledger enable row level security")
        connection.execute("create policy own on ledger using (tenant = current_setting('app.tenant'))")
        connection.execute("grant all on ledger to clerk")
        connection.execute("create table counted (n int)")
        connection.execute("create table orders (id serial, session int)")
        for number in range(SESSIONS):
            connection.execute("insert into ledger values (%s, %s)", (f"tenant {number}", number))
            connection.execute(f"create role worker_{number}")
            connection.execute(f"create schema tenant_{number}")
            # The same statement over tables of the same name whose columns differ.
            kind = "int" if number % 2 else "text"
            connection.execute(f"create table tenant_{number}.things (value {kind})")
            connection.execute(f"insert into tenant_{number}.things values ('{number}')")
