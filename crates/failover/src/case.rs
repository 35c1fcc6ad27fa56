//! The ways in which a cluster fails here.

use std::time::{Duration, Instant};

use measure::interrupt;

use crate::cluster::Cluster;

/// How long etcd is away: longer than Patroni's `retry_timeout`, shorter than its `ttl`.
const ETCD_AWAY: Duration = Duration::from_secs(15);

/// One way to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Case {
    /// Patroni is asked to make the synchronous standby the primary.
    Switchover,
    /// kill -9 of the primary's postmaster and of its Patroni.
    Kill9,
    /// SIGSTOP for all processes of the primary's host.
    Frozen,
    /// A frozen host gets SIGCONT once another host has been the primary for some seconds.
    Zombie,
    /// etcd is ended, and started again after 15 s.
    Etcd,
    /// PostgreSQL of the primary is restarted where it is.
    Restart,
    /// The cable of the primary's host is pulled.
    Cut,
    /// A standby is promoted behind Patroni's back, so that two hosts take writes.
    Two,
}

/// A fault that has been done, and its hosts.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The primary before.
    pub old: usize,
    /// The host that was promoted beside it.
    pub second: Option<usize>,
}

impl Case {
    pub const ALL: [Case; 8] =
        [Case::Switchover, Case::Kill9, Case::Frozen, Case::Zombie, Case::Etcd, Case::Restart, Case::Cut, Case::Two];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Case::Switchover => "switchover",
            Case::Kill9 => "kill9",
            Case::Frozen => "frozen",
            Case::Zombie => "zombie",
            Case::Etcd => "etcd away",
            Case::Restart => "restart",
            Case::Cut => "cut",
            Case::Two => "two writable",
        }
    }

    /// # Errors
    /// No case is named so.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wanted = text.replace('-', " ");
        let names = || Self::ALL.map(Self::name).join(", ").replace(' ', "-").replace(",-", ", ");
        Self::ALL.into_iter().find(|case| case.name() == wanted).ok_or_else(|| format!("no case '{text}': {}", names()))
    }

    /// Whether another host becomes the primary.
    #[must_use]
    pub fn moves(self) -> bool {
        matches!(self, Case::Switchover | Case::Kill9 | Case::Frozen | Case::Zombie | Case::Cut)
    }

    /// Whether hosts need cables.
    #[must_use]
    pub fn needs_cables(self) -> bool {
        self == Case::Cut
    }

    /// Does it, and returns once it has been done: at once for most, after 15 s for etcd. `begin` is called just before.
    ///
    /// # Errors
    /// The cluster cannot be made to fail so.
    pub fn inflict(self, cluster: &mut Cluster, begin: impl FnOnce()) -> Result<Fault, String> {
        let old = cluster.primary()?;
        let second = if self == Case::Two { Some(cluster.other_standby()?) } else { None };
        if self == Case::Two {
            cluster.pause(true)?;
        }
        begin();
        match self {
            Case::Switchover => cluster.switch_over()?,
            Case::Kill9 => cluster.kill(old),
            Case::Frozen | Case::Zombie => cluster.freeze(old)?,
            Case::Etcd => {
                cluster.stop_etcd();
                let until = Instant::now() + ETCD_AWAY;
                while Instant::now() < until {
                    interrupt::check()?;
                    std::thread::sleep(Duration::from_millis(20));
                }
                cluster.start_etcd()?;
            }
            Case::Restart => cluster.restart(old)?,
            Case::Cut => cluster.cut(old)?,
            Case::Two => cluster.promote(second.expect("it was looked up"))?,
        }
        Ok(Fault { old, second })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read_by_their_names() {
        for case in Case::ALL {
            assert_eq!(Case::parse(&case.name().replace(' ', "-")), Ok(case));
        }
        let error = Case::parse("flood").expect_err("there is none");
        assert!(error.ends_with("restart, cut, two-writable"), "{error}");
    }
}
