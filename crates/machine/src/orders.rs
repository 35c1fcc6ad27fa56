//! What administrators have ordered at the console, as values that are part of the settings.
//!
//! So an order reaches every machine as a RELOAD does, in the same order, and one that is made anew after a panic has it too. A
//! RELOAD keeps the orders; they end with the process.
//!
//! ```text
//!   PAUSE, RESUME, KILL    paused      servers are closed when they are free, none is opened, clients wait
//!   DISABLE, ENABLE        disabled    nobody logs in
//!   RECONNECT              reconnects  servers that are older than the last one are closed when they are free
//!   KILL                   kills       clients and servers from before the last one are closed
//!   SUSPEND, RESUME        suspension  nobody is read but consoles, and nothing times out
//! ```
//!
//! //= pgbouncer usage.md#process-controlling-commands

use std::collections::BTreeMap;

use crate::addresses::Addresses;

/// The orders for one database, or for all.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DatabaseOrders {
    pub paused: bool,
    pub disabled: bool,
    /// How often RECONNECT was ordered.
    pub reconnects: u32,
    /// How often KILL was.
    pub kills: u32,
}

/// SUSPEND, which is for all databases, while it is in force.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Suspension {
    /// What was received already goes on to whom it is for.
    Flushing,
    /// `suspend_timeout` is over: whoever has not taken all that was sent to it is closed.
    Overdue,
}

/// All orders.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Orders {
    all: DatabaseOrders,
    databases: BTreeMap<String, DatabaseOrders>,
    /// It goes to no other process: one that is suspended does not hand over.
    #[serde(skip)]
    pub suspension: Option<Suspension>,
    /// Where names of hosts have moved to: nobody's order, but what has to reach everybody in the same way.
    pub addresses: Addresses,
}

impl Orders {
    /// What holds for a database.
    #[must_use]
    pub fn of(&self, database: &str) -> DatabaseOrders {
        let (all, own) = (self.all, self.only_of(Some(database)));
        DatabaseOrders {
            paused: all.paused || own.paused,
            disabled: all.disabled || own.disabled,
            reconnects: all.reconnects.wrapping_add(own.reconnects),
            kills: all.kills.wrapping_add(own.kills),
        }
    }

    /// What was ordered for a database by its name, or, without one, for all.
    #[must_use]
    pub fn only_of(&self, database: Option<&str>) -> DatabaseOrders {
        let Some(name) = database else { return self.all };
        self.databases.get(name).copied().unwrap_or_default()
    }

    /// Whether a database is paused by its name.
    #[must_use]
    pub fn has_paused_databases(&self) -> bool {
        self.databases.values().any(|own| own.paused)
    }

    /// Changes what was ordered for a database by its name, or, without one, for all.
    pub fn change(&mut self, database: Option<&str>, change: impl FnOnce(&mut DatabaseOrders)) {
        match database {
            Some(name) => change(self.databases.entry(name.to_owned()).or_default()),
            None => change(&mut self.all),
        }
    }

    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.suspension.is_some()
    }

    /// Takes back SUSPEND, every PAUSE and what KILL has paused.
    pub fn resume_all(&mut self) {
        self.suspension = None;
        self.all.paused = false;
        self.databases.values_mut().for_each(|orders| orders.paused = false);
    }

    /// What was ordered in the process that takes our place, for databases and for all. Where names of hosts have moved to stays as it was found
    /// here; SUSPEND is not ordered while two processes serve.
    pub fn follow(&mut self, ordered: Orders) {
        (self.all, self.databases) = (ordered.all, ordered.databases);
    }

    /// Whether everything is suspended or paused.
    #[must_use]
    pub fn pause_all(&self) -> bool {
        self.is_suspended() || self.all.paused
    }

    /// The databases that are paused by name.
    pub fn paused(&self) -> impl Iterator<Item = &str> {
        self.databases.iter().filter(|(_, orders)| orders.paused).map(|(name, _)| &**name)
    }

    /// Whether anything is suspended or paused.
    #[must_use]
    pub fn pause_anything(&self) -> bool {
        self.is_suspended() || self.all.paused || self.databases.values().any(|orders| orders.paused)
    }

    /// Forgets the orders for databases that are not there any more.
    pub fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.databases.retain(|name, _| is_there(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_for_a_database_is_its_own_and_what_holds_for_all() {
        let mut orders = Orders::default();
        assert_eq!(orders.of("app"), DatabaseOrders::default());
        orders.change(Some("app"), |own| own.paused = true);
        orders.change(Some("app"), |own| own.reconnects += 1);
        orders.change(None, |all| all.reconnects += 1);
        let own = orders.of("app");
        assert_eq!((own.paused, own.reconnects, orders.of("other").reconnects), (true, 2, 1));
        orders.change(None, |all| all.paused = true);
        orders.change(Some("app"), |own| own.paused = false);
        assert!(orders.of("app").paused && orders.of("other").paused && !orders.only_of(Some("app")).paused);
        orders.suspension = Some(Suspension::Flushing);
        orders.resume_all();
        assert!(!orders.pause_anything() && !orders.is_suspended());
        orders.retain(|name| name != "app");
        assert_eq!(orders.of("app").reconnects, 1);
    }
}
