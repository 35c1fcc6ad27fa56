//! Statements that SQL and the protocol call by name: what a server must have before a text that names them is sent.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Places, Tracker};
use crate::catalogue::Known;
use crate::parameters::Tracked;
use crate::prepared::{Statement, StatementNames};
use crate::state::effects::{Effect, Effects};
use crate::state::prepared::{self, OnServer, Remedy};
use crate::state::{Pins, Reading};
use sql::{Marks, Rules, Text};

/// Which names of statements a text may see, besides those that it speaks of as SQL does.
#[derive(Debug)]
pub enum Seen {
    None,
    /// Those among its words: what it runs was put together from them, or so one must hope. To bring all would fail where
    /// a table of one of them is gone, though nobody asks for that one.
    Words(BTreeSet<Vec<u8>>),
    /// All of them; `named`: the words of the text.
    All {
        named: BTreeSet<Vec<u8>>,
    },
}

impl Seen {
    /// `known`: what the names in a block do.
    pub fn by(mut reading: Reading, text: &[u8], known: &Known) -> Seen {
        if reading.marks.any(Marks::BLOCK) {
            reading.side_effects |= known.side_effects_of_block(text).side_effects;
        }
        let words = || {
            let words = text.split(|&byte| is_between_words(byte)).filter(|word| !word.is_empty());
            words.map(<[u8]>::to_ascii_lowercase).collect::<BTreeSet<Vec<u8>>>()
        };
        match () {
            () if reading.lists_statements() => Seen::All { named: words() },
            () if reading.may_name_statements() => {
                let words = words();
                let runs = [&b"execute"[..], b"deallocate"].iter().any(|word| words.contains(*word));
                if runs { Seen::Words(words) } else { Seen::None }
            }
            () => Seen::None,
        }
    }

    fn has(&self, name: &[u8]) -> bool {
        match self {
            Seen::None => false,
            Seen::Words(words) => is_among(words, name),
            Seen::All { .. } => true,
        }
    }

    /// Those that the text may name, without those that it sees by listing all.
    #[must_use]
    pub fn named(self) -> Seen {
        match self {
            Seen::All { named } => Seen::Words(named),
            seen => seen,
        }
    }

    /// Whether a text may see this statement without naming it: only by listing all.
    pub fn has_unnamed(&self, name: &[u8]) -> bool {
        matches!(self, Seen::All { named } if !is_among(named, name))
    }
}

fn is_among(words: &BTreeSet<Vec<u8>>, name: &[u8]) -> bool {
    name.iter().any(|&byte| is_between_words(byte)) || words.contains(&name.to_ascii_lowercase())
}

fn is_between_words(byte: u8) -> bool {
    byte.is_ascii() && !byte.is_ascii_alphanumeric() && !matches!(byte, b'_' | b'$')
}

impl Tracker {
    /// What has to come in front of a text that speaks of statements by name. What it executes is suspected of what they
    /// leave behind.
    /// What is executed comes before what is deallocated: the one that is there serves both. `seen`: the names that it may see
    /// besides.
    pub fn remedy(
        &mut self,
        effects: &Effects,
        names: Option<&StatementNames>,
        on_server: &mut OnServer,
        known: &Known,
        seen: &Seen,
    ) -> Remedy {
        let mut remedy = Remedy::new();
        if !matches!(seen, Seen::None) {
            // Those that the text itself executes or deallocates may be of the protocol, and come below.
            let spoken_of: BTreeSet<&[u8]> = effects.iter().filter_map(Effect::statement).collect();
            let is_seen = |name: &[u8]| seen.has(name) && !spoken_of.contains(name);
            self.statements.bring_all(is_seen, on_server, &mut remedy);
        }
        // A text of 64 kB may name a statement of two megabytes six thousand times.
        let (mut executed, mut brought) = (BTreeSet::new(), BTreeSet::new());
        for effect in effects.iter() {
            let (name, runs) = match effect {
                Effect::Execute(name) => (name, true),
                Effect::Deallocate(name) => (name, false),
                Effect::Prepare(kept) => (&kept.name, false),
                _ => continue,
            };
            if runs && !executed.insert(&**name) || !runs && brought.contains(&**name) {
                continue;
            }
            let of_protocol = names.filter(|_| !self.statements.has(name)).and_then(|names| names.in_sql(name));
            let Some((statement, text)) = of_protocol else {
                self.statements.bring(name, on_server, &mut remedy);
                continue;
            };
            if runs {
                self.suspect(statement.reading(known), statement.query(), known);
            }
            brought.insert(&**name);
            // The protocol and SQL share their names.
            let text = if runs { Arc::clone(text) } else { prepared::stand_in(name) };
            on_server.bring(name, Some(&text), &mut remedy);
        }
        remedy
    }

    pub(super) fn forget_all_prepared(&mut self, places: &mut Places<'_>) {
        self.statements.clear();
        places.on_server.clear();
        self.pinning.end(Pins::PREPARED);
    }

    /// Adds to the effects of EXECUTE in a text those of what it runs: as the name will have been prepared when it runs.
    /// `names`: of the protocol; `rules`: those that the text is read by.
    pub fn add_executed(&self, effects: &mut Effects, names: Option<&StatementNames>, rules: Rules, tracked: &Tracked) {
        effects.add_executed(|name| {
            if let Some(run) = self.under_way.iter().filter_map(|effect| effect.prepares(name)).last() {
                return run;
            }
            if let Some(statement) = self.statements.get(name) {
                return statement.executed();
            }
            let run = |statement: &Statement| match statement.marks().any(Marks::SET_CONFIG) {
                true => Effects::of_executed(&Text::new(statement.query(), rules), tracked),
                false => Effect::Nothing,
            };
            // Too long to be kept, or prepared out of sight.
            names.and_then(|names| names.executed(name, rules, run)).unwrap_or(Effect::Unknown)
        });
    }
}
