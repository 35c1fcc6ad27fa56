//! The statements that a client has prepared, as another process gets them between two transactions.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wire::frontend::Parse;

use super::{Catalog, StatementId, StatementNames};
use crate::parameters::Parameters;
use crate::shape::Shape;
use crate::state::Sketch;
use crate::unnamed::Unnamed;

/// A client's names on their way to another process. What a text does is read there again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MovedNames {
    names: Vec<MovedName>,
    passes: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct MovedName {
    name: Box<[u8]>,
    id: StatementId,
    query: Box<[u8]>,
    types: Box<[u8]>,
    shape: Option<Shape>,
}

/// A client's unnamed statement on its way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MovedUnnamed {
    query: Box<[u8]>,
    types: Box<[u8]>,
}

impl StatementNames {
    /// `None`: something is under way.
    pub fn moved(&self) -> Option<MovedNames> {
        if !self.pending.is_empty() || !self.shapes_requested.is_empty() || self.trial.is_some() {
            return None;
        }
        let moved = self.names.iter().map(|(name, named)| MovedName {
            name: (**name).into(),
            id: named.statement.id,
            query: named.statement.query.clone(),
            types: named.statement.types.clone(),
            shape: named.shape.clone(),
        });
        Some(MovedNames { names: moved.collect(), passes: self.passes })
    }

    /// Come from another process, whose statements have the same ids. `read_by`: the session's parameters; if it has changed them since it
    /// prepared a statement, constants are read by the new ones. `sketch` reads what a text does.
    pub fn of_moved(
        moved: MovedNames,
        catalog: &mut Catalog,
        read_by: &Arc<Parameters>,
        mut sketch: impl FnMut(&[u8]) -> Sketch,
    ) -> StatementNames {
        let mut names = StatementNames { passes: moved.passes, ..StatementNames::default() };
        for MovedName { name, id, query, types, shape } in moved.names {
            let parse = Parse { name: b"", query: &query, types: &types };
            let statement = catalog.intern(id, &parse, Some(read_by), || sketch(&query));
            // It had room for them there.
            if names.insert(&name, Arc::clone(&statement)) {
                names.answered();
                names.take_for(&name, shape);
            }
        }
        names
    }
}

impl Unnamed {
    /// Whether it is kept here whole, and nothing is under way.
    pub fn can_move(&self) -> bool {
        !self.is_changing() && self.is_kept()
    }

    /// `None`: there is none.
    pub fn moved(&self) -> Option<MovedUnnamed> {
        let parse = self.parse()?;
        Some(MovedUnnamed { query: parse.query.into(), types: parse.types.into() })
    }

    /// Come from another process.
    pub fn of_moved(moved: &MovedUnnamed, catalog: &mut Catalog) -> Unnamed {
        let mut unnamed = Unnamed::default();
        let parse = Parse { name: b"", query: &moved.query, types: &moved.types };
        unnamed.parsed(catalog.next_version(), Some(&parse));
        unnamed.answered(false);
        unnamed.batch_ended();
        unnamed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Tracked;
    use crate::prepared::identify;

    #[test]
    fn names_stand_for_the_same_statements_in_the_other_process() {
        let (mut here, mut there) = (Catalog::default(), Catalog::default());
        let mut names = StatementNames::default();
        for (name, query) in [(&b"a"[..], &b"select 1"[..]), (b"b", b"select 2"), (b"c", b"select 1")] {
            let parse = Parse { name, query, types: b"\0\0" };
            let id = identify(b"key", &parse, std::iter::empty(), 0);
            names.insert(name, here.intern(id, &parse, None, Sketch::default));
        }
        assert!(names.moved().is_none(), "they are not answered yet");
        (0..3).for_each(|_| names.answered());
        let moved = names.moved().expect("nothing is under way");
        let mut texts = Vec::new();
        let arrived = StatementNames::of_moved(moved, &mut there, &Arc::new(Tracked::new(&[]).empty()), |text| {
            texts.push(text.to_vec());
            Sketch::default()
        });
        assert_eq!(texts, [b"select 1".to_vec(), b"select 2".to_vec()], "each text is read once");
        for name in [b"a", b"b", b"c"] {
            let statement = |names: &StatementNames| names.get(name).map(|it| (it.id, it.name.clone()));
            assert_eq!(statement(&arrived), statement(&names));
        }
        assert_eq!((arrived.bytes, arrived.pending_bytes), (names.bytes, 0));
    }

    #[test]
    fn the_unnamed_statement_moves_if_it_is_kept() {
        let mut catalog = Catalog::default();
        let mut unnamed = Unnamed::default();
        assert!(unnamed.can_move() && unnamed.moved().is_none());
        unnamed.parsed(7, Some(&Parse { name: b"", query: b"select 1", types: b"\0\0" }));
        assert!(!unnamed.can_move(), "it is not answered yet");
        unnamed.answered(false);
        assert!(unnamed.can_move());
        let moved = unnamed.moved().expect("there is one");
        let arrived = Unnamed::of_moved(&moved, &mut catalog);
        assert_eq!(
            arrived.parse().map(|parse| (parse.query.to_vec(), parse.types.to_vec())),
            Some((b"select 1".to_vec(), b"\0\0".to_vec()))
        );
        assert!(!arrived.is_changing() && !arrived.is_in_batch());
    }
}
