//! SELECTs that graphical tools send when they connect, and the answers with which they go on: a closed list.
//!
//! pgAdmin and DBeaver read PostgreSQL's catalogue before they let anybody type. The console has none: it answers that it is one database without
//! a schema, or with no rows where a tool goes on without any. Nothing is looked up, and parameters are not read. Any other SELECT stays an
//! error, as in PgBouncer. Newer versions of the tools add columns and joins, so most of the list is the beginning of a text.

use connections::databases::CONSOLE_DATABASE;
use wire::backend::oid;

use crate::table::{Column, Table, boolean, int, text, words};
use crate::version;

/// A SELECT of a tool, and its answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Known {
    /// In lower case, with one blank between words. With a `%` at the end it is the beginning of the text.
    text: &'static str,
    columns: &'static [Column],
    rows: &'static [&'static [Cell]],
}

/// A value of an answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Cell {
    Null,
    Is(&'static str),
    /// The user who asks.
    User,
    /// As SHOW VERSION has it.
    Version,
    /// The console's database.
    Database,
}

use Cell::{Database, Is, Null, User, Version};

/// pgAdmin hides databases with smaller ids as PostgreSQL's own.
const DATABASE_ID: Cell = Is("16384");

/// A tool may bind as many values; each SELECT of the list binds one.
const PARAMETERS_MAX: u16 = 16;

/// The id and the name of each type that the console's tables have.
const TYPE_NAMES: &[&[Cell]] = &[
    &[Is("16"), Is("boolean")],
    &[Is("17"), Is("bytea")],
    &[Is("20"), Is("bigint")],
    &[Is("23"), Is("integer")],
    &[Is("25"), Is("text")],
    &[Is("1700"), Is("numeric")],
];

const fn known(text: &'static str, columns: &'static [Column], rows: &'static [&'static [Cell]]) -> Known {
    Known { text, columns, rows }
}

/// pgAdmin's: the first three at each connection, two when a server is connected, and one each when the list of databases is opened, when a
/// result is shown, and while the dashboard is open.
static PGADMIN: [Known; 8] = [
    known("select set_config('bytea_output','hex',false) from %", &[text("set_config")], &[&[Is("hex")]]),
    known(
        "select db.oid as did, db.datname, db.datallowconn, %",
        &[
            int("did"),
            text("datname"),
            boolean("datallowconn"),
            text("serverencoding"),
            boolean("cancreate"),
            boolean("datistemplate"),
        ],
        &[&[DATABASE_ID, Database, Is("t"), Is("UTF8"), Is("f"), Is("f")]],
    ),
    known(
        "select roles.oid as id, roles.rolname as name, %",
        &[
            int("id"),
            text("name"),
            boolean("is_superuser"),
            boolean("can_create_role"),
            boolean("can_create_db"),
            boolean("can_signal_backend"),
        ],
        // It offers no administration of PostgreSQL then.
        &[&[Is("10"), User, Is("f"), Is("f"), Is("f"), Is("f")]],
    ),
    known(
        "select case when usesuper then pg_catalog.pg_is_in_recovery() else false end as inrecovery, %",
        &[boolean("inrecovery"), boolean("isreplaypaused")],
        &[&[Is("f"), Is("f")]],
    ),
    // NULL: it is not replicated.
    known("select case when (select count(extname) from pg_catalog.pg_extension %", &[text("type")], &[&[Null]]),
    known(
        "select db.oid as did, db.datname as name, %",
        &[
            int("did"),
            text("name"),
            text("spcname"),
            boolean("datallowconn"),
            boolean("is_template"),
            boolean("cancreate"),
            int("owner"),
            text("description"),
        ],
        &[&[DATABASE_ID, Database, Null, Is("t"), Is("f"), Is("f"), Is("10"), Null]],
    ),
    // It takes those that it has asked for.
    known(
        "select oid, pg_catalog.format_type(oid, null) as typname from pg_catalog.pg_type %",
        &[int("oid"), text("typname")],
        TYPE_NAMES,
    ),
    known("/*pga4dash*/ %", &[text("chart_name"), text("chart_data")], &[]),
];

/// DBeaver's: the first one at each connection, the others while it reads what a database has. Without an answer about types it gives up.
static DBEAVER: [Known; 6] = [
    known("select current_schema(),session_user", &[text("current_schema"), text("session_user")], &[&[Null, User]]),
    known("select * from pg_catalog.pg_settings where name=%", &[text("name"), text("setting")], &[]),
    known("select n.oid,n.*,d.description from pg_catalog.pg_namespace n %", &[int("oid"), text("nspname")], &[]),
    known("select reltype from pg_catalog.pg_class where 1<>1 limit 1", &[int("reltype")], &[]),
    known("select t.oid,t.*,%", &[int("oid"), text("typname")], &[]),
    known(
        "select db.oid,db.* from pg_catalog.pg_database db where %",
        &[
            int("oid"),
            text("datname"),
            int("datdba"),
            int("encoding"),
            boolean("datistemplate"),
            boolean("datallowconn"),
            int("datconnlimit"),
        ],
        // 6 is UTF8.
        &[&[DATABASE_ID, Database, Is("10"), Is("6"), Is("f"), Is("t"), Is("-1")]],
    ),
];

/// Everybody's.
static ANYBODY: [Known; 1] = [known("select version()", &[text("version")], &[&[Version]])];

impl Known {
    fn all() -> impl Iterator<Item = &'static Known> {
        PGADMIN.iter().chain(&DBEAVER).chain(&ANYBODY)
    }

    /// The one with this text, and how many parameters the text has. `None`: there is none.
    pub(super) fn find(statement: &str) -> Option<(&'static Known, u16)> {
        let words: Vec<String> = statement.split_ascii_whitespace().map(str::to_ascii_lowercase).collect();
        let asked = words.join(" ");
        let found = Known::all().find(|known| match known.text.strip_suffix('%') {
            Some(start) => asked.starts_with(start),
            None => asked == known.text,
        })?;
        Some((found, parameters(&asked).filter(|count| *count <= PARAMETERS_MAX)?))
    }

    pub(crate) fn table(&self, user: &str) -> Table {
        let mut table = Table::new(self.columns);
        for row in self.rows {
            let value = |cell: &Cell| match cell {
                Null => None,
                Is(value) => words(*value),
                User => words(user),
                Version => words(version::text()),
                Database => words(CONSOLE_DATABASE),
            };
            table.push(row.iter().map(value).collect());
        }
        table
    }
}

/// The type of each parameter, as a description tells it. Any would do, as none is read.
pub(crate) fn parameter_types(count: u16) -> Vec<u32> {
    vec![oid::TEXT; usize::from(count)]
}

/// The highest number of a `$n` outside of single quotes. `None`: it is too large for a message.
fn parameters(statement: &str) -> Option<u16> {
    let outside = statement.split('\'').step_by(2);
    let numbers = outside.flat_map(|part| part.split('$').skip(1)).map(|rest| {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits == 0 { Some(0) } else { rest[..digits].parse::<u16>().ok() }
    });
    numbers.into_iter().try_fold(0, |most, number| Some(most.max(number?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What pgAdmin 9.18 and DBeaver 24.2 send, blanks and all (but for what is behind the beginning that counts: …), and the first row of the
    /// answer. DBeaver's texts are as pgjdbc sends them.
    const SENT: [(&str, &[Option<&str>]); 15] = [
        (
            "SELECT set_config('bytea_output','hex',false) FROM pg_show_all_settings() WHERE name = 'bytea_output'",
            &[Some("hex")],
        ),
        ("SELECT version()", &[Some("PgBouncer 1.25.2")]),
        (
            "\nSELECT\n    db.oid as did, db.datname, db.datallowconn,\n    pg_encoding_to_char(db.encoding) AS serverencoding,\n …",
            &[Some("16384"), Some("pgbouncer"), Some("t"), Some("UTF8"), Some("f"), Some("f")],
        ),
        (
            "\n        SELECT\n            roles.oid as id, roles.rolname as name,\n            roles.rolsuper as is_superuser,\n …",
            &[Some("10"), Some("dba"), Some("f"), Some("f"), Some("f"), Some("f")],
        ),
        (
            "SELECT CASE WHEN usesuper\n       THEN pg_catalog.pg_is_in_recovery()\n       ELSE FALSE\n       END as inrecovery,\n …",
            &[Some("f"), Some("f")],
        ),
        (
            "SELECT CASE\n    WHEN (SELECT count(extname) FROM pg_catalog.pg_extension WHERE extname='bdr') > 0\n …",
            &[None],
        ),
        (
            "SELECT\n    db.oid as did, db.datname as name, ta.spcname as spcname, db.datallowconn,\n …",
            &[Some("16384"), Some("pgbouncer"), None, Some("t"), Some("f"), Some("f"), Some("10"), None],
        ),
        (
            "SELECT oid, pg_catalog.format_type(oid, NULL) AS typname FROM pg_catalog.pg_type WHERE oid = ANY($1) ORDER BY oid",
            &[Some("16"), Some("boolean")],
        ),
        ("/*pga4dash*/\n\n\nSELECT 'session_stats' AS chart_name, pg_catalog.row_to_json(t) AS chart_data\n …", &[]),
        ("SELECT current_schema(),session_user", &[None, Some("dba")]),
        ("select * from pg_catalog.pg_settings where name=$1", &[]),
        (
            "SELECT n.oid,n.*,d.description FROM pg_catalog.pg_namespace n\nLEFT OUTER JOIN pg_catalog.pg_description d …",
            &[],
        ),
        ("SELECT reltype FROM pg_catalog.pg_class WHERE 1<>1 LIMIT 1", &[]),
        ("SELECT t.oid,t.*,c.relkind,NULL as base_type_name, d.description\nFROM pg_catalog.pg_type t\n …", &[]),
        (
            "SELECT db.oid,db.* FROM pg_catalog.pg_database db WHERE datname=$1",
            &[Some("16384"), Some("pgbouncer"), Some("10"), Some("6"), Some("f"), Some("t"), Some("-1")],
        ),
    ];

    #[test]
    fn each_question_of_the_tools_has_its_answer() {
        let mut seen = Vec::new();
        for (text, expected) in SENT {
            let (known, count) = Known::find(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(count, u16::from(text.contains('$')), "{text}");
            assert_eq!(known.table("dba").rows().next().unwrap_or_default(), expected, "{text}");
            seen.push(known.text);
        }
        assert!(Known::all().all(|known| seen.contains(&known.text)), "each is tested: {seen:?}");
    }

    #[test]
    fn each_is_as_texts_are_compared_and_has_a_value_for_each_column() {
        for known in Known::all() {
            assert!(known.rows.iter().all(|row| row.len() == known.columns.len()), "{}", known.text);
            let words: Vec<_> = known.text.split(' ').collect();
            assert!(words[..words.len() - 1].iter().all(|word| !word.is_empty()), "{}", known.text);
            assert_eq!(known.text, known.text.to_ascii_lowercase());
        }
    }

    #[test]
    fn others_are_not_known() {
        for text in [
            "",
            "select",
            "select 1",
            "select pools",
            "select versions()",
            "select version() from t",
            "select current_schema()",
            "select * from pg_catalog.pg_settings",
            "select db.oid",
            "show pools",
        ] {
            assert_eq!(Known::find(text), None, "{text}");
        }
    }

    #[test]
    fn a_table_of_parameters() {
        for (text, expected) in [
            ("select 1", Some(0)),
            ("where a = $1", Some(1)),
            ("where a in ($2,$1,$3)", Some(3)),
            ("where a = '$4'", Some(0)),
            ("where a = '$4''' and b = $2", Some(2)),
            ("$body$", Some(0)),
            ("$99999", None),
        ] {
            assert_eq!(parameters(text), expected, "{text}");
        }
        assert_eq!(Known::find("select t.oid,t.*,c.relkind where oid in ($1, $17)"), None);
    }
}
