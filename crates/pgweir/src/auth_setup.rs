//! `pgweir auth-setup`: what lets the pooler look users up without a superuser's password.
//!
//! Promises SQL that can be run again, and that the role it makes can do nothing but call one function; that the function
//! knows no superusers and no replication roles; and that nobody else may call or replace it, whatever was there before. Sets no password: the script goes through
//! terminals and logs.

use std::process::ExitCode;
use std::time::Duration;

use ask::{Monitor, Target};

/// The schema of the function.
const SCHEMA: &str = "pgweir";
/// How PostgreSQL sees us.
const NAME: &str = "pgweir";
/// For each statement.
const PATIENCE: Duration = Duration::from_secs(30);

/// Prints the script for the database of a URL. `apply`: runs it there, too.
pub(crate) fn auth_setup(url: &str, role: &str, apply: bool) -> ExitCode {
    let done = programs::url::target(url).and_then(|target| {
        if apply {
            run(&target, role)?;
        }
        Ok(target)
    });
    match done {
        Ok(target) => {
            print!("{}", script(role, &target.database, apply));
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("pgweir auth-setup: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(target: &Target, role: &str) -> Result<(), String> {
    run_all(target, statements(role))
}

/// As one transaction, if the first begins one.
///
/// # Errors
/// In the server's words.
pub(crate) fn run_all(target: &Target, statements: Vec<String>) -> Result<(), String> {
    let mut monitor = Monitor::connect(target, NAME, PATIENCE)?;
    for statement in statements {
        // If one fails, the transaction ends with the connection, and nothing of it stays.
        monitor.ask(&statement)?;
    }
    Ok(())
}

/// In a transaction, without semicolons.
fn statements(role: &str) -> Vec<String> {
    let (literal, role) = (quoted(role, '\''), quoted(role, '"'));
    let function = format!("{SCHEMA}.user_lookup(pg_catalog.text)");
    vec![
        "BEGIN".to_owned(),
        creation(&literal, &role),
        format!("ALTER ROLE {role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT NOREPLICATION NOBYPASSRLS"),
        // Whoever owns the database may have been here first, and have let others in: what they made goes, and what they granted.
        format!("CREATE SCHEMA IF NOT EXISTS {SCHEMA}"),
        format!("ALTER SCHEMA {SCHEMA} OWNER TO CURRENT_USER"),
        format!("REVOKE ALL ON SCHEMA {SCHEMA} FROM PUBLIC"),
        format!("DROP FUNCTION IF EXISTS {function}"),
        format!(
            "CREATE FUNCTION {function}\n  \
             RETURNS TABLE (name pg_catalog.text, secret pg_catalog.text, valid_until pg_catalog.timestamptz)\n  \
             LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$\n  \
             SELECT rolname::pg_catalog.text, rolpassword, rolvaliduntil FROM pg_catalog.pg_authid\n  \
             WHERE rolname::pg_catalog.text OPERATOR(pg_catalog.=) $1 AND rolcanlogin\n    \
             AND NOT rolsuper AND NOT rolreplication AND NOT rolbypassrls\n    \
             AND rolname::pg_catalog.text OPERATOR(pg_catalog.<>) {literal}\n$body$"
        ),
        format!("REVOKE ALL ON FUNCTION {function} FROM PUBLIC"),
        withdrawal(&function),
        format!("GRANT USAGE ON SCHEMA {SCHEMA} TO {role}"),
        format!("GRANT EXECUTE ON FUNCTION {function} TO {role}"),
        "COMMIT".to_owned(),
    ]
}

/// Makes a role, if there is none. Its name comes as a literal and as a name in quotes.
pub(crate) fn creation(literal: &str, role: &str) -> String {
    format!(
        "DO $do$ BEGIN\n  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) {literal}) \
         THEN\n    CREATE ROLE {role};\n  END IF;\nEND $do$"
    )
}

/// Takes all rights to the schema and the function from everybody but their owner: those that were granted before, and those
/// that default privileges give.
fn withdrawal(function: &str) -> String {
    format!(
        "DO $do$ DECLARE held pg_catalog.record; BEGIN\n  FOR held IN\n    \
         SELECT 'SCHEMA {SCHEMA}' AS what, entry.grantee\n    \
         FROM pg_catalog.pg_namespace, LATERAL pg_catalog.aclexplode(nspacl) AS entry\n    \
         WHERE oid OPERATOR(pg_catalog.=) '{SCHEMA}'::pg_catalog.regnamespace\n      \
         AND entry.grantee OPERATOR(pg_catalog.<>) nspowner\n    \
         UNION SELECT 'FUNCTION {function}', entry.grantee\n    \
         FROM pg_catalog.pg_proc, LATERAL pg_catalog.aclexplode(proacl) AS entry\n    \
         WHERE oid OPERATOR(pg_catalog.=) '{function}'::pg_catalog.regprocedure\n      \
         AND entry.grantee OPERATOR(pg_catalog.<>) proowner\n  \
         LOOP\n    EXECUTE pg_catalog.concat('REVOKE ALL ON ', held.what, ' FROM ',\n      \
         CASE WHEN held.grantee OPERATOR(pg_catalog.=) 0 THEN 'PUBLIC' \
         ELSE held.grantee::pg_catalog.regrole::pg_catalog.text END, ' CASCADE');\n  \
         END LOOP;\nEND $do$"
    )
}

fn script(role: &str, database: &str, applied: bool) -> String {
    let head = if applied { "was run" } else { "to be run by a superuser, as often as you like" };
    let [in_rules, role_in_rules] = [database, role].map(|name| quoted(&one_line(name), '"'));
    let sql: String = statements(role).iter().map(|statement| format!("{statement};\n")).collect();
    let database = one_line(database);
    let name = one_line(role);
    format!(
        "-- Password look-ups for pgweir in database {database}: {head}.\n{sql}\
         --\n-- Then give the role a password, in psql:\n--   \\password {name}\n\
         --\n-- pg_hba.conf, above lines that let more in:\n--   hostssl {in_rules} {role_in_rules} all scram-sha-256\n\
         --   host    all {role_in_rules} all reject\n\
         --\n-- pgbouncer.ini, in [pgbouncer]:\n--   auth_user = {name}\n--   auth_dbname = {database}\n\
         --   auth_query = SELECT name, secret, valid_until FROM {SCHEMA}.user_lookup($1)\n\
         --\n-- auth_file:\n--   {role_in_rules} \"its password\"\n"
    )
}

/// A name in quotes, with those in it doubled.
pub(crate) fn quoted(name: &str, quote: char) -> String {
    let doubled: String = [quote, quote].iter().collect();
    format!("{quote}{}{quote}", name.replace(quote, &doubled))
}

/// What stands in a comment must not leave it.
pub(crate) fn one_line(name: &str) -> String {
    name.replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_names() {
        let text = script("o\"b'x\n;", "d\nDROP TABLE t;", false);
        assert!(
            text.contains("CREATE ROLE \"o\"\"b'x\n;\"") && text.contains("OPERATOR(pg_catalog.=) 'o\"b''x\n;'"),
            "{text}"
        );
        assert!(text.starts_with("-- Password look-ups for pgweir in database d?DROP TABLE t;: to be run"), "{text}");
    }
}
