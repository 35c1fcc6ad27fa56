package drivers;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.Properties;

/** Logs in once for each line of standard input; lines and answers are those of ../python/logins.py. */
public final class Logins {
    private static final String[] NAMES = {"user", "database", "password", "sslmode", "sslrootcert", "sslcert", "sslkey"};

    private Logins() {
    }

    static String logIn(String[] given) {
        Properties properties = new Properties();
        for (int at = 0; at < NAMES.length; at++) {
            String value = given[at + 2];
            if (!value.isEmpty() || NAMES[at].equals("password")) {
                properties.setProperty(NAMES[at], value);
            }
        }
        String database = (String) properties.remove("database");
        // Its own format of keys is DER.
        if (properties.containsKey("sslkey")) {
            properties.setProperty("sslkey", properties.getProperty("sslkey").replace(".key", ".pk8"));
        }
        try (Connection connection =
                DriverManager.getConnection("jdbc:postgresql://" + given[0] + ":" + given[1] + "/" + database, properties)) {
            connection.createStatement().execute("select 1");
            return "ok";
        } catch (SQLException error) {
            String words = String.valueOf(error.getMessage());
            int fatal = words.indexOf("FATAL: ");
            return fatal < 0 ? "-\t" + words : error.getSQLState() + "\t" + words.substring(fatal + 7);
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(logIn(line.split("\t", -1)).replace('\n', ' '));
        }
    }
}
