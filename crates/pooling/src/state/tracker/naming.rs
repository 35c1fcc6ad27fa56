//! Statements that SQL and the protocol call by name: what a server must have before a text that names them is sent.

use std::collections::BTreeSet;

use super::{Effect, Known, Names, OnServer, Reading, Remedy, Tracker, prepared};

/// Which names of statements a text may see, besides those that it speaks of as SQL does.
#[derive(Debug)]
pub(crate) enum Seen {
    None,
    /// Those among its words: what it runs was put together from them, or so one must hope. To bring all would fail where
    /// a table of one of them is gone, though nobody asks for that one.
    Words(BTreeSet<Vec<u8>>),
    All,
}

impl Seen {
    pub(crate) fn by(reading: Reading, text: &[u8]) -> Seen {
        match () {
            () if reading.lists_statements() => Seen::All,
            () if reading.may_name_statements() => {
                let words = text.split(|&byte| is_between_words(byte)).filter(|word| !word.is_empty());
                let words: BTreeSet<Vec<u8>> = words.map(<[u8]>::to_ascii_lowercase).collect();
                let runs = [&b"execute"[..], b"deallocate"].iter().any(|word| words.contains(*word));
                if runs { Seen::Words(words) } else { Seen::None }
            }
            () => Seen::None,
        }
    }

    fn has(&self, name: &[u8]) -> bool {
        match self {
            Seen::None => false,
            Seen::Words(words) => {
                name.iter().any(|&byte| is_between_words(byte)) || words.contains(&name.to_ascii_lowercase())
            }
            Seen::All => true,
        }
    }
}

fn is_between_words(byte: u8) -> bool {
    byte.is_ascii() && !byte.is_ascii_alphanumeric() && !matches!(byte, b'_' | b'$')
}

impl Tracker {
    /// Makes the server have, under the names that a text may speak of, what the session has.
    pub(crate) fn bring(&self, name: &[u8], on_server: &mut OnServer, remedy: &mut Remedy) {
        if self.is_changing(name) {
            return;
        }
        let wanted = self.prepared.get(name);
        on_server.bring(name, wanted, remedy);
    }

    /// Whether a DISCARD ALL or DEALLOCATE ALL is under way: what there is behind it is not known.
    pub(crate) fn is_clearing(&self) -> bool {
        let clears = |effect: &Effect| matches!(effect, Effect::DiscardAll | Effect::DeallocateAll);
        self.sent.iter().any(|sent| sent.effects.iter().any(clears))
    }

    /// Whether there is one of the name, or one may be on its way.
    pub(crate) fn may_have_prepared(&self, name: &[u8]) -> bool {
        self.has_prepared(name) || self.is_changing(name)
    }

    /// Whether the client has a PREPARE or DEALLOCATE of a name under way, for which its server was brought what it has.
    fn is_changing(&self, name: &[u8]) -> bool {
        let changes = |effect: &Effect| match effect {
            Effect::Prepare(kept) => *kept.name == *name,
            Effect::Deallocate(changed) => **changed == *name,
            _ => false,
        };
        self.sent.iter().any(|sent| sent.effects.iter().any(changes))
    }

    /// Of all names.
    fn bring_all(&self, seen: &Seen, on_server: &mut OnServer, remedy: &mut Remedy) {
        let strangers: Vec<Vec<u8>> = on_server.names().map(<[u8]>::to_vec).collect();
        let strangers = strangers.iter().map(|name| &name[..]);
        for name in strangers.chain(self.prepared.keys().map(|name| &**name)).filter(|name| seen.has(name)) {
            self.bring(name, on_server, remedy);
        }
    }

    /// What has to come in front of a text that speaks of statements by name. What it executes is suspected of what they
    /// leave behind.
    /// What is executed comes before what is deallocated: the one that is there serves both. `seen`: the names that it may see
    /// besides.
    pub(crate) fn remedy(
        &mut self,
        effects: &[Effect],
        names: Option<&Names>,
        on_server: &mut OnServer,
        known: &Known,
        seen: &Seen,
    ) -> Remedy {
        let mut remedy = Remedy::new();
        if !matches!(seen, Seen::None) {
            self.bring_all(seen, on_server, &mut remedy);
        }
        let mut brought: Vec<&[u8]> = Vec::new();
        for effect in effects {
            let (name, runs) = match effect {
                Effect::Execute(name) => (name, true),
                Effect::Deallocate(name) => (name, false),
                Effect::Prepare(kept) => (&kept.name, false),
                _ => continue,
            };
            let of_protocol = names.and_then(|names| names.get(name)).filter(|_| !self.has_prepared(name));
            let Some(statement) = of_protocol else {
                self.bring(name, on_server, &mut remedy);
                continue;
            };
            if runs {
                self.suspect(statement.reading(known), statement.query(), known);
            }
            if self.is_changing(name) || !runs && brought.contains(&&**name) {
                continue;
            }
            brought.push(name);
            // The protocol and SQL share their names.
            let text = if runs { prepared::of_protocol(name, statement.query()) } else { prepared::stand_in(name) };
            on_server.bring(name, Some(&text), &mut remedy);
        }
        remedy
    }
}
