//! Statements that SQL and the protocol call by name: what a server must have before a text that names them is sent.

use super::{Effect, Known, Names, OnServer, Remedy, Tracker, prepared};

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

    pub(crate) fn bring_all(&self, on_server: &mut OnServer, remedy: &mut Remedy) {
        let strangers: Vec<Vec<u8>> = on_server.names().map(<[u8]>::to_vec).collect();
        strangers.iter().for_each(|name| self.bring(name, on_server, remedy));
        self.prepared.keys().for_each(|name| self.bring(name, on_server, remedy));
    }

    /// What has to come in front of a text that speaks of statements by name. What it executes is suspected of what they
    /// leave behind.
    /// What is executed comes before what is deallocated: the one that is there serves both. `lists`: it may see all names.
    pub(crate) fn remedy(
        &mut self,
        effects: &[Effect],
        names: Option<&Names>,
        on_server: &mut OnServer,
        known: &Known,
        lists: bool,
    ) -> Remedy {
        let mut remedy = Remedy::new();
        if lists {
            self.bring_all(on_server, &mut remedy);
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
