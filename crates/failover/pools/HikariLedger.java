// The ledger's clients as threads of an application that share a HikariCP. ../README.md describes what is printed.

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import com.zaxxer.hikari.pool.HikariPool;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

public final class HikariLedger extends Thread {
    private static final String[] KINDS = {"block", "call", "idle"};
    private static final String CALL =
        "with entry as (insert into ledger values (?, ?) returning client) "
            + "update accounts set entries = entries + 1 from entry where accounts.client = entry.client";
    private static final String UNKNOWN = "08007";

    private static volatile boolean closing;
    private static HikariDataSource pool;

    private final int number;
    private final String kind;
    private final Random random;
    private long next;

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("--version")) {
            String hikari = HikariPool.class.getProtectionDomain().getCodeSource().getLocation().getPath();
            System.out.println(hikari.replaceAll(".*/HikariCP-(.*)\\.jar", "HikariCP $1") + ", pgjdbc "
                + org.postgresql.util.DriverInfo.DRIVER_VERSION + ", Java " + System.getProperty("java.version"));
            return;
        }
        int clients = Integer.parseInt(arguments[4]);
        // A logger that nobody holds may be collected, with its handler.
        Logger log = Logger.getLogger("com.zaxxer.hikari");
        log.setUseParentHandlers(false);
        log.setLevel(Level.FINE);
        log.addHandler(new Dead());
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(String.format("jdbc:postgresql://%s:%s/%s", arguments[0], arguments[1], arguments[3]));
        config.setUsername(arguments[2]);
        config.setMaximumPoolSize(clients);
        pool = new HikariDataSource(config);
        // It fills itself, one connection after the other.
        while (pool.getHikariPoolMXBean().getTotalConnections() < clients) {
            Thread.sleep(20);
        }
        List<HikariLedger> threads = new ArrayList<>();
        for (int number = 0; number < clients; number++) {
            HikariLedger client = new HikariLedger(number);
            client.start();
            threads.add(client);
        }
        String line = new BufferedReader(new InputStreamReader(System.in)).readLine();
        closing = true;
        // Without a line, the program that reads the output has ended.
        if (line != null) {
            for (HikariLedger client : threads) {
                client.join();
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private HikariLedger(int number) {
        this.number = number;
        this.kind = KINDS[number % 3];
        this.random = new Random(number);
    }

    @Override
    public void run() {
        try {
            if (kind.equals("idle")) {
                rest();
                return;
            }
            while (!closing) {
                Connection connection = take();
                if (connection == null) {
                    continue;
                }
                if (kind.equals("block")) {
                    block(connection);
                } else {
                    call(connection);
                }
                giveBack(connection);
                pause(150 + random.nextInt(300));
            }
        } catch (InterruptedException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** Its connection is not given back until the end. */
    private void rest() throws InterruptedException {
        Connection connection = null;
        while (connection == null && !closing) {
            connection = take();
            if (connection != null && !call(connection)) {
                giveBack(connection);
                connection = null;
            }
        }
        while (!closing) {
            Thread.sleep(20);
        }
        if (connection != null && !call(connection)) {
            say("idle-lost", "");
        }
    }

    private void pause(int ms) throws InterruptedException {
        for (int waited = 0; waited < ms && !closing; waited += 20) {
            Thread.sleep(20);
        }
    }

    /** Null: the pool had none. */
    private Connection take() throws InterruptedException {
        try {
            return pool.getConnection();
        } catch (SQLException error) {
            say("refused", error.getCause() instanceof SQLException cause ? code(cause) : "timeout");
            Thread.sleep(100);
            return null;
        }
    }

    private void giveBack(Connection connection) {
        try {
            connection.close();
        } catch (SQLException error) {
            ended(error);
        }
    }

    private void block(Connection connection) throws InterruptedException {
        long id = begin();
        boolean first = true;
        boolean commits = false;
        try {
            // The driver sends BEGIN together with the first statement.
            connection.setAutoCommit(false);
            try (PreparedStatement insert = connection.prepareStatement("insert into ledger values (?, ?)")) {
                insert.setLong(1, id);
                insert.setInt(2, number);
                insert.executeUpdate();
            }
            first = false;
            Thread.sleep(50);
            try (PreparedStatement update =
                connection.prepareStatement("update accounts set entries = entries + 1 where client = ?")) {
                update.setInt(1, number);
                update.executeUpdate();
            }
            commits = true;
            say("commits", "");
            connection.commit();
            say("committed", "");
        } catch (SQLException error) {
            String code = code(error);
            // A block that was lost had begun: the insert was sent.
            boolean hadNotBegun = first && !code.equals("40001");
            if (commits && (hasEnded(error) || code.equals(UNKNOWN))) {
                say("unknown", code);
            } else if (hasEnded(error)) {
                say("ended", code);
            } else {
                say(hadNotBegun ? "failed-first" : "failed", code);
            }
            lost(connection, error);
            try {
                if (!connection.isClosed()) {
                    connection.rollback();
                }
            } catch (SQLException again) {
                ended(again);
            }
        }
    }

    /** Whether it was answered. */
    private boolean call(Connection connection) {
        long id = begin();
        try (PreparedStatement call = connection.prepareStatement(CALL)) {
            call.setLong(1, id);
            call.setInt(2, number);
            int rows = call.executeUpdate();
            say(rows == 1 ? "committed" : "failed-first", rows == 1 ? "" : "rows-" + rows);
            return true;
        } catch (SQLException error) {
            String code = code(error);
            say(hasEnded(error) || code.equals(UNKNOWN) ? "unknown" : "failed-first", code);
            lost(connection, error);
            return false;
        }
    }

    private long begin() {
        long id = number * 1_000_000L + next++;
        say("sends", Long.toString(id));
        return id;
    }

    /** Says whether the pooler has ended the connection, or HikariCP throws it away. */
    private void lost(Connection connection, SQLException error) {
        try {
            if (hasEnded(error)) {
                say("dropped", code(error));
            } else if (connection.isClosed()) {
                say("evicted", code(error));
            }
        } catch (SQLException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private void ended(SQLException error) {
        if (hasEnded(error)) {
            say("dropped", code(error));
        }
    }

    private static String code(SQLException error) {
        return error.getSQLState() == null ? "none" : error.getSQLState();
    }

    /** A FATAL error, or none of the server's: the driver has lost the connection. */
    private static boolean hasEnded(SQLException error) {
        ServerErrorMessage words = error instanceof PSQLException own ? own.getServerErrorMessage() : null;
        return words == null ? code(error).startsWith("08") : !"ERROR".equals(words.getSeverity());
    }

    private void say(String event, String more) {
        print(event, number, more);
    }

    private static synchronized void print(String event, int client, String more) {
        System.out.println((event + " " + client + " " + more).trim());
        System.out.flush();
    }

    /** HikariCP's log has the connections that did not pass its test before they were lent. */
    private static final class Dead extends Handler {
        Dead() {
            setFormatter(new SimpleFormatter());
            setLevel(Level.ALL);
        }

        @Override
        public void publish(LogRecord record) {
            String text = getFormatter().formatMessage(record);
            if (text.contains("(connection is dead)")) {
                print("evicted", 0, "test");
            }
            if (record.getLevel().intValue() >= Level.INFO.intValue()) {
                System.err.println(text);
            }
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    }
}
