//! From the rows of a catalogue to the side effects of each name: its own first, then those of all that depends on it.
//!
//! ```text
//!   rows ──► findings: a name's own side effects          (a body that says SET, a C function)
//!        └─► edges:    what meets this name meets that one (a body's words, a trigger, a view's tables)
//!
//!   finish: what is found flows along the edges, backwards, until nothing changes
//! ```
//!
//! Names, not objects: two functions of one name are one, whatever their schemas. That finds too much and never too
//! little, and search_path need not be known.

use super::body::Body;
use super::built_in;
use super::row::{Land, Row, Take};
use super::{Catalogue, Entry};
use crate::side_effects::SideEffects;
use sql::Word;
use std::collections::BTreeSet;
use units::limits::{CATALOGUE_EDGES_MAX, CATALOGUE_NAMES_MAX, CATALOGUE_SETTINGS_MAX};
use wire::Error;

/// The side effects of a name, by how a text meets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) called: SideEffects,
    /// Called or not.
    pub(super) named: SideEffects,
    /// Named, in a text that writes.
    pub(super) writing: SideEffects,
    /// Named, in a text that adds rows.
    pub(super) filling: SideEffects,
}

impl Finding {
    fn is_empty(&self) -> bool {
        (self.called | self.named | self.writing | self.filling).is_empty()
    }

    pub(super) fn add(&mut self, other: Finding) {
        self.called |= other.called;
        self.named |= other.named;
        self.writing |= other.writing;
        self.filling |= other.filling;
    }

    /// What comes of a finding that came through an edge, where it lands.
    fn landed(self, land: Land) -> Finding {
        let (all, none) = (self.all().without(SideEffects::DEFINES), Finding::default());
        match land {
            Land::Called => Finding { called: self.all(), ..none },
            Land::Named => Finding { named: all, ..none },
            Land::Writing => Finding { writing: all, ..none },
            Land::Filling => Finding { filling: all, ..none },
            Land::Same => {
                let named = (self.called | self.named).without(SideEffects::DEFINES);
                Finding { called: SideEffects::NONE, named, ..self }
            }
            // These belong to no name.
            Land::Everywhere | Land::Definitions => none,
        }
    }

    pub(super) fn all(&self) -> SideEffects {
        self.called | self.named | self.writing | self.filling
    }
}

/// What flows along an edge.
#[derive(Clone, Copy, Debug)]
enum Flow {
    Take(Take),
    /// The other name stands in a body.
    Word {
        writes: bool,
        fills: bool,
    },
}

impl Flow {
    /// What comes through of a finding, given the other name as it stands there.
    fn through(self, other: Word, finding: Finding) -> Finding {
        let only = |is_so: bool, side_effects: SideEffects| if is_so { side_effects } else { SideEffects::NONE };
        match self {
            Flow::Take(Take::All) => finding,
            Flow::Take(Take::Reading) => Finding { writing: SideEffects::NONE, filling: SideEffects::NONE, ..finding },
            Flow::Take(Take::Known) => Finding {
                called: finding.called.without(SideEffects::UNKNOWN),
                named: finding.named.without(SideEffects::UNKNOWN),
                ..Finding::default()
            },
            Flow::Word { writes, fills } => Finding {
                called: only(other.is_called(), finding.called),
                named: finding.named,
                writing: only(writes, finding.writing),
                filling: only(fills, finding.filling),
            },
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    from: Word,
    /// As it stands there: called or not.
    other: Word,
    land: Land,
    flow: Flow,
}

/// Rows that came so far.
#[derive(Debug)]
pub struct CatalogueBuilder {
    findings: Vec<(Word, Finding)>,
    edges: Vec<Edge>,
    settings: BTreeSet<Box<[u8]>>,
    everywhere: SideEffects,
    definitions: SideEffects,
    is_too_large: bool,
}

impl Default for CatalogueBuilder {
    fn default() -> CatalogueBuilder {
        CatalogueBuilder::new()
    }
}

impl CatalogueBuilder {
    pub fn new() -> CatalogueBuilder {
        let called =
            |name: &&str| (Word::of(name.as_bytes()), Finding { called: SideEffects::DYNAMIC, ..Finding::default() });
        let updated = Finding { writing: SideEffects::SETTINGS, ..Finding::default() };
        let updatable = (Word::of(built_in::UPDATABLE.as_bytes()), updated);
        CatalogueBuilder {
            findings: built_in::RUN_TEXT.iter().map(called).chain([updatable]).collect(),
            edges: Vec::new(),
            settings: BTreeSet::new(),
            everywhere: SideEffects::NONE,
            definitions: SideEffects::NONE,
            is_too_large: false,
        }
    }

    /// The next row, as the body of a DataRow. Takes as long as it takes to read the function's source in it.
    ///
    /// # Errors
    /// If it is no row of [`super::QUERY`].
    pub fn data_row(&mut self, body: &[u8]) -> Result<(), Error> {
        self.row(&Row::decode(body)?);
        Ok(())
    }

    /// The next row.
    pub(crate) fn row(&mut self, row: &Row<'_>) {
        self.is_too_large |= self.edges.len() > CATALOGUE_EDGES_MAX || self.findings.len() > CATALOGUE_NAMES_MAX;
        if self.is_too_large {
            return;
        }
        match *row {
            Row::Edge { land, take, name, other } => self.edge(land, take, name, other),
            Row::Body { land, name, source: Some(source) } => self.body(land, name, source),
            Row::Body { land, name, source: None } => self.found(land, Word::of(name), SideEffects::UNKNOWN),
            Row::Other { land, name, keeps } => {
                let kept = if keeps { SideEffects::LOAD } else { SideEffects::NONE };
                self.found(land, Word::of(name), SideEffects::UNKNOWN | kept);
            }
            Row::Internal { land, name, symbol } => self.found(land, Word::of(name), built_in::of_symbol(symbol)),
            Row::C { land, name, extension } => self.found(land, Word::of(name), built_in::of_c(name, extension)),
        }
    }

    /// All rows have come.
    pub fn finish(mut self) -> Catalogue {
        if self.is_too_large {
            return Catalogue::unknown();
        }
        let mut nodes = self.nodes();
        let mut mentioned: Vec<Word> = self.edges.iter().map(|edge| edge.other.name()).collect();
        mentioned.sort_unstable();
        mentioned.dedup();
        self.flow(&mut nodes);
        nodes.retain(|(_, finding)| !finding.is_empty());
        if nodes.len() > CATALOGUE_NAMES_MAX {
            return Catalogue::unknown();
        }
        let entries = nodes.into_iter().map(|(name, finding)| Entry::new(name, finding));
        let settings = self.settings.into_iter().collect();
        Catalogue::of(entries.collect(), self.everywhere, self.definitions, settings, &mentioned)
    }

    fn edge(&mut self, land: Land, take: Take, name: &[u8], other: &[u8]) {
        let (from, flow) = (Word::of(name), Flow::Take(take));
        self.edges.push(Edge { from, other: Word::of(other), land, flow });
        // The server's own functions have no rows.
        self.found(land, from, built_in::of_name(other));
    }

    fn body(&mut self, land: Land, name: &[u8], source: &[u8]) {
        let body = Body::read(source);
        let (from, mut side_effects) = (Word::of(name), body.side_effects);
        for setting in body.settings {
            if self.settings.len() < CATALOGUE_SETTINGS_MAX || self.settings.contains(&setting) {
                self.settings.insert(setting);
            } else {
                side_effects |= SideEffects::DYNAMIC_SETTINGS;
            }
        }
        self.found(land, from, side_effects);
        let flow = Flow::Word { writes: body.writes, fills: body.fills };
        let words = body.words.into_iter().filter(|word| word.name() != from);
        self.edges.extend(words.map(|other| Edge { from, other, land, flow }));
    }

    fn found(&mut self, land: Land, name: Word, side_effects: SideEffects) {
        match land {
            Land::Everywhere => self.everywhere |= side_effects.without(SideEffects::DEFINES),
            Land::Definitions => self.definitions |= side_effects.without(SideEffects::DEFINES),
            _ if side_effects.is_empty() => {}
            _ => self.findings.push((name, Finding { named: side_effects, ..Finding::default() }.landed(land))),
        }
    }

    /// Every name that may have side effects, once, in order, with its own.
    fn nodes(&mut self) -> Vec<(Word, Finding)> {
        let mut nodes = std::mem::take(&mut self.findings);
        // The words of a body stand one after the other.
        let froms = self.edges.chunk_by(|last, next| last.from == next.from).map(|edges| edges[0].from);
        nodes.extend(froms.map(|from| (from, Finding::default())));
        nodes.sort_unstable_by_key(|(name, _)| *name);
        nodes.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1.add(next.1);
            }
            is_same
        });
        nodes
    }

    /// Lets what is found flow until nothing changes. A finding only grows, and is finite: so it ends.
    fn flow(&mut self, nodes: &mut [(Word, Finding)]) {
        let node_of = |nodes: &[(Word, Finding)], name: Word| {
            nodes.binary_search_by_key(&name, |node| node.0).ok().map(|at| at as u32)
        };
        // By the node they come from in the flow, which is the other name: from it to what meets it.
        let mut edges: Vec<(u32, u32, Edge)> = Vec::new();
        for edge in std::mem::take(&mut self.edges) {
            let Some(other) = node_of(nodes, edge.other.name()) else { continue };
            let from = node_of(nodes, edge.from).expect("every edge's own name is a node");
            edges.push((other, from, edge));
        }
        edges.sort_unstable_by_key(|(other, _, _)| *other);
        let mut waiting: Vec<u32> =
            (0..nodes.len() as u32).filter(|node| !nodes[*node as usize].1.is_empty()).collect();
        while let Some(node) = waiting.pop() {
            let first = edges.partition_point(|(other, _, _)| *other < node);
            for (_, from, edge) in edges[first..].iter().take_while(|(other, _, _)| *other == node) {
                let came = edge.flow.through(edge.other, nodes[node as usize].1);
                match edge.land {
                    Land::Everywhere => self.everywhere |= came.all().without(SideEffects::DEFINES),
                    Land::Definitions => self.definitions |= came.all().without(SideEffects::DEFINES),
                    _ => {}
                }
                let finding = &mut nodes[*from as usize].1;
                let before = *finding;
                finding.add(came.landed(edge.land));
                if *finding != before {
                    waiting.push(*from);
                }
            }
        }
    }
}
