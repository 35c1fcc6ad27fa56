//! The schema of what `auth_query` names without one: `SELECT * FROM user_search($1)`.
//!
//! Lookups run with `search_path = pg_catalog`. If PostgreSQL does not know a name of the query, the connection looks for the schema that has
//! it, in the search_path of `auth_user`. Later lookups of the connection run with `pg_catalog` and that schema.
//!
//! ```text
//!   Schemas    which schemas are in the search_path of the role, and may other roles create objects in them?
//!   Trials     for each of them: does PostgreSQL accept the query with search_path = pg_catalog and this schema?
//!   Setting    search_path is set to what has been found
//! ```
//!
//! Promises that the query means what it meant before somebody without rights could make another object of its name: exactly one schema
//! of the path has the names, and nobody but its owner, superusers and `auth_user` may create objects in it.
//!
//! //= pg18 ddl-schemas#DDL-SCHEMAS-PATH
//! //= pg18 ddl-schemas#DDL-SCHEMAS-PATTERNS

use std::sync::Arc;

use wire::backend::{DataRow, tag};
use wire::frontend::{self, Bind, Execute, Parse, Query};

use super::end::LookupEnd;

/// The schemas of the role's own search_path, in its order: their names as SQL writes them, and whether others may create objects there.
/// The startup packet's search_path hides the role's, so it is read from where ALTER ROLE and ALTER DATABASE keep it.
///
/// //= pg18 catalog-pg-db-role-setting
const SCHEMAS: &[u8] = b"SELECT pg_catalog.set_config('search_path', COALESCE((\
    SELECT pg_catalog.substr(setting, 13) \
    FROM pg_catalog.pg_db_role_setting, LATERAL pg_catalog.unnest(setconfig) AS setting \
    WHERE setting OPERATOR(pg_catalog.~~) 'search\\_path=%' \
    AND (setrole OPERATOR(pg_catalog.=) 0 \
    OR setrole OPERATOR(pg_catalog.=) (SELECT oid FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) session_user)) \
    AND (setdatabase OPERATOR(pg_catalog.=) 0 OR setdatabase OPERATOR(pg_catalog.=) \
    (SELECT oid FROM pg_catalog.pg_database WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database())) \
    ORDER BY setrole OPERATOR(pg_catalog.=) 0, setdatabase OPERATOR(pg_catalog.=) 0 LIMIT 1), '\"$user\", public'), false); \
    SELECT pg_catalog.quote_ident(nspname), EXISTS (\
    SELECT FROM pg_catalog.aclexplode(COALESCE(nspacl, pg_catalog.acldefault('n', nspowner))) AS entry \
    WHERE entry.privilege_type OPERATOR(pg_catalog.=) 'CREATE' AND entry.grantee OPERATOR(pg_catalog.<>) nspowner \
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_roles AS role WHERE role.oid OPERATOR(pg_catalog.=) entry.grantee \
    AND (role.rolsuper OR role.rolname OPERATOR(pg_catalog.=) session_user))) \
    FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS path (name, place) \
    JOIN pg_catalog.pg_namespace ON nspname OPERATOR(pg_catalog.=) path.name \
    WHERE nspname OPERATOR(pg_catalog.<>) 'pg_catalog' ORDER BY path.place";

const SET: &[u8] = b"SELECT pg_catalog.set_config('search_path', $1, false)";

/// The search_path of lookups until a schema is found. It comes first after that, too.
pub(super) const CATALOG: &str = "pg_catalog";

/// A search under way on one connection.
#[derive(Debug)]
pub(super) struct Search {
    /// Answers of lookups that were sent before it, each up to its ReadyForQuery: they will be sent again.
    earlier: usize,
    stage: Stage,
    schemas: Vec<Schema>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Stage {
    Schemas,
    /// The answer that comes next, of two for each schema: its search_path, and the query.
    Trials(usize),
    Setting,
}

#[derive(Debug)]
struct Schema {
    name: String,
    /// Others may create objects in it.
    is_open: bool,
    /// PostgreSQL accepts the query with this schema in the search_path.
    fits: bool,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Resolved {
    /// Lookups run with this schema now.
    In(Arc<str>),
    /// Lookups fail for this reason, which belongs in the log.
    Nowhere(Arc<str>),
}

impl Search {
    /// Begins a search. `earlier`: the number of lookups that are not answered yet.
    pub(super) fn begin(earlier: usize, out: &mut Vec<u8>) -> Search {
        Query { text: SCHEMAS }.encode(out);
        Search { earlier, stage: Stage::Schemas, schemas: Vec::new() }
    }

    /// Reads one message. `query`: auth_query. Returns what was found, once lookups may be sent again.
    ///
    /// # Errors
    /// The server has broken the protocol, or cannot be asked.
    pub(super) fn take(
        &mut self,
        message: u8,
        body: &[u8],
        query: &str,
        out: &mut Vec<u8>,
    ) -> Result<Option<Resolved>, LookupEnd> {
        if self.earlier > 0 {
            self.earlier -= usize::from(message == tag::READY_FOR_QUERY);
            return Ok(None);
        }
        match (self.stage, message) {
            (Stage::Schemas, tag::DATA_ROW) => self.schemas.extend(schema(body)?),
            // The trial fails, and the next goes on.
            (Stage::Trials(place), tag::ERROR) if place % 2 == 1 => self.schemas[place / 2].fits = false,
            (_, tag::ERROR) => return Err(LookupEnd::NoSearchPath),
            (Stage::Schemas, tag::READY_FOR_QUERY) => {
                self.schemas.iter().for_each(|schema| schema.ask(query, out));
                self.stage = Stage::Trials(0);
                self.go_on(0, out);
            }
            (Stage::Trials(place), tag::READY_FOR_QUERY) => self.go_on(place + 1, out),
            (Stage::Setting, tag::READY_FOR_QUERY) => return Ok(Some(self.resolved())),
            _ => {}
        }
        Ok(None)
    }

    /// Waits for the answer at this place of the trials, or ends them.
    fn go_on(&mut self, place: usize, out: &mut Vec<u8>) {
        if place < 2 * self.schemas.len() {
            self.stage = Stage::Trials(place);
            return;
        }
        self.stage = Stage::Setting;
        match self.resolved() {
            Resolved::In(schema) => set(&format!("{CATALOG}, {schema}"), out),
            Resolved::Nowhere(_) => set(CATALOG, out),
        }
    }

    fn resolved(&self) -> Resolved {
        let fitting: Vec<&Schema> = self.schemas.iter().filter(|schema| schema.fits).collect();
        let names = |schemas: &[&Schema]| schemas.iter().map(|schema| &*schema.name).collect::<Vec<_>>().join(", ");
        let all = names(&self.schemas.iter().collect::<Vec<_>>());
        let why = match fitting[..] {
            [] if self.schemas.is_empty() => "the search_path of auth_user has no schema beside pg_catalog".to_owned(),
            [] => format!("no schema in the search_path of auth_user has the query's names: {all}"),
            [schema] if schema.is_open => format!(
                "schema {name} has the query's names, but other roles may create objects in it, and so answer for every user: revoke CREATE \
                 on it",
                name = schema.name
            ),
            [schema] => return Resolved::In(Arc::from(&*schema.name)),
            _ => format!("several schemas have the query's names, write the one that is meant: {}", names(&fitting)),
        };
        Resolved::Nowhere(why.into())
    }
}

impl Schema {
    /// Asks whether the query is accepted with this schema.
    fn ask(&self, query: &str, out: &mut Vec<u8>) {
        set(&format!("{CATALOG}, {}", self.name), out);
        Parse { name: b"", query: query.as_bytes(), types: Parse::NO_TYPES }.encode(out);
        frontend::encode_sync(out);
    }
}

/// Reads a row of [`SCHEMAS`]. `None`: it is of its first statement.
fn schema(body: &[u8]) -> Result<Option<Schema>, LookupEnd> {
    let row = DataRow::decode(body)?;
    let mut values = row.values();
    let name = values.next().flatten().map(|name| String::from_utf8_lossy(name).into_owned());
    let is_open = values.next().flatten().map(|is_open| is_open == b"t");
    Ok(name.zip(is_open).map(|(name, is_open)| Schema { name, is_open, fits: true }))
}

fn set(search_path: &str, out: &mut Vec<u8>) {
    Parse { name: b"", query: SET, types: Parse::NO_TYPES }.encode(out);
    Bind::encode(out, b"", b"", [Some(search_path.as_bytes())]);
    Execute { portal: b"", rows_max: 0 }.encode(out);
    frontend::encode_sync(out);
}
