//! What was exercised, so that one sees it: a workload in which something never happens proves nothing about it.

/// Counts over one run, or many.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    pub worlds: u64,
    pub steps: u64,
    pub rounds: u64,
    pub logins: u64,
    pub queries: u64,
    pub messages: u64,
    pub transactions: u64,
    pub pipelines: u64,
    pub prepared: u64,
    pub unnamed: u64,
    pub copies_in: u64,
    pub copies_out: u64,
    pub function_calls: u64,
    pub large_values: u64,
    pub errors: u64,
    pub sets: u64,
    /// Statements that change or show other state.
    pub memories: u64,
    /// Statements at which a server's state was compared with the twin's.
    pub compared: u64,
    pub cancels_asked: u64,
    pub cancels_struck: u64,
    pub cancels_wrong: u64,
    /// Queries that query_timeout has cancelled.
    pub overdue: u64,
    /// Statements that were refused at their deadline, and before it by what was expected.
    pub late: u64,
    pub hasty: u64,
    pub vanished: u64,
    pub cuts: u64,
    pub refused: u64,
    pub short_writes: u64,
    pub short_reads: u64,
    pub lends: u64,
    pub returned_mail: u64,
    pub late_boards: u64,
    pub server_logins: u64,
    pub server_deaths: u64,
    pub server_stalls: u64,
    pub last_words: u64,
    pub restarts: u64,
    pub connects_refused: u64,
    pub connects_lost: u64,
    pub logins_refused: u64,
    pub losses: u64,
    pub reloads: u64,
    pub stops: u64,
    pub hostile: u64,
    pub waits: u64,
    /// The most transactions of one worker that chaos_rotate took to another server.
    pub rotated: u64,
    pub console_questions: u64,
    pub console_stops: u64,
    pub refused_for_good: u64,
    pub portals: u64,
    pub cancels_cut: u64,
    pub pools_forgotten: u64,
    pub quiet_ends: u64,
    /// Worlds in which it was looked at for long enough whether pools share fairly.
    pub shared: u64,
    /// How often PostgreSQL has seen as many transactions of a class at a time as may be.
    pub limits_met: u64,
    /// Worlds in which a class was due so much that it would have been seen if it had not got it.
    pub contested: u64,
    /// Times at which a size should have been found, and at which it was: settled, and within 5 % of the best.
    pub sized: u64,
    pub sized_well: u64,
    /// Questions of the pooler's for what servers wait, in such worlds.
    pub waits_asked: u64,
    /// Columns that were added.
    pub altered: u64,
    /// Rests of seconds, in a transaction or between two.
    pub dawdled: u64,
    /// Notifications that another client has said.
    pub strangers_heard: u64,
    /// Of them, those that had to come.
    pub strangers_owed: u64,
    /// Databases that a reload has removed.
    pub databases_removed: u64,
}

impl Census {
    /// All counts with their names.
    #[must_use]
    pub fn rows(&self) -> Vec<(&'static str, u64)> {
        let Census { worlds, steps, rounds, .. } = *self;
        let mut rows = vec![("worlds", worlds), ("steps", steps), ("rounds", rounds)];
        rows.extend_from_slice(&[
            ("logins", self.logins),
            ("queries", self.queries),
            ("messages", self.messages),
            ("transactions", self.transactions),
            ("pipelines", self.pipelines),
            ("prepared", self.prepared),
            ("unnamed", self.unnamed),
            ("copies_in", self.copies_in),
            ("copies_out", self.copies_out),
            ("function_calls", self.function_calls),
            ("large_values", self.large_values),
            ("errors", self.errors),
            ("sets", self.sets),
            ("memories", self.memories),
            ("compared", self.compared),
            ("cancels_asked", self.cancels_asked),
            ("cancels_struck", self.cancels_struck),
            ("cancels_wrong", self.cancels_wrong),
            ("overdue", self.overdue),
            ("late", self.late),
            ("hasty", self.hasty),
            ("vanished", self.vanished),
            ("cuts", self.cuts),
            ("refused", self.refused),
            ("short_writes", self.short_writes),
            ("short_reads", self.short_reads),
            ("lends", self.lends),
            ("returned_mail", self.returned_mail),
            ("late_boards", self.late_boards),
            ("server_logins", self.server_logins),
            ("server_deaths", self.server_deaths),
            ("server_stalls", self.server_stalls),
            ("last_words", self.last_words),
            ("restarts", self.restarts),
            ("connects_refused", self.connects_refused),
            ("connects_lost", self.connects_lost),
            ("logins_refused", self.logins_refused),
            ("losses", self.losses),
            ("reloads", self.reloads),
            ("stops", self.stops),
            ("hostile", self.hostile),
            ("waits", self.waits),
            ("rotated", self.rotated),
            ("console_questions", self.console_questions),
            ("console_stops", self.console_stops),
            ("refused_for_good", self.refused_for_good),
            ("portals", self.portals),
            ("cancels_cut", self.cancels_cut),
            ("pools_forgotten", self.pools_forgotten),
            ("altered", self.altered),
            ("dawdled", self.dawdled),
            ("strangers_heard", self.strangers_heard),
            ("strangers_owed", self.strangers_owed),
            ("databases_removed", self.databases_removed),
            ("quiet_ends", self.quiet_ends),
            ("shared", self.shared),
            ("limits_met", self.limits_met),
            ("contested", self.contested),
            ("sized", self.sized),
            ("sized_well", self.sized_well),
            ("waits_asked", self.waits_asked),
        ]);
        rows
    }

    /// Names of what never happened. `followed`: in these worlds sessions are followed, which some of it takes, or excludes.
    #[must_use]
    pub fn never(&self, followed: bool) -> Vec<&'static str> {
        // Sizes are judged in worlds that are made for it only.
        let elsewhere = ["sized", "sized_well", "waits_asked"];
        let never = self.rows().into_iter().filter(|(_, count)| *count == 0).map(|(name, _)| name);
        let never = never.filter(|name| !elsewhere.contains(name));
        // At PostgreSQL, limits are counted where sessions are not followed (I5).
        let not_there: &[&str] =
            if followed { &["limits_met"] } else { &["overdue", "late", "hasty", "altered", "strangers_owed"] };
        never.filter(|name| !not_there.contains(name)).collect()
    }

    pub fn add(&mut self, other: &Census) {
        self.worlds += other.worlds;
        self.steps += other.steps;
        self.rounds += other.rounds;
        self.logins += other.logins;
        self.queries += other.queries;
        self.messages += other.messages;
        self.transactions += other.transactions;
        self.pipelines += other.pipelines;
        self.prepared += other.prepared;
        self.unnamed += other.unnamed;
        self.copies_in += other.copies_in;
        self.copies_out += other.copies_out;
        self.function_calls += other.function_calls;
        self.large_values += other.large_values;
        self.errors += other.errors;
        self.sets += other.sets;
        self.memories += other.memories;
        self.compared += other.compared;
        self.cancels_asked += other.cancels_asked;
        self.cancels_struck += other.cancels_struck;
        self.cancels_wrong += other.cancels_wrong;
        self.overdue += other.overdue;
        self.late += other.late;
        self.hasty += other.hasty;
        self.vanished += other.vanished;
        self.cuts += other.cuts;
        self.refused += other.refused;
        self.short_writes += other.short_writes;
        self.short_reads += other.short_reads;
        self.lends += other.lends;
        self.returned_mail += other.returned_mail;
        self.late_boards += other.late_boards;
        self.server_logins += other.server_logins;
        self.server_deaths += other.server_deaths;
        self.server_stalls += other.server_stalls;
        self.last_words += other.last_words;
        self.restarts += other.restarts;
        self.connects_refused += other.connects_refused;
        self.connects_lost += other.connects_lost;
        self.logins_refused += other.logins_refused;
        self.losses += other.losses;
        self.reloads += other.reloads;
        self.stops += other.stops;
        self.hostile += other.hostile;
        self.waits += other.waits;
        self.rotated += other.rotated;
        self.console_questions += other.console_questions;
        self.console_stops += other.console_stops;
        self.refused_for_good += other.refused_for_good;
        self.portals += other.portals;
        self.cancels_cut += other.cancels_cut;
        self.pools_forgotten += other.pools_forgotten;
        self.altered += other.altered;
        self.dawdled += other.dawdled;
        self.strangers_heard += other.strangers_heard;
        self.strangers_owed += other.strangers_owed;
        self.databases_removed += other.databases_removed;
        self.quiet_ends += other.quiet_ends;
        self.shared += other.shared;
        self.limits_met += other.limits_met;
        self.contested += other.contested;
        self.sized += other.sized;
        self.sized_well += other.sized_well;
        self.waits_asked += other.waits_asked;
    }
}
