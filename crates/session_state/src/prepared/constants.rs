//! Constants of a statement that is prepared again on another server: PostgreSQL reads them when it prepares a statement, by the parameters of
//! that moment, and the session, or another one that shares the statement, may have other parameters by now.
//!
//! Does not do: settings that servers do not report (`array_nulls`, `transform_null_equals`). Those only tell statements apart.
//!
//! //= pg18 datatype-datetime#DATATYPE-DATETIME-INPUT

use std::sync::Arc;

use crate::parameters::{Parameters, Tracked};

/// The parameters by which PostgreSQL read the text when a client prepared it; `None`: the text has no constants, or they are not known.
#[derive(Debug)]
pub struct Constants(Option<Arc<Parameters>>);

impl Constants {
    pub(super) fn new(query: &[u8], read_by: Option<&Arc<Parameters>>) -> Constants {
        Constants(read_by.filter(|_| depends_on_parameters(query)).map(Arc::clone))
    }

    /// The statements by which a server whose parameters are `found` reads the text as before, and those by which the server has its
    /// parameters again. Both are empty if there is no difference. They hold for a transaction: so the client's own SET LOCAL holds no longer
    /// than it would.
    pub fn settings(&self, found: &Arc<Parameters>, tracked: &Tracked) -> [Vec<Vec<u8>>; 2] {
        match &self.0 {
            Some(read_by) if !Arc::ptr_eq(read_by, found) => {
                [read_by.local_changes(found, tracked), found.local_changes(read_by, tracked)]
            }
            _ => Default::default(),
        }
    }
}

/// Whether a text has constants in quotes, or characters beyond ASCII. A parameter (`$1`) is none.
fn depends_on_parameters(query: &[u8]) -> bool {
    let begins_constant = |pair: &[u8]| pair[0] == b'$' && !pair[1].is_ascii_digit();
    query.contains(&b'\'') || !query.is_ascii() || query.windows(2).any(begins_constant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_by_the_parameters_of_its_client() {
        let tracked = Tracked::new(&["IntervalStyle".to_owned(), "search_path".to_owned()]);
        let parameters = |named: [(&str, &str); 3]| {
            let named = named.map(|(name, value)| (name.to_owned(), value.as_bytes().into()));
            Arc::new(Parameters::of_names(&named, &tracked))
        };
        let first = parameters([("TimeZone", "UTC"), ("application_name", "a"), ("search_path", "a")]);
        let now = parameters([("TimeZone", "O'Higgins"), ("application_name", "b"), ("search_path", "b")]);
        let settings = |query: &str, found| Constants::new(query.as_bytes(), Some(&first)).settings(found, &tracked);
        let [before, after] = settings("select timestamptz '2020-01-01'", &now);
        assert_eq!(before, [b"SET LOCAL TimeZone='UTC'"]);
        assert_eq!(after, [b"SET LOCAL TimeZone='O''Higgins'"]);
        for dependent in ["select $$2020$$::date", "select $x$2020$x$::date", "select \"ä\" from t"] {
            assert_eq!(settings(dependent, &now)[0].len(), 1, "{dependent}");
        }
        let none = [Vec::<Vec<u8>>::new(), Vec::new()];
        assert_eq!(settings("select $1::timestamptz", &now), none);
        assert_eq!(settings("select timestamptz '2020-01-01'", &first), none);
    }
}
