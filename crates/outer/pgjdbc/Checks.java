// What the sessions of Sessions.java do and compare.

package drivers;

import static drivers.Sessions.SESSIONS;
import static drivers.Sessions.alone;
import static drivers.Sessions.atOnce;
import static drivers.Sessions.column;
import static drivers.Sessions.fails;
import static drivers.Sessions.inStep;
import static drivers.Sessions.same;
import static java.sql.Connection.TRANSACTION_READ_COMMITTED;
import static java.sql.Connection.TRANSACTION_SERIALIZABLE;

import java.io.StringReader;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.util.List;
import java.util.Map;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;

/** The checks, in the order in which they run. */
final class Checks {
    static void all(Map<String, Sessions.Check> checks) {
        checks.put("settings", Checks::settings);
        checks.put("savepoints", Checks::savepoints);
        checks.put("tenants", Checks::tenants);
        checks.put("schemas", Checks::schemas);
        checks.put("isolation", Checks::isolation);
        checks.put("startup", Checks::startup);
        checks.put("prepared", Checks::prepared);
        checks.put("changed_table", Checks::changedTable);
        checks.put("sql_prepare", Checks::sqlPrepare);
        checks.put("discarding", Checks::discarding);
        checks.put("fetch_size", Checks::fetchSize);
        checks.put("held_results", Checks::heldResults);
        checks.put("copying", Checks::copying);
        checks.put("temporary_tables", Checks::temporaryTables);
        checks.put("advisory_locks", Checks::advisoryLocks);
        checks.put("listen", Checks::listen);
        checks.put("current_values", Checks::currentValues);
    }

    static void prepare() throws Exception {
        alone((session, none) -> {
            session.run("create role clerk; create table ledger (tenant text, amount int);"
                + "alter table ledger enable row level security;"
                + "create policy own on ledger using (tenant = current_setting('app.tenant'));"
                + "grant all on ledger to clerk; create table counted (n int);"
                + "create table orders (id serial primary key, session int)");
            for (int n = 0; n < SESSIONS; n++) {
                String kind = n % 2 == 0 ? "text" : "int";
                session.run(String.format("insert into ledger values ('tenant %1$d', %1$d); create schema tenant_%1$d;"
                    + "create table tenant_%1$d.things (value %2$s); insert into tenant_%1$d.things values ('%1$d')", n, kind));
            }
        });
    }

    /** SET lasts over transactions, in autocommit and not; RESET ends it. */
    static void settings() {
        inStep(Map.of(), (s, number, step) -> {
            s.run("set work_mem = '" + (1000 + number) + "kB'; set app.number = '" + number + "'");
            for (int turn = 0; turn < 8; turn++) {
                step.await();
                s.connection.setAutoCommit(turn % 2 == 0);
                same(s.show("work_mem"), 1000 + number + "kB", "work_mem in a later transaction");
                same(s.show("app.number"), "" + number, "app.number in a later transaction");
                if (turn % 2 == 1) {
                    s.run("set local work_mem = '9MB'");
                    s.connection.commit();
                }
            }
            s.connection.setAutoCommit(true);
            s.one("select set_config('work_mem', ?, false)", 1100 + number + "kB");
            step.await();
            same(s.show("work_mem"), 1100 + number + "kB", "work_mem after set_config");
            fails("22012", "the second statement", () -> s.run("set work_mem = '9MB'; select 1 / 0"));
            step.await();
            same(s.show("work_mem"), 1100 + number + "kB", "work_mem after an error behind it");
            s.run("reset work_mem");
            step.await();
            same(s.show("work_mem"), "4MB", "work_mem after RESET");
        });
    }

    /** A rollback to a savepoint undoes what was SET behind it. */
    static void savepoints() {
        inStep(Map.of(), (s, number, step) -> {
            for (int turn = 0; turn < 4; turn++) {
                s.connection.setAutoCommit(false);
                s.run("set work_mem = '" + (2000 + number) + "kB'");
                Savepoint savepoint = s.connection.setSavepoint();
                s.run("set work_mem = '9MB'");
                fails("22012", "division", () -> s.one("select 1 / ?", 0));
                s.connection.rollback(savepoint);
                same(s.show("work_mem"), 2000 + number + "kB", "work_mem after the savepoint");
                s.connection.releaseSavepoint(s.connection.setSavepoint("named"));
                s.connection.commit();
                step.await();
                same(s.show("work_mem"), 2000 + number + "kB", "work_mem after COMMIT");
                s.run("set work_mem = '9MB'");
                s.connection.rollback();
                step.await();
                same(s.show("work_mem"), 2000 + number + "kB", "work_mem after ROLLBACK");
                s.connection.commit();
            }
        });
    }

    /** Row security by a custom setting, under a role. */
    static void tenants() {
        inStep(Map.of(), (s, number, step) -> {
            s.run("set role clerk");
            s.one("select set_config('app.tenant', ?, false)", "tenant " + number);
            for (int turn = 0; turn < 10; turn++) {
                step.await();
                same(s.rows("select tenant from ledger"), List.of("tenant " + number), "the rows of this tenant");
            }
            fails("42501", "a clerk must not", () -> s.run("insert into counted values (1)"));
            s.run("reset role");
            step.await();
            same(s.one("select (current_user = session_user)::text"), "true", "users after RESET ROLE");
        });
    }

    /** setSchema and SET search_path, with one statement over tables whose columns differ; the driver prepares again. */
    static void schemas() {
        inStep(Map.of(), (s, number, step) -> {
            for (int turn = 0; turn < 3; turn++) {
                s.connection.setSchema("tenant_" + number);
                for (int again = 0; again < 7; again++) {
                    step.await();
                    same(s.one("select value from things"), "" + number, "the value of this tenant");
                }
                same(s.connection.getSchema(), "tenant_" + number, "getSchema");
                int next = (number + 1) % SESSIONS;
                s.run("set search_path = tenant_" + next + ", public");
                step.await();
                same(s.one("select value from things"), "" + next, "the value of the next tenant");
            }
        });
    }

    /** setTransactionIsolation and setReadOnly are settings of the session. */
    static void isolation() {
        inStep(Map.of(), (s, number, step) -> {
            for (int turn = 0; turn < 4; turn++) {
                boolean serializable = (number + turn) % 2 == 0;
                s.connection.setTransactionIsolation(serializable ? TRANSACTION_SERIALIZABLE : TRANSACTION_READ_COMMITTED);
                s.connection.setReadOnly(number % 3 == 0);
                step.await();
                String level = serializable ? "serializable" : "read committed";
                same(s.show("transaction_isolation"), level, "isolation in autocommit");
                s.connection.setAutoCommit(false);
                same(s.show("transaction_isolation"), level, "isolation in a transaction");
                if (number % 3 == 0) {
                    fails("25006", "writing while read only", () -> s.run("insert into counted values (1)"));
                } else {
                    s.run("insert into counted values (1)");
                }
                s.connection.rollback();
                s.connection.setAutoCommit(true);
                same(s.connection.getTransactionIsolation() == TRANSACTION_SERIALIZABLE, serializable, "getTransactionIsolation");
            }
        });
    }

    /** The URL's currentSchema and options are what RESET returns to, and so is the time zone, which the driver sends. */
    static void startup() {
        Map<String, String> wishes = Map.of("currentSchema", "tenant_5", "ApplicationName", "from pgjdbc",
            "options", "-c work_mem=2222 -c app.tenant=start");
        inStep(wishes, (s, number, step) -> {
            for (int turn = 0; turn < 3; turn++) {
                step.await();
                same(s.one("select value from things"), "5", "by the search_path of the start");
                same(s.show("work_mem"), "2222kB", "work_mem of the start");
            }
            String zone = s.show("timezone");
            s.run("set work_mem = '1MB'; set search_path = tenant_" + number + "; set timezone = 'Asia/Tokyo'");
            s.connection.setClientInfo("ApplicationName", "other");
            step.await();
            same(s.one("select value from things"), "" + number, "by the search_path that was set");
            same(s.show("application_name"), "other", "application_name by setClientInfo");
            s.run("reset all");
            step.await();
            same(s.show("work_mem"), "2222kB", "work_mem after RESET ALL");
            same(s.show("app.tenant"), "start", "app.tenant after RESET ALL");
            same(s.show("timezone"), zone, "timezone after RESET ALL");
            // Unlike the rest, the driver has SET it once it was let in.
            same(s.show("application_name"), "", "application_name after RESET ALL");
            same(s.one("select value from things"), "5", "by the search_path of the start again");
        });
    }

    /** Prepared by the driver after five times; many statements over many transactions, errors between. */
    static void prepared() {
        inStep(Map.of(), (s, number, step) -> {
            for (int turn = 0; turn < 8; turn++) {
                step.await();
                for (int kind = 0; kind < 40; kind++) {
                    String sql = "select (?::int + " + kind + ")::text || ?";
                    same(s.one(sql, turn, "/" + number), turn + kind + "/" + number, "a row by a prepared statement");
                }
                fails("22012", "division", () -> s.one("select 1 / ?", 0));
                batch(s, turn);
            }
            s.run("deallocate all");
            step.await();
            same(s.one("select (?::int + 0)::text || ?", 1, "x"), "1x", "after DEALLOCATE ALL");
        });
    }

    private static void batch(Sessions.Session s, int turn) throws SQLException {
        try (PreparedStatement statement = s.connection.prepareStatement("insert into counted values (?)")) {
            for (int n = 0; n < 20; n++) {
                statement.setInt(1, turn);
                statement.addBatch();
            }
            same(statement.executeBatch().length, 20, "counts of a batch");
        }
    }

    /** After ALTER TABLE the statement fails once, as PostgreSQL has it, or shows the new column. */
    static void changedTable() throws Exception {
        alone((s, none) -> s.run("create table shape (a int); insert into shape values (1)"));
        inStep(Map.of(), (s, number, step) -> {
            for (int turn = 0; turn < 8; turn++) {
                same(shape(s), "1", "the old shape");
            }
            step.await();
            if (number == 0) {
                s.run("alter table shape add column b text default 'new'");
            }
            step.await();
            String got;
            try {
                got = shape(s);
            } catch (SQLException error) {
                same(error.getSQLState(), "0A000", "the first time after the change: " + error.getMessage());
                got = shape(s);
            }
            same(got, "1 new", "the new shape");
        });
    }

    private static String shape(Sessions.Session s) throws SQLException {
        try (PreparedStatement statement = s.connection.prepareStatement("select * from shape");
            ResultSet result = statement.executeQuery()) {
            result.next();
            boolean wide = result.getMetaData().getColumnCount() > 1;
            return wide ? result.getString(1) + " " + result.getString(2) : result.getString(1);
        }
    }

    /** PREPARE and EXECUTE, the name with twelve meanings. */
    static void sqlPrepare() {
        inStep(Map.of(), (s, number, step) -> {
            s.run("prepare mine (int) as select $1 + " + number * 100);
            for (int turn = 0; turn < 8; turn++) {
                step.await();
                same(s.one("execute mine(7)"), "" + (number * 100 + 7), "EXECUTE");
            }
            s.run("deallocate mine");
            step.await();
            fails("26000", "after DEALLOCATE", () -> s.run("execute mine(1)"));
        });
    }

    /** DISCARD ALL between checkouts, by which the driver knows that its names are gone. */
    static void discarding() {
        inStep(Map.of(), (s, number, step) -> {
            for (int turn = 0; turn < 3; turn++) {
                s.run("set search_path = tenant_" + number + "; set app.tenant = 'tenant " + number + "'; set role clerk");
                for (int again = 0; again < 7; again++) {
                    same(s.rows("select tenant from public.ledger"), List.of("tenant " + number), "the rows of this tenant");
                }
                step.await();
                s.run("discard all");
                step.await();
                same(s.show("search_path"), "\"$user\", public", "search_path after DISCARD ALL");
                same(s.one("select (current_user = session_user)::text"), "true", "users after DISCARD ALL");
                same(s.one("select coalesce(current_setting('app.tenant', true), '')"), "", "app.tenant after DISCARD ALL");
            }
        });
    }

    /** A portal read in parts within a transaction. */
    static void fetchSize() {
        inStep(Map.of(), (s, number, step) -> {
            s.connection.setAutoCommit(false);
            for (int turn = 0; turn < 7; turn++) {
                try (PreparedStatement statement = s.connection.prepareStatement("select generate_series(1, ?)")) {
                    statement.setFetchSize(30);
                    statement.setInt(1, 100 + number);
                    same(column(statement).size(), 100 + number, "rows by parts of thirty");
                }
                s.connection.commit();
                step.await();
            }
        });
    }

    /** A result that is held over COMMIT is read by the driver at once; a cursor WITH HOLD is the server's. */
    static void heldResults() {
        atOnce((s, number) -> {
            s.run("declare walk cursor with hold for select n + " + number + " from generate_series(1, 20) n");
            for (int turn = 1; turn <= 20; turn++) {
                same(s.one("fetch 1 from walk"), "" + (number + turn), "FETCH");
            }
            s.run("close walk");
            s.connection.setAutoCommit(false);
            try (Statement statement = s.connection.createStatement(
                ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY, ResultSet.HOLD_CURSORS_OVER_COMMIT)) {
                statement.setFetchSize(5);
                ResultSet result = statement.executeQuery("select generate_series(1, 20)");
                int seen = 0;
                while (result.next()) {
                    seen++;
                    s.connection.commit();
                }
                same(seen, 20, "rows of a result held over COMMIT");
            }
        });
    }

    /** CopyManager obeys search_path and DateStyle. */
    static void copying() throws Exception {
        alone((s, none) -> {
            for (int n = 0; n < SESSIONS; n++) {
                s.run("create table tenant_" + n + ".copied (n int, t text)");
            }
        });
        inStep(Map.of(), (s, number, step) -> {
            s.connection.setSchema("tenant_" + number);
            var copies = s.connection.unwrap(PGConnection.class).getCopyAPI();
            for (int turn = 1; turn <= 3; turn++) {
                step.await();
                String lines = (number + "\tt" + number + "\n").repeat(300);
                same(copies.copyIn("copy copied from stdin", new StringReader(lines)), 300L, "rows copied");
                step.await();
                String got = s.one("select format('%s %s %s', count(*), min(n), max(t)) from copied");
                same(got, 300 * turn + " " + number + " t" + number, "the table");
            }
        });
    }

    /** Of one name in half of the sessions; the others do not see them. */
    static void temporaryTables() {
        atOnce((s, number) -> {
            if (number % 2 == 1) {
                for (int turn = 0; turn < 8; turn++) {
                    same(s.one("select to_regclass('scratch')::text"), null, "somebody else's table");
                }
                return;
            }
            s.run("create temp table scratch (n int)");
            for (int turn = 0; turn < 8; turn++) {
                try (PreparedStatement statement = s.connection.prepareStatement("insert into scratch values (?)")) {
                    statement.setInt(1, number);
                    same(statement.executeUpdate(), 1, "rows inserted");
                }
            }
            same(s.one("select sum(n) from scratch"), "" + number * 8, "the temporary table");
            s.run("drop table scratch");
            same(s.one("select to_regclass('scratch')::text"), null, "after DROP");
        });
    }

    /** A lock around two transactions that nobody may come between. */
    static void advisoryLocks() throws Exception {
        alone((s, none) -> s.run("truncate counted; insert into counted values (0)"));
        atOnce((s, number) -> {
            for (int turn = 0; turn < 3; turn++) {
                s.one("select pg_advisory_lock(?)::text", 99L);
                int seen = Integer.parseInt(s.one("select n from counted"));
                s.run("update counted set n = " + (seen + 1));
                same(s.one("select pg_advisory_unlock(?)", 99L), "t", "the unlock");
            }
        });
        alone((s, none) -> same(s.one("select n from counted"), "" + 3 * SESSIONS, "what was counted under the lock"));
    }

    /** getNotifications, and the sender's pid as the sender knows it. */
    static void listen() {
        int[] pids = new int[SESSIONS];
        inStep(Map.of(), (s, number, step) -> {
            PGConnection connection = s.connection.unwrap(PGConnection.class);
            pids[number] = connection.getBackendPID();
            s.run("listen channel_" + number);
            step.await();
            int before = (number + SESSIONS - 1) % SESSIONS;
            for (int turn = 0; turn < 3; turn++) {
                s.one("select pg_notify(?, ?)::text", "channel_" + (number + 1) % SESSIONS, number + "/" + turn);
                PGNotification[] told = connection.getNotifications(5000);
                same(told == null ? 0 : told.length, 1, "notifications");
                String got = told[0].getName() + " " + told[0].getParameter() + " " + told[0].getPID();
                same(got, "channel_" + number + " " + before + "/" + turn + " " + pids[before], "channel, payload, pid");
                step.await();
            }
            s.run("unlisten *");
            step.await();
            same(s.one("select count(*) from pg_listening_channels()"), "0", "channels after UNLISTEN");
        });
    }

    /** Generated keys, currval and lastval, once somebody has asked for one. */
    static void currentValues() throws Exception {
        alone((s, none) -> fails("55000", "lastval by the first who asks", () -> s.one("select lastval()")));
        atOnce((s, number) -> {
            if (number % 3 == 0) {
                fails("55000", "lastval without nextval", () -> s.one("select lastval()"));
            }
            for (int turn = 0; turn < 5; turn++) {
                String given;
                String sql = "insert into orders (session) values (" + number + ")";
                try (Statement statement = s.connection.createStatement()) {
                    statement.executeUpdate(sql, Statement.RETURN_GENERATED_KEYS);
                    ResultSet keys = statement.getGeneratedKeys();
                    keys.next();
                    given = keys.getString(1);
                }
                same(s.one("select currval('orders_id_seq')"), given, "currval in a later transaction");
                same(s.one("select lastval()"), given, "lastval in a later transaction");
            }
        });
    }

    private Checks() {}
}
