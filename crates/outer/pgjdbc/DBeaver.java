package drivers;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

/**
 * Reads the console in the ways of DBeaver: its connections, properties and statements, in its order, without DBeaver. What it is called with and
 * prints is that of ../python/console.py.
 */
final class DBeaver {
    /** So many rows a result are shown at first. */
    private static final int ROWS_SHOWN = 200;

    private DBeaver() {
    }

    private static void must(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException(what);
        }
    }

    private static String first(Connection connection, String text, String... parameters) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(text)) {
            for (int at = 0; at < parameters.length; at++) {
                statement.setString(at + 1, parameters[at]);
            }
            try (ResultSet rows = statement.executeQuery()) {
                return rows.next() ? rows.getString(1) : "no row";
            }
        }
    }

    /** There is one for the editor and one for what it asks by itself. */
    private static Connection connect(String url, String purpose, boolean commitsItself) throws SQLException {
        Properties properties = new Properties();
        properties.putAll(Sessions.login);
        // Its default for PostgreSQL, for the sake of poolers.
        properties.setProperty("prepareThreshold", "0");
        Connection connection = DriverManager.getConnection(url, properties);
        connection.setClientInfo("ApplicationName", "DBeaver 24.2.3 - " + purpose + " <pgbouncer>");
        connection.setAutoCommit(commitsItself);
        must(connection.getAutoCommit() == commitsItself, "the driver's own");
        try (PreparedStatement statement = connection.prepareStatement("SELECT current_schema(),session_user");
             ResultSet rows = statement.executeQuery()) {
            must(rows.next() && rows.getString(1) == null && "postgres".equals(rows.getString(2)), "no schema, and the user");
        }
        must("".equals(first(connection, "SHOW search_path")), "no schema is searched");
        must("no row".equals(first(connection, "SELECT n.oid,n.*,d.description FROM pg_catalog.pg_namespace n\n"
            + "LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=n.oid\n WHERE nspname=? ORDER BY nspname", "")), "no schema");
        if (!commitsItself) {
            connection.commit();
        }
        return connection;
    }

    private static void read(Connection meta) throws SQLException {
        must("16384".equals(first(meta, "SELECT db.oid,db.* FROM pg_catalog.pg_database db WHERE datname=?", "pgbouncer")), "the database");
        // With the option to show all databases.
        try (PreparedStatement statement = meta.prepareStatement("SELECT db.oid,db.* FROM pg_catalog.pg_database db WHERE 1 = 1 AND datallowconn"
                + " AND NOT datistemplate OR db.datname =?\nORDER BY db.datname")) {
            statement.setString(1, "pgbouncer");
            try (ResultSet rows = statement.executeQuery()) {
                must(rows.next() && "pgbouncer".equals(rows.getString("datname")) && rows.getBoolean("datallowconn"), "one");
                must(!rows.getBoolean("datistemplate") && rows.getLong("datdba") == 10 && !rows.next(), "and no other");
            }
        }
        must("no row".equals(first(meta, "select * from pg_catalog.pg_settings where name=?", "standard_conforming_strings")), "no settings");
        must(meta.getMetaData().getDatabaseMajorVersion() == 1 && meta.getMetaData().getDatabaseMinorVersion() == 25, "it asks for nothing newer");
        must(!meta.getMetaData().getSQLKeywords().isEmpty(), "the driver knows them by itself");
        must(first(meta, "SELECT version()").startsWith("PgBouncer "), "it is shown");
        must("no row".equals(first(meta, "SELECT reltype FROM pg_catalog.pg_class WHERE 1<>1 LIMIT 1")), "there is such a column");
        // Without an answer to this one it gives up.
        must("no row".equals(first(meta, "SELECT t.oid,t.*,c.relkind,NULL as base_type_name, d.description\nFROM pg_catalog.pg_type t")), "no types");
        must("no row".equals(first(meta, "SELECT t.oid,t.*,NULL as base_type_name FROM pg_catalog.pg_type t\nWHERE t.typname=? ", "int4")), "nor this");
    }

    private static void edit(String way, Connection editor, String command) throws SQLException {
        try (Statement statement = editor.createStatement()) {
            statement.setMaxRows(ROWS_SHOWN);
            must(statement.execute(command), command);
            try (ResultSet rows = statement.getResultSet()) {
                for (int at = 1; at <= rows.getMetaData().getColumnCount(); at++) {
                    must("".equals(rows.getMetaData().getTableName(at)), "it belongs to no table");
                }
                Console.tell(way, command, rows);
            }
            must(!statement.getMoreResults() && statement.getUpdateCount() == -1, "one result");
        }
    }

    static void main(String[] arguments) throws Exception {
        Sessions.readUrl(arguments[1]);
        try (Connection meta = connect(Sessions.url, "Metadata", true);
             Connection editor = connect(Sessions.url, "SQLEditor <Script.sql>", true);
             Connection manual = connect(Sessions.url, "Main", false)) {
            read(meta);
            must(manual.getTransactionIsolation() == Connection.TRANSACTION_READ_COMMITTED, "the isolation level");
            for (int at = 2; at < arguments.length; at++) {
                edit("DBeaver", editor, arguments[at]);
                edit("DBeaver manual commit", manual, arguments[at]);
                manual.commit();
            }
            manual.rollback();
        }
    }
}
