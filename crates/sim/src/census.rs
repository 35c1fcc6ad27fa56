//! Counts of everything that happened in a world: a workload in which something never happens proves nothing about it.

/// Declares each count once: in the struct of its subject, and with the name under which the summary shows it.
macro_rules! census {
    ($($(#[$words:meta])* $subject:ident: $counts:ident {$($(#[$doc:meta])* $count:ident = $name:literal,)*})*) => {
        $(
            $(#[$words])*
            #[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
            pub struct $counts {$($(#[$doc])* pub $count: u64),*}
        )*

        /// Counts over one run, or many.
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
        pub struct Census {$($(#[$words])* pub $subject: $counts),*}

        impl Census {
            /// All counts with their names.
            #[must_use]
            pub fn rows(&self) -> Vec<(&'static str, u64)> {
                vec![$($(($name, self.$subject.$count)),*),*]
            }

            pub fn add(&mut self, other: &Census) {
                $($(self.$subject.$count += other.$subject.$count;)*)*
            }
        }
    };
}

census! {
    /// The worlds, and how each went.
    world: WorldCounts {
        worlds = "worlds",
        steps = "steps",
        rounds = "rounds",
        reloads = "reloads",
        /// Databases that a reload has removed.
        databases_removed = "databases_removed",
        stops = "stops",
        /// Orders of the administrator, and how often it was looked whether servers are closed.
        orders = "orders",
        reviews = "reviews",
        /// Times that PAUSE was answered.
        pauses = "pauses",
        /// Times that SUSPEND was, and how often it had to close whoever did not take what was sent to it.
        suspensions = "suspensions",
        suspend_timeouts = "suspend_timeouts",
        /// Times that it was checked, a second after RESUME, that who waits has a server.
        reliefs = "reliefs",
        /// Hosts that went down while another one of their database lived.
        hosts_down = "hosts_down",
        switchovers = "switchovers",
        /// Names that moved, and how often it was checked that nobody is idle where they were.
        moves = "moves",
        moves_checked = "moves_checked",
        /// Steps of workers that ended in a panic.
        panics = "panics",
        quiet_ends = "quiet_ends",
    }

    /// Model clients, and how they ended.
    clients: ClientCounts {
        logins = "logins",
        refused = "refused",
        vanished = "vanished",
        losses = "losses",
        lost_blocks = "lost_blocks",
        hostile = "hostile",
        console_questions = "console_questions",
        console_stops = "console_stops",
        /// Streams of clients that replicate.
        streams = "streams",
        /// Pauses of seconds, in a transaction or between two.
        dawdled = "dawdled",
        /// Notifications from other clients.
        strangers_heard = "strangers_heard",
        /// Of these, those that had to come.
        strangers_owed = "strangers_owed",
    }

    /// Statements of clients, and their answers.
    statements: StatementCounts {
        queries = "queries",
        messages = "messages",
        transactions = "transactions",
        pipelines = "pipelines",
        prepared = "prepared",
        unnamed = "unnamed",
        portals = "portals",
        copies_in = "copies_in",
        copies_out = "copies_out",
        function_calls = "function_calls",
        large_values = "large_values",
        errors = "errors",
        sets = "sets",
        /// Statements that change or show other state.
        memories = "memories",
        /// Columns that were added.
        altered = "altered",
    }

    /// Statements that were ended, or refused at their deadline.
    cancels: CancelCounts {
        asked = "cancels_asked",
        struck = "cancels_struck",
        wrong = "cancels_wrong",
        /// By an administrator's KILL_QUERY.
        ordered = "cancels_ordered",
        /// Those of them that a client has seen that sends no CancelRequests itself.
        obeyed = "cancels_obeyed",
        cut = "cancels_cut",
        /// Queries that query_timeout has cancelled.
        overdue = "overdue",
        /// Statements that were refused at their deadline.
        late = "late",
        /// Statements that were refused before their deadline, by what was expected.
        hasty = "hasty",
    }

    /// Cancels that have to do with other processes of the pooler.
    siblings: SiblingCounts {
        /// Of our clients, by a sibling.
        came_by = "cancels_came_by_siblings",
        /// Of siblings' clients, by us.
        asked = "cancels_for_siblings",
        got = "cancels_siblings_got",
        sent_back = "cancels_sent_back",
    }

    /// Connections and mailboxes between the pooler's machines and all others.
    network: NetworkCounts {
        cuts = "cuts",
        short_writes = "short_writes",
        short_reads = "short_reads",
        returned_mail = "returned_mail",
        late_boards = "late_boards",
        old_clocks = "old_clocks",
        lends = "lends",
        pools_forgotten = "pools_forgotten",
    }

    /// The model PostgreSQL.
    postgres: PostgresCounts {
        logins = "server_logins",
        deaths = "server_deaths",
        stalls = "server_stalls",
        last_words = "last_words",
        restarts = "restarts",
        connects_refused = "connects_refused",
        connects_lost = "connects_lost",
        logins_refused = "logins_refused",
        refused_for_good = "refused_for_good",
        /// The pooler's queries for wait events, in worlds in which sizes are found.
        waits_asked = "waits_asked",
    }

    /// Hosts, where databases have two.
    hosts: HostCounts {
        /// Letters of the prober, those of them that tell of a silent host, and answers that came late.
        probes = "probes",
        silent = "hosts_silent",
        late_answers = "probes_answered_late",
        freezes = "freezes",
        promotions = "promotions",
        /// Primaries that were frozen, and woke up when another host had been promoted.
        zombies = "zombies",
        /// Other hosts that the coordinator has chosen.
        epochs = "epochs",
        /// Requests that were refused at failover_wait.
        held = "held",
        /// Servers that were closed as their hosts did not answer.
        closed_silent = "closed_silent",
        /// Times that it was checked that no server is open at another host than the primary.
        fenced = "fenced",
    }

    /// What the checks have checked.
    checks: CheckCounts {
        /// Waiting clients, summed over all checks.
        waits = "waits",
        /// The most transactions of one worker that chaos_rotate took to another server.
        rotated = "rotated",
        /// Statements at which a server's state was compared with the twin's.
        compared = "compared",
        /// Blocks that began again at another server, and lone reads that were sent there again.
        begun_again = "begun_again",
        /// Worlds in which fair sharing between pools was checked for long enough.
        shared = "shared",
        /// How often PostgreSQL has seen as many transactions of a class at a time as its limit allows.
        limits_met = "limits_met",
        /// Worlds in which a class was due enough that the check would have noticed a missing share.
        contested = "contested",
        /// Times at which a size should have been found.
        sized = "sized",
        /// Times at which it was found: settled, and within 5 % of the best.
        sized_well = "sized_well",
        /// How often two workers' states of a host that has failed were compared.
        hosts_compared = "hosts_compared",
    }
}

impl Census {
    /// Names of the counts that are 0 and should not be. `followed`: sessions are followed in these worlds, which some
    /// counts need, and others exclude.
    #[must_use]
    pub fn never(&self, followed: bool) -> Vec<&'static str> {
        // Sizes are checked only in worlds made for it, and worlds of hosts (`--hosts`) last long enough for a server to be silent.
        let elsewhere = ["sized", "sized_well", "waits_asked", "closed_silent"];
        // At PostgreSQL, limits are counted where sessions are not followed (I5).
        let not_there: &[&str] =
            if followed { &["limits_met"] } else { &["overdue", "late", "hasty", "altered", "strangers_owed"] };
        let never = self.rows().into_iter().filter(|(_, count)| *count == 0).map(|(name, _)| name);
        never.filter(|name| !elsewhere.contains(name) && !not_there.contains(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_each_has_a_name_of_its_own() {
        let mut one = Census::default();
        (one.world.worlds, one.cancels.cut) = (1, 2);
        let mut total = one;
        total.add(&one);
        assert_eq!((total.world.worlds, total.cancels.cut), (2, 4));
        let rows = total.rows();
        assert!(rows.contains(&("worlds", 2)) && rows.contains(&("cancels_cut", 4)));
        let names: std::collections::BTreeSet<&str> = rows.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), rows.len());
    }

    #[test]
    fn what_never_happened_is_listed_where_it_could_have() {
        let (followed, plain) = (Census::default().never(true), Census::default().never(false));
        assert!(followed.contains(&"late") && !followed.contains(&"limits_met"));
        assert!(plain.contains(&"limits_met") && !plain.contains(&"late"));
        assert!(!followed.contains(&"sized") && !plain.contains(&"sized"));
    }
}
