//! Which statements are traced.
//!
//! ```text
//!   traceparent in a comment, sampled ──► traced
//!   traceparent, not sampled ───────────► not traced: whoever began the trace has decided
//!   none, or one that is none ──────────► of so many transactions one, by trace_sample
//! ```
//!
//! By counting, not by chance: the same statements are traced each time. While `otlp_endpoint` is empty, nothing of this is asked.

use machine::Settings;
use machine::trace::TraceOrigin;
use sql::{TraceParent, trace_state};
use units::Time;

/// Chooses among transactions that belong to no trace.
#[derive(Debug)]
pub(crate) struct Sampler {
    share: u32,
    /// What the transactions since the last chosen one come to. It begins with a half, so that even a pool with few transactions has its part.
    credit: u32,
}

/// The share of all.
const ALL: u32 = 1_000_000;

impl Sampler {
    /// `None`: nothing is traced.
    pub(crate) fn of(settings: &Settings) -> Option<Sampler> {
        let traces = &settings.global.traces;
        traces.otlp_endpoint.is_some().then(|| Sampler { share: traces.trace_sample.per_million(), credit: ALL / 2 })
    }

    /// Whether this transaction is chosen. Of each million in a row as many are chosen as the setting has.
    fn chooses(&mut self) -> bool {
        self.credit += self.share;
        let chosen = self.credit >= ALL;
        if chosen {
            self.credit -= ALL;
        }
        chosen
    }

    /// Where a statement with these tags belongs; `None`: it is not traced. `begins`: it begins a transaction; `begun`: when the
    /// transaction began that is under way, if it was chosen.
    pub(crate) fn origin(
        &mut self,
        (parent, state): (Option<&[u8]>, Option<&[u8]>),
        begins: Option<Time>,
        begun: &mut Option<Time>,
    ) -> Option<TraceOrigin> {
        let parent = parent.and_then(TraceParent::parse);
        if let Some(now) = begins {
            *begun = (parent.is_none() && self.chooses()).then_some(now);
        }
        match parent {
            Some(parent) => {
                let state = state.map(trace_state).unwrap_or_default();
                parent.is_sampled.then(|| TraceOrigin { parent: Some((parent, state.into())), begun_at: Time::ZERO })
            }
            None => begun.map(|begun_at| TraceOrigin { parent: None, begun_at }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLED: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const UNSAMPLED: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

    fn sampler(share: u32) -> Sampler {
        Sampler { share, credit: ALL / 2 }
    }

    #[test]
    fn whoever_began_the_trace_decides() {
        for share in [0, ALL] {
            let mut begun = None;
            let mut origin = |parent| sampler(share).origin((Some(parent), None), Some(Time(7)), &mut begun);
            let origin_of_sampled = origin(SAMPLED).expect("it is sampled");
            assert!(origin_of_sampled.parent.is_some());
            assert_eq!(origin(UNSAMPLED), None);
        }
    }

    #[test]
    fn a_share_of_those_without_a_trace_is_chosen() {
        for share in [0, 1_000, 333_333, ALL] {
            let mut sampler = sampler(share);
            let mut begun = None;
            let chosen = (0..1_000_000_u64)
                .filter(|at| sampler.origin((Some(b"nonsense"), None), Some(Time(*at)), &mut begun).is_some());
            assert_eq!(chosen.count() as u32, share);
        }
    }

    #[test]
    fn all_statements_of_a_chosen_transaction_are_traced() {
        let (mut sampler, mut begun) = (sampler(ALL / 2), None);
        let mut of = |begins| sampler.origin((None, None), begins, &mut begun).map(|origin| origin.begun_at);
        assert_eq!([of(Some(Time(1))), of(None), of(None)], [Some(Time(1)); 3]);
        assert_eq!([of(Some(Time(2))), of(None)], [None; 2]);
        assert_eq!(of(Some(Time(3))), Some(Time(3)));
    }
}
