"""Django over psycopg, with persistent connections and with its pool. How it is called and what it prints: sessions.py.

By default Django sets the time zone when it connects and lets every statement commit by itself; `iterator()` outside of a
transaction reads from a cursor WITH HOLD; with CONN_MAX_AGE a connection, and what was SET in it, serves one request after
the other. Each thread has a connection of its own.
"""

import datetime
import sys
from urllib.parse import urlsplit

import django
from django.conf import settings as configuration
from sessions import SESSIONS, at_once, check, in_step, main, raises, same

address = urlsplit(sys.argv[1])
common = {
    "ENGINE": "django.db.backends.postgresql",
    "HOST": address.hostname,
    "PORT": address.port,
    "USER": address.username,
    "PASSWORD": address.password or "",
    "NAME": address.path.strip("/"),
}
configuration.configure(
    DATABASES={
        # Persistent connections, with the parameters bound by the client, as is the default.
        "default": {**common, "CONN_MAX_AGE": None},
        # Django's own pool; parameters bound by the server, which prepares.
        "pooled": {
            **common,
            "OPTIONS": {"pool": {"min_size": 2, "max_size": SESSIONS}, "server_side_binding": True},
        },
        "assuming": {
            **common,
            "OPTIONS": {"assume_role": "clerk", "isolation_level": 3},
            "TIME_ZONE": "Asia/Tokyo",
        },
    },
    USE_TZ=True,
    TIME_ZONE="America/Caracas",
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()

from django.db import IntegrityError, OperationalError, ProgrammingError, connections, models, transaction  # noqa: E402


class Customer(models.Model):
    name = models.CharField(max_length=40, unique=True)
    since = models.DateTimeField()

    class Meta:
        app_label = "shop"


class Purchase(models.Model):
    customer = models.ForeignKey(Customer, models.CASCADE)
    amount = models.IntegerField()

    class Meta:
        app_label = "shop"


class Thing(models.Model):
    value = models.TextField()

    class Meta:
        app_label = "shop"
        db_table = "thing"


def fetch(sql, values=None, using="default"):
    with connections[using].cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall() if cursor.description else None


def one(sql, values=None, using="default"):
    return fetch(sql, values, using)[0][0]


def over(using="default"):
    """The session's end: of a persistent connection, or of a checkout."""
    connections[using].close()


def prepare(_):
    with connections["default"].schema_editor() as editor:
        editor.create_model(Customer)
        editor.create_model(Purchase)
    fetch("create role clerk; grant all on all tables in schema public to clerk")
    fetch("grant usage on all sequences in schema public to clerk")
    for number in range(SESSIONS):
        fetch(f"create schema tenant_{number}; create table tenant_{number}.thing (id bigserial primary key, value text)")
        fetch(f"insert into tenant_{number}.thing (value) values ('thing {number}')")
        fetch(f"grant all on schema tenant_{number} to clerk; grant all on tenant_{number}.thing to clerk")
    over()


@check
def persistent_settings():
    """What one request has SET is there in the next on the same connection, as a direct connection has it."""

    def talk(number, step):
        fetch(f"set work_mem = '{1000 + number}kB'; set search_path = tenant_{number}, public")
        for _ in range(8):
            step()
            django.db.reset_queries()
            django.db.close_old_connections()  # what a request does when it begins and ends
            same([thing.value for thing in Thing.objects.all()], [f"thing {number}"], "the things of this tenant")
            same(one("show work_mem"), f"{1000 + number}kB", "work_mem")
            same(one("show timezone"), "UTC", "the time zone that Django has set when it connected")
        over()

    in_step(talk)


@check
def assumed_role():
    """`assume_role`, an isolation level and a time zone of the connection's own, all set once at its start."""

    def talk(number, step):
        for _ in range(5):
            step()
            row = fetch("select current_user::text, current_setting('timezone')", using="assuming")[0]
            same(row, ("clerk", "Asia/Tokyo"), "role and time zone")
            with transaction.atomic(using="assuming"):
                same(one("show transaction_isolation", using="assuming"), "repeatable read", "isolation")
            error = raises(ProgrammingError, "a clerk must not", fetch, "create role other", None, "assuming")
            same("permission denied" in str(error), True, f"{error}")
        over("assuming")

    in_step(talk)


@check
def atomic():
    """Nested atomic blocks are savepoints: what fails within is undone, settings included, and the rest is kept."""
    now = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)

    def talk(number, step):
        for using in ("default", "pooled"):
            for turn in range(3):
                name = f"{using} {number}/{turn}"
                with transaction.atomic(using=using):
                    fetch(f"set local work_mem = '{1000 + number}kB'", using=using)
                    customer = Customer.objects.using(using).create(name=name, since=now)
                    try:
                        with transaction.atomic(using=using):
                            fetch("set work_mem = '9MB'", using=using)
                            Customer.objects.using(using).create(name=name, since=now)
                    except IntegrityError:
                        pass
                    same(one("show work_mem", using=using), f"{1000 + number}kB", "work_mem after the savepoint")
                    Purchase.objects.using(using).create(customer=customer, amount=number)
                step()
                same(one("show work_mem", using=using), "4MB", "work_mem after the transaction")
                kept = Purchase.objects.using(using).filter(customer__name=name).values_list("amount", "customer__since")
                same(list(kept), [(number, now)], "what was kept")
            over(using)

    in_step(talk)


@check
def iterators():
    """`iterator()` in autocommit: a cursor WITH HOLD, read in parts while the same session does other things."""

    def talk(number):
        name = f"iterator {number}"
        customer = Customer.objects.create(name=name, since=datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc))
        Purchase.objects.bulk_create([Purchase(customer=customer, amount=n) for n in range(100)])
        seen = 0
        for purchase in Purchase.objects.filter(customer=customer).order_by("amount").iterator(chunk_size=10):
            same(purchase.amount, seen, "the next purchase")
            seen += 1
            if seen % 10 == 5:
                same(Customer.objects.filter(name=name).count(), 1, "a query while the iterator is open")
        same(seen, 100, "purchases seen")
        same(one("select count(*) from pg_cursors where is_holdable"), 0, "cursors that are left")
        with transaction.atomic():
            total = sum(p.amount for p in Purchase.objects.filter(customer=customer).iterator(chunk_size=30))
        same(total, 4950, "the sum by an iterator in a transaction")
        over()

    at_once(talk)


@check
def a_schema_a_checkout():
    """The pool's connections are everybody's in turn: each request says its tenant, and undoes it."""

    def talk(number, step):
        for _ in range(6):
            same(one("show search_path", using="pooled"), '"$user", public', "search_path of a fresh checkout")
            fetch(f"set search_path = tenant_{number}; set role clerk", using="pooled")
            step()
            values = list(Thing.objects.using("pooled").values_list("value", flat=True))
            same(values, [f"thing {number}"], "the things of this tenant")
            same(one("select current_user::text", using="pooled"), "clerk", "current user")
            fetch("reset role; reset search_path", using="pooled")
            over("pooled")
            step()

    in_step(talk)


@check
def locks_and_temporary_tables():
    """An advisory lock that guards a count, and a temporary table, in autocommit."""
    fetch("create table counted as select 0 as n")
    over()

    def talk(number):
        fetch("select pg_advisory_lock(%s)", [31])
        seen = one("select n from counted")
        fetch("update counted set n = %s", [seen + 1])
        same(one("select pg_advisory_unlock(%s)", [31]), True, "the unlock")
        fetch(f"create temporary table scratch as select {number} as n")
        fetch("insert into scratch select n + 1 from scratch")
        same(fetch("select n from scratch order by n"), [(number,), (number + 1,)], "the temporary table")
        over()

    at_once(talk)
    same(one("select n from counted"), SESSIONS, "what was counted under the lock")
    over()


@check
def last_values():
    """Ids by RETURNING, and the same by currval on the sequence that belongs to the column.

    The first who asks teaches the pooler that it matters.
    """
    raises(OperationalError, "the first who asks", one, "select lastval()")
    over()

    def talk(number):
        for turn in range(4):
            since = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
            customer = Customer.objects.create(name=f"last {number}/{turn}", since=since)
            current = one("select currval(pg_get_serial_sequence('shop_customer', 'id'))")
            same(current, customer.pk, "currval after an insert")
            same(one("select lastval()"), customer.pk, "lastval after an insert")
        over()

    at_once(talk)


main(f"Django {django.__version__}", prepare)
