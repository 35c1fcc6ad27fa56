//! What every session's state was at each of its statements, as its twin had it and as the server had it that ran it (I9).
//!
//! The twin mostly is there first; where a cancel may strike, the server is. Whoever comes second compares.

use std::collections::BTreeMap;

use crate::state::Moment;
use crate::statement::Mark;

/// Something a server saw that no invariant allows.
#[derive(Clone, Debug)]
pub struct Complaint {
    pub invariant: u8,
    pub text: String,
}

/// Moments kept for one client. More than it can have under way.
const MOMENTS_MAX: usize = 4_000;

/// A statement, or in the extended protocol its Bind and its Execute.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Bind,
    Run,
}

type Point = (u32, Step);

#[derive(Debug, Default)]
struct Page {
    twin: BTreeMap<Point, Moment>,
    servers: BTreeMap<Point, (Moment, String)>,
    /// The last statement that a server ran. What comes again after it is the pooler's, which says it again.
    newest: u32,
}

#[derive(Debug, Default)]
pub struct Book {
    pages: BTreeMap<u32, Page>,
    complaint: Option<Complaint>,
    compared: u64,
}

impl Book {
    /// The twin is at this statement.
    pub fn twin_at(&mut self, mark: Mark, step: Step, moment: Moment) {
        let page = self.pages.entry(mark.client).or_default();
        let point = (mark.number, step);
        if let Some((server, what)) = page.servers.remove(&point) {
            self.compare(mark, &server, &moment, &what);
            return;
        }
        page.twin.insert(point, moment);
        if page.twin.len() > MOMENTS_MAX {
            page.twin.pop_first();
        }
    }

    /// A server is at it; `what` says of which server and statement a complaint would be.
    pub fn server_at(&mut self, mark: Mark, step: Step, moment: Moment, what: impl FnOnce() -> String) {
        let page = self.pages.entry(mark.client).or_default();
        if mark.number < page.newest {
            return;
        }
        page.newest = mark.number;
        let point = (mark.number, step);
        if let Some(twin) = page.twin.remove(&point) {
            self.compare(mark, &moment, &twin, &what());
            return;
        }
        page.servers.insert(point, (moment, what()));
        if page.servers.len() > MOMENTS_MAX {
            page.servers.pop_first();
        }
    }

    fn compare(&mut self, mark: Mark, server: &Moment, twin: &Moment, what: &str) {
        self.compared += 1;
        let differences = server.differences(twin);
        if !differences.is_empty() && self.complaint.is_none() {
            let text = format!("{what} of {} meets another state here: {}", mark.text(), differences.join("; "));
            self.complaint = Some(Complaint { invariant: 9, text });
        }
    }

    /// The client has gone.
    pub fn forget(&mut self, client: u32) {
        self.pages.remove(&client);
    }

    pub fn take_complaint(&mut self) -> Option<Complaint> {
        self.complaint.take()
    }

    /// How often two were compared.
    #[must_use]
    pub fn compared(&self) -> u64 {
        self.compared
    }
}
