//! `pgweir observe-setup`: a role that may see what PostgreSQL's backends do, and nothing else.
//!
//! Promises SQL that can be run again. Sets no password: the script goes through terminals and logs.
//= pg18 predefined-roles#PREDEFINED-ROLE-PG-MONITOR

use std::process::ExitCode;

use crate::auth_setup::{creation, one_line, quoted, run_all};

/// Prints the script for the server of a URL. `apply`: runs it there, too.
pub(crate) fn observe_setup(url: &str, role: &str, apply: bool) -> ExitCode {
    let done = programs::url::target(url).and_then(|target| {
        if apply {
            run_all(&target, statements(role))?;
        }
        Ok(target)
    });
    match done {
        Ok(target) => {
            print!("{}", script(role, &target.database, apply));
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("pgweir observe-setup: {why}");
            ExitCode::FAILURE
        }
    }
}

/// In a transaction, without semicolons.
fn statements(role: &str) -> Vec<String> {
    let (literal, role) = (quoted(role, '\''), quoted(role, '"'));
    vec![
        "BEGIN".to_owned(),
        creation(&literal, &role),
        // Rights of pg_monitor come by inheritance.
        format!("ALTER ROLE {role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE INHERIT NOREPLICATION NOBYPASSRLS"),
        format!("GRANT pg_monitor TO {role}"),
        "COMMIT".to_owned(),
    ]
}

fn script(role: &str, database: &str, applied: bool) -> String {
    let head = if applied { "was run" } else { "to be run by a superuser, as often as you like" };
    let sql: String = statements(role).iter().map(|statement| format!("{statement};\n")).collect();
    let (name, role_in_rules, database) = (one_line(role), quoted(&one_line(role), '"'), one_line(database));
    format!(
        "-- What pgweir's observer needs to see what all backends do: {head}.\n{sql}\
         --\n-- Then give the role a password, in psql:\n--   \\password {name}\n\
         --\n-- pg_hba.conf, above lines that refuse it; pgweir connects to one database of each server, of the entries of [databases] the first by name, here {database}:\n\
         --   hostssl all {role_in_rules} all scram-sha-256\n\
         --\n-- pgbouncer.ini, in [pgbouncer]:\n--   observe_user = {name}\n\
         --\n-- auth_file, in clear text, since pgweir logs in with it:\n--   {role_in_rules} \"its password\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_names() {
        let text = script("o\"b'x\n;", "d\nDROP TABLE t;", false);
        assert!(text.contains("GRANT pg_monitor TO \"o\"\"b'x\n;\";"), "{text}");
        assert!(text.contains("here d?DROP TABLE t;:"), "{text}");
    }
}
