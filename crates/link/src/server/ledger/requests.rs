//! The requests whose answers the client still waits for, each with all of its entries.

use session_state::access::Access;

use super::{Answerer, Expect, Ledger};

/// A request that the client waits for: up to one ReadyForQuery, or a batch without its Sync.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub access: Access,
    /// A simple query.
    pub is_query: bool,
    /// A batch of the extended protocol whose Sync has not been sent.
    pub is_open: bool,
    /// Part of its answer has not come. False of an open batch all of whose messages are answered.
    pub is_owed: bool,
    /// The request has failed, and its client was sent the error: the server skips to the Sync.
    pub has_failed: bool,
}

impl Ledger {
    /// Those of the client, oldest first.
    pub fn requests(&self) -> Vec<Request> {
        let (mut requests, mut is_owed) = (Vec::new(), false);
        for entry in self.owed.iter().filter(|entry| entry.owner == Answerer::Client) {
            match entry.expect {
                Expect::Query | Expect::Function | Expect::Sync => {
                    let is_query = entry.expect == Expect::Query;
                    let access = entry.access;
                    requests.push(Request { access, is_query, is_open: false, is_owed: true, has_failed: false });
                    is_owed = false;
                }
                Expect::CopyEnd => {}
                _ => is_owed = true,
            }
        }
        if is_owed || self.is_open() {
            let access = self.batch.unwrap_or(Access::ReadOnly);
            let (is_query, has_failed) = (false, self.skipping);
            requests.push(Request { access, is_query, is_open: true, is_owed, has_failed });
        }
        requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Said;

    #[test]
    fn a_batch_without_its_sync_is_the_last_request() {
        let mut ledger = Ledger::default();
        let said = |access| Said { access, ..Said::OWN };
        ledger.speaks_of(said(Access::ReadWrite));
        ledger.sent(Answerer::Client, Expect::Query);
        ledger.sent(Answerer::Check, Expect::Query);
        ledger.speaks_of(said(Access::End));
        for expect in [Expect::Bind, Expect::Execute] {
            ledger.sent(Answerer::Client, expect);
        }
        let (query, batch) = match ledger.requests()[..] {
            [query, batch] => (query, batch),
            ref other => panic!("{other:?}"),
        };
        assert!(query.is_query && !query.is_open && query.access == Access::ReadWrite);
        assert!(batch.is_open && batch.is_owed && !batch.has_failed && batch.access == Access::End);
        ledger.sent(Answerer::Client, Expect::Sync);
        assert_eq!(ledger.requests()[1], Request { is_open: false, ..batch });
    }
}
