// pgjdbc with its defaults, in twelve sessions that keep state on purpose.
//
// How it is called and what it prints: ../python/sessions.py. By default pgjdbc prepares a statement under a name of its
// own when it has been executed five times, prepares all again after DEALLOCATE ALL, DISCARD ALL and a change of search_path,
// and says SET SESSION CHARACTERISTICS when a connection's isolation or read-only mode is changed.

package drivers;

import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/** Runs checks, each by twelve sessions. */
public final class Sessions {
    static final int SESSIONS = 12;
    // Whoever waits longer waits for ever.
    static final long PATIENCE_S = 30;

    static String url;
    static Properties login;

    /** Something is not as a direct connection shows it. */
    static final class Different extends RuntimeException {
        private static final long serialVersionUID = 1;

        Different(String what) {
            super(what);
        }
    }

    interface Check {
        void run() throws Exception;
    }

    interface Call {
        Object run() throws SQLException;
    }

    interface Step {
        void await() throws Exception;
    }

    interface InStep {
        void talk(Session session, int number, Step step) throws Exception;
    }

    interface AtOnce {
        void talk(Session session, int number) throws Exception;
    }

    static void same(Object got, Object expected, String what) {
        if (!Objects.equals(got, expected)) {
            throw new Different(what + ": got `" + got + "`, expected `" + expected + "`");
        }
    }

    static void fails(String sqlstate, String what, Call call) {
        Object got;
        try {
            got = call.run();
        } catch (SQLException error) {
            same(error.getSQLState(), sqlstate, what + ": SQLSTATE of " + error.getMessage());
            return;
        }
        throw new Different(what + ": got `" + got + "`, expected SQLSTATE " + sqlstate);
    }

    /** A connection in autocommit. */
    static final class Session implements AutoCloseable {
        final Connection connection;

        Session(Map<String, String> wishes) throws SQLException {
            Properties properties = new Properties();
            properties.putAll(login);
            properties.putAll(wishes);
            connection = DriverManager.getConnection(url, properties);
        }

        /** By a plain statement; several may stand in the text. */
        int run(String sql) throws SQLException {
            try (Statement statement = connection.createStatement()) {
                statement.execute(sql);
                return statement.getUpdateCount();
            }
        }

        /** The only column of the only row, by a prepared statement. */
        String one(String sql, Object... values) throws SQLException {
            return rows(sql, values).get(0);
        }

        /** The first column of all rows, by a prepared statement, which the driver caches. */
        List<String> rows(String sql, Object... values) throws SQLException {
            try (PreparedStatement statement = connection.prepareStatement(sql)) {
                for (int n = 0; n < values.length; n++) {
                    statement.setObject(n + 1, values[n]);
                }
                return column(statement);
            }
        }

        String show(String name) throws SQLException {
            return one("select current_setting(?)", name);
        }

        @Override
        public void close() throws SQLException {
            connection.close();
        }
    }

    static List<String> column(PreparedStatement statement) throws SQLException {
        List<String> column = new ArrayList<>();
        try (ResultSet result = statement.executeQuery()) {
            while (result.next()) {
                column.add(result.getString(1));
            }
        }
        return column;
    }

    /** All finish a step before anybody begins the next. Not for state that may keep a server while its session rests. */
    static void inStep(Map<String, String> wishes, InStep check) {
        CyclicBarrier barrier = new CyclicBarrier(SESSIONS);
        Step step = () -> barrier.await(PATIENCE_S, TimeUnit.SECONDS);
        together(wishes, (session, number) -> check.talk(session, number, step));
    }

    /** Everybody at full speed. */
    static void atOnce(AtOnce check) {
        together(Map.of(), check);
    }

    static void alone(AtOnce check) throws Exception {
        try (Session session = new Session(Map.of())) {
            check.talk(session, -1);
        }
    }

    private static void together(Map<String, String> wishes, AtOnce check) {
        AtomicReference<Different> first = new AtomicReference<>();
        List<Thread> threads = new ArrayList<>();
        for (int n = 0; n < SESSIONS; n++) {
            int number = n;
            threads.add(daemon(() -> {
                try (Session session = new Session(wishes)) {
                    check.talk(session, number);
                } catch (Throwable failure) {
                    if (first.compareAndSet(null, new Different("session " + number + ": " + words(failure)))) {
                        // Whoever waits at the barrier is told.
                        threads.forEach(Thread::interrupt);
                    }
                }
            }));
        }
        threads.forEach(Thread::start);
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
        try {
            for (Thread thread : threads) {
                thread.join(Math.max(1, TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime())));
                if (thread.isAlive()) {
                    first.compareAndSet(null, new Different("sessions hang"));
                }
            }
        } catch (InterruptedException impossible) {
            throw new IllegalStateException(impossible);
        }
        if (first.get() != null) {
            throw first.get();
        }
    }

    private static Thread daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    }

    static String words(Throwable failure) {
        if (failure instanceof Different) {
            return failure.getMessage();
        }
        StackTraceElement[] frames = failure.getStackTrace();
        var ours = Arrays.stream(frames).filter(frame -> frame.getClassName().startsWith("drivers.Checks")).findFirst();
        return failure + ours.map(frame -> " at line " + frame.getLineNumber()).orElse("");
    }

    private static boolean holds(String name, Check check) {
        try {
            check.run();
            return true;
        } catch (Throwable failure) {
            System.out.println("DIFFERENT " + name + ": " + words(failure));
            return false;
        }
    }

    private static void watch() {
        try {
            Thread.sleep(TimeUnit.MINUTES.toMillis(30));
        } catch (InterruptedException impossible) {
            throw new IllegalStateException(impossible);
        }
        System.out.println("DIFFERENT all: hangs");
        Runtime.getRuntime().halt(1);
    }

    static void readUrl(String given) {
        URI uri = URI.create(given);
        String[] user = uri.getUserInfo().split(":", 2);
        url = "jdbc:postgresql://" + uri.getHost() + ":" + uri.getPort() + uri.getPath();
        login = new Properties();
        login.put("user", user[0]);
        login.put("password", user.length > 1 ? user[1] : "");
        login.put("connectTimeout", "120");
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("logins")) {
            Logins.main(arguments);
            return;
        }
        if (arguments[0].equals("console")) {
            Console.main(arguments);
            return;
        }
        if (arguments[0].equals("dbeaver")) {
            DBeaver.main(arguments);
            return;
        }
        readUrl(arguments[0]);
        List<String> named = Arrays.asList(arguments).subList(1, arguments.length);
        Map<String, Check> checks = new LinkedHashMap<>();
        Checks.all(checks);
        for (String name : named) {
            if (!checks.containsKey(name.replaceFirst("^-", ""))) {
                System.out.println("no such check: " + name);
                System.exit(1);
            }
        }
        List<String> wanted = new ArrayList<>(checks.keySet());
        wanted.removeIf(name -> named.contains("-" + name));
        if (checks.keySet().stream().anyMatch(named::contains)) {
            wanted.retainAll(named);
        }
        daemon(Sessions::watch).start();
        if (!holds("prepare", Checks::prepare)) {
            Runtime.getRuntime().halt(1);
        }
        for (String name : wanted) {
            long begun = System.nanoTime();
            if (!holds(name, checks.get(name))) {
                Runtime.getRuntime().halt(1);
            }
            System.out.printf("same %s %.2f s%n", name, (System.nanoTime() - begun) / 1e9);
        }
        System.out.printf("pgjdbc %s: %d checks, %d sessions%n",
            org.postgresql.Driver.class.getPackage().getImplementationVersion(), wanted.size(), SESSIONS);
    }

    private Sessions() {}
}
