"""SQLAlchemy over psycopg with its own pool of twelve connections. How it is called and what it prints: sessions.py.

By default a connection that comes back to the pool is rolled back and nothing else, so what a session has SET and
committed waits for whoever takes that connection next; programs use that on purpose, by events of the pool.
"""

import contextlib
import threading

import sqlalchemy as sa
from sessions import PATIENCE_S, SESSIONS, at_once, check, in_step, main, raises, same
from sqlalchemy import event, exc, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

URL = ""


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "customer"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    orders: Mapped[list["Order"]] = relationship(back_populates="customer", cascade="all")


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    customer_id: Mapped[int] = mapped_column(sa.ForeignKey("customer.id"))
    amount: Mapped[int]
    customer: Mapped[Customer] = relationship(back_populates="orders")


@contextlib.contextmanager
def an_engine(**wishes):
    engine = sa.create_engine(URL, **{"pool_size": SESSIONS, "pool_timeout": PATIENCE_S, **wishes})
    try:
        yield engine
    finally:
        engine.dispose()


def prepare(url):
    global URL
    URL = "postgresql+psycopg://" + url.split("://", 1)[1]
    with an_engine() as engine:
        Base.metadata.create_all(engine)
        with engine.begin() as connection:
            connection.execute(text("create role clerk"))
            connection.execute(text("create table ledger (tenant text, amount int)"))
            connection.execute(text("alter table ledger enable row level security"))
            connection.execute(text("create policy own on ledger using (tenant = current_setting('app.tenant'))"))
            connection.execute(text("grant all on ledger to clerk"))
            for number in range(SESSIONS):
                connection.execute(text(f"insert into ledger values ('tenant {number}', {number})"))
                connection.execute(text(f"create schema tenant_{number}"))
                connection.execute(text(f"create table tenant_{number}.things (id serial primary key, value text)"))
                connection.execute(text(f"insert into tenant_{number}.things (value) values ('thing {number}')"))


@check
def settings_of_a_connection():
    """A listener of the pool's `connect` event gives each connection settings of its own, once for all its checkouts."""
    with an_engine() as engine:
        lock, given = threading.Lock(), []

        @event.listens_for(engine, "connect")
        def on_connect(connection, record):
            with lock:
                given.append(len(given))
                record.info["number"] = given[-1]
            with connection.cursor() as cursor:
                cursor.execute(f"set work_mem = '{1000 + record.info['number']}kB'")
                cursor.execute(f"set app.connection = '{record.info['number']}'")
            connection.commit()

        def talk(_, step):
            for _ in range(8):
                with engine.connect() as connection:
                    number = connection.info["number"]
                    step()
                    asked = "select current_setting('work_mem'), current_setting('app.connection')"
                    row = connection.execute(text(asked)).one()
                    same(tuple(row), (f"{1000 + number}kB", f"{number}"), "what the pool's event has set")
                step()

        in_step(talk)
        same(len(given), SESSIONS, "connections that were opened")


@check
def tenants():
    """A tenant a checkout: search_path, role and row security are set when it begins and reset when it ends."""
    with an_engine(pool_size=4, max_overflow=SESSIONS) as engine:

        @event.listens_for(engine, "reset")
        def on_reset(connection, record, state):
            if not state.terminate_only:
                connection.rollback()
                with connection.cursor() as cursor:
                    cursor.execute("reset all")
                    cursor.execute("set session authorization default")
                connection.commit()

        def talk(number, step):
            for _ in range(5):
                with engine.connect() as connection:
                    users = tuple(connection.execute(text("select current_user, session_user")).one())
                    same(users[0], users[1], "current user of a fresh checkout")
                    path = connection.execute(text("show search_path")).scalar_one()
                    same(path, '"$user", public', "search_path of a fresh checkout")
                    connection.execute(text(f"set search_path to tenant_{number}, public"))
                    connection.execute(text("select set_config('app.tenant', :t, false)"), {"t": f"tenant {number}"})
                    connection.commit()
                    step()
                    things = connection.execute(text("select value from things")).scalars().all()
                    same(things, [f"thing {number}"], "the things of this tenant")
                    connection.execute(text("set role clerk"))
                    connection.commit()
                    step()
                    rows = connection.execute(text("select tenant, amount from ledger")).all()
                    same([tuple(row) for row in rows], [(f"tenant {number}", number)], "the rows of this tenant")
                step()

        in_step(talk)


@check
def orm():
    """Units of work with generated keys, savepoints that fail, and reads of what was written."""
    with an_engine() as engine:

        def talk(number, step):
            for turn in range(4):
                with Session(engine) as session:
                    customer = Customer(name=f"{number}/{turn}", orders=[Order(amount=n) for n in range(5)])
                    session.add(customer)
                    session.commit()
                    step()
                    with contextlib.suppress(exc.IntegrityError):
                        with session.begin_nested():
                            session.execute(text("set local work_mem = '9MB'"))
                            session.execute(sa.insert(Customer).values(id=customer.id, name="twice"))
                    same(session.scalar(text("show work_mem")), "4MB", "a SET LOCAL of the savepoint")
                    session.add(Order(amount=100, customer_id=customer.id))
                    session.commit()
                    step()
                    total = sa.select(sa.func.sum(Order.amount)).join(Order.customer).where(Customer.name == customer.name)
                    same(session.scalar(total), 110, "the sum of this customer's orders")
                    same(session.get(Customer, customer.id).name, f"{number}/{turn}", "the customer by its key")
                step()

        in_step(talk)


@check
def isolation():
    """Levels by the driver's attribute for a checkout, autocommit among them, and back when it ends."""
    with an_engine() as engine:
        levels = ["SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED", "AUTOCOMMIT"]

        def talk(number, step):
            for turn in range(6):
                level = levels[(number + turn) % 4]
                with engine.connect().execution_options(isolation_level=level) as connection:
                    step()
                    expected = "read committed" if level == "AUTOCOMMIT" else level.lower()
                    same(connection.scalar(text("show transaction_isolation")), expected, level)
                with engine.connect().execution_options(postgresql_readonly=True) as connection:
                    insert = text("insert into customer (name) values ('no')")
                    raises(exc.DBAPIError, "writing while read only", connection.execute, insert)
                with engine.connect() as connection:
                    same(connection.scalar(text("show transaction_read_only")), "off", "read only afterwards")
                step()

        in_step(talk)


@check
def streaming():
    """Server-side cursors in a transaction, many rows in parts, beside everybody else's."""
    with an_engine() as engine:

        def talk(number):
            with engine.connect().execution_options(stream_results=True, max_row_buffer=50) as connection:
                rows = connection.execute(text(f"select n + {number} from generate_series(1, 500) n"))
                same(sum(row[0] for row in rows), 125_250 + 500 * number, "the sum of a stream")

        at_once(talk)


@check
def temporary_tables():
    """A temporary table made by the metadata, kept in the pool's connection over transactions, and dropped."""
    metadata = sa.MetaData()
    scratch = sa.Table("scratch", metadata, sa.Column("n", sa.Integer), prefixes=["TEMPORARY"])
    with an_engine() as engine:

        def talk(number):
            with engine.connect() as connection:
                scratch.create(connection)
                connection.commit()
                connection.execute(scratch.insert(), [{"n": n} for n in range(number + 10)])
                connection.commit()
                count = connection.scalar(sa.select(sa.func.count()).select_from(scratch))
                same(count, number + 10, "rows of the temporary table")
                connection.rollback()
                same(sa.inspect(connection).get_temp_table_names(), ["scratch"], "temporary tables by reflection")
                scratch.drop(connection)
                connection.commit()

        at_once(talk)


@check
def sequences():
    """A sequence executed beforehand, and currval and lastval by SQL functions in later transactions.

    The first who asks teaches the pooler that it matters.
    """
    numbers = sa.Sequence("numbers")
    with an_engine() as engine:
        with engine.connect() as connection:
            raises(exc.OperationalError, "the first who asks", connection.execute, text("select lastval()"))
        with engine.begin() as connection:
            connection.execute(sa.schema.CreateSequence(numbers))

        def talk(_):
            with engine.connect() as connection:
                for _ in range(5):
                    given = connection.scalar(numbers)
                    connection.commit()
                    same(connection.scalar(text("select currval('numbers')")), given, "currval")
                    connection.commit()
                    same(connection.scalar(sa.select(sa.func.lastval())), given, "lastval")
                    connection.commit()
                connection.invalidate()  # its session ends here and does not wait in the pool

        at_once(talk)


@check
def advisory_locks():
    """A lock around two transactions, as migration tools hold it, given back by the end of the connection."""
    with an_engine() as engine:
        with engine.begin() as connection:
            connection.execute(text("create table counted (n int)"))
            connection.execute(text("insert into counted values (0)"))

        def talk(_):
            with engine.connect() as connection:
                connection.execute(text("select pg_advisory_lock(:key)"), {"key": 4242})
                connection.commit()
                seen = connection.scalar(text("select n from counted"))
                connection.commit()
                connection.execute(text("update counted set n = :n"), {"n": seen + 1})
                connection.commit()
                connection.invalidate()  # and with the connection goes the lock

        at_once(talk)
        with engine.connect() as connection:
            same(connection.scalar(text("select n from counted")), SESSIONS, "what was counted under the lock")


@check
def discarding():
    """A pool that says DISCARD ALL at each return, by a connection in autocommit, as Npgsql does."""
    with an_engine(pool_size=4, max_overflow=SESSIONS, connect_args={"prepare_threshold": None}) as engine:

        @event.listens_for(engine, "reset")
        def on_reset(connection, record, state):
            if not state.terminate_only:
                connection.rollback()
                connection.autocommit = True
                connection.cursor().execute("discard all")
                connection.autocommit = False

        def talk(number, step):
            for _ in range(5):
                with engine.connect() as connection:
                    same(connection.scalar(text("show work_mem")), "4MB", "work_mem of a fresh checkout")
                    listed = "select count(*) from pg_prepared_statements where from_sql"
                    same(connection.scalar(text(listed)), 0, "prepared statements of a fresh checkout")
                    connection.execute(text(f"set work_mem = '{1000 + number}kB'"))
                    connection.execute(text(f"prepare mine as select {number}"))
                    connection.commit()
                    step()
                    same(connection.scalar(text("show work_mem")), f"{1000 + number}kB", "work_mem")
                    same(connection.scalar(text("execute mine")), number, "EXECUTE")
                step()

        in_step(talk)


@check
def changed_table():
    """Reflected and selected while others prepare it, a table changes: the next checkout sees it as it is."""
    with an_engine() as engine:
        with engine.begin() as connection:
            connection.execute(text("create table shape (a int)"))
            connection.execute(text("insert into shape values (1)"))

        def talk(number, step):
            with engine.connect() as connection:
                for _ in range(8):
                    same(tuple(connection.execute(text("select * from shape")).one()), (1,), "the old shape")
                    connection.commit()
                step()
                if number == 0:
                    connection.execute(text("alter table shape add column b text default 'new'"))
                    connection.commit()
                step()
                try:
                    row = connection.execute(text("select * from shape")).one()
                except exc.NotSupportedError as error:
                    same("cached plan must not change result type" in str(error), True, f"{error}")
                    connection.rollback()  # upon which psycopg forgets what it has prepared
                    row = connection.execute(text("select * from shape")).one()
                same(tuple(row), (1, "new"), "the new shape")
                columns = [column["name"] for column in sa.inspect(connection).get_columns("shape")]
                same(columns, ["a", "b"], "the columns by reflection")
                connection.commit()
                step()

        in_step(talk)


main(f"SQLAlchemy {sa.__version__}", prepare)
