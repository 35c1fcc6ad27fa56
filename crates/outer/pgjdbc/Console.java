package drivers;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

/** Reads the console in the ways of the driver; what it is called with and prints is that of ../python/console.py. */
final class Console {
    private static final int ROWS_AT_A_TIME = 2;

    private Console() {
    }

    private static void must(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException(what);
        }
    }

    static void tell(String way, String command, ResultSet rows) throws SQLException {
        ResultSetMetaData columns = rows.getMetaData();
        while (rows.next()) {
            StringBuilder line = new StringBuilder(way + "\t" + command);
            for (int at = 1; at <= columns.getColumnCount(); at++) {
                Object value = rows.getObject(at);
                must(value == null || columns.getColumnClassName(at).equals(value.getClass().getName()), line.toString());
                line.append('\t').append(value == null ? "\\N" : value.toString());
            }
            System.out.println(line);
        }
    }

    private static Connection connect(String url, String... wishes) throws SQLException {
        Properties properties = new Properties();
        properties.putAll(Sessions.login);
        for (int at = 0; at < wishes.length; at += 2) {
            properties.setProperty(wishes[at], wishes[at + 1]);
        }
        return DriverManager.getConnection(url, properties);
    }

    private static void ask(String way, Connection connection, String command) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.setFetchSize(ROWS_AT_A_TIME);
            try (ResultSet rows = statement.executeQuery(command)) {
                tell(way, command, rows);
            }
        }
    }

    static void main(String[] arguments) throws Exception {
        Sessions.readUrl(arguments[1]);
        String url = Sessions.url;
        try (Connection plain = connect(url);
             Connection simple = connect(url, "preferQueryMode", "simple");
             Connection grouped = connect(url, "prepareThreshold", "1", "ApplicationName", "a tool", "assumeMinServerVersion", "9.0")) {
            // It asks by a simple query without a word, which is an error here as at PgBouncer; the connection is usable all the same.
            must(!plain.isValid(5) && !simple.isValid(5) && !grouped.isValid(5), "isValid");
            must(plain.getTransactionIsolation() == Connection.TRANSACTION_READ_COMMITTED, "the isolation level");
            for (int at = 2; at < arguments.length; at++) {
                String command = arguments[at];
                ask("pgjdbc", plain, command);
                ask("pgjdbc simple", simple, command);
                // In a block rows come a few at a time.
                plain.setAutoCommit(false);
                ask("pgjdbc fetch", plain, command);
                plain.commit();
                plain.setAutoCommit(true);
                try (PreparedStatement prepared = grouped.prepareStatement(command)) {
                    for (int time = 0; time < 3; time++) {
                        try (ResultSet rows = prepared.executeQuery()) {
                            tell("pgjdbc prepared", command, rows);
                        }
                    }
                }
            }
            try (Statement statement = plain.createStatement()) {
                statement.executeQuery("show nonsense");
                must(false, "there is no such command");
            } catch (SQLException error) {
                must("08P01".equals(error.getSQLState()), error.toString());
            }
            ask("pgjdbc", plain, "show version");
        }
    }
}
