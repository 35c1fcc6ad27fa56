//! The state of every session at each of its statements, at its twin and at the server that ran the statement (I9).
//!
//! Mostly the twin runs a statement first; where a cancel may interrupt it, the server does. The second one compares.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::state::Moment;
use crate::statement::Mark;

/// A violation of an invariant that a server saw.
#[derive(Clone, Debug)]
pub struct Complaint {
    pub invariant: u8,
    pub text: String,
}

/// Moments kept for one client: more than it can have statements under way.
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
    /// The statements whose effects a server has committed, newest last, and those whose effects the twin has.
    committed: BTreeSet<u32>,
    owed: BTreeSet<u32>,
    /// The last statement that began a block at a server, or ran alone and read.
    begun: Option<u32>,
    /// The last statement that a server ran. If an earlier one comes again, the pooler has repeated it.
    newest: u32,
}

#[derive(Debug, Default)]
pub struct Book {
    pages: BTreeMap<u32, Page>,
    complaint: Option<Complaint>,
    compared: u64,
    begun_again: u64,
}

impl Book {
    /// The twin runs this statement.
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

    /// A server runs it. `what` names the server and the statement for a complaint.
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

    /// A server has committed what this statement has done. No other may have done so (I24).
    pub fn committed(&mut self, mark: Mark) {
        let page = self.pages.entry(mark.client).or_default();
        let is_first = page.committed.insert(mark.number);
        if page.committed.len() > MOMENTS_MAX {
            page.committed.pop_first();
        }
        if !is_first && self.complaint.is_none() {
            let text = format!("{} was executed twice", mark.text());
            self.complaint = Some(Complaint { invariant: 24, text });
        }
    }

    /// The twin has committed the effects of this statement. A server must have committed them before the client gets the answer (I27).
    pub fn twin_committed(&mut self, mark: Mark) {
        let page = self.pages.entry(mark.client).or_default();
        page.owed.insert(mark.number);
        if page.owed.len() > MOMENTS_MAX {
            page.owed.pop_first();
        }
    }

    /// The first of these statements of a client that a server has committed, if there is one.
    #[must_use]
    pub fn committed_among(&self, client: u32, statements: RangeInclusive<u32>) -> Option<u32> {
        self.pages.get(&client)?.committed.range(statements).next().copied()
    }

    /// The first of these statements of a client that its twin has committed, and no server.
    #[must_use]
    pub fn missing_among(&self, client: u32, statements: RangeInclusive<u32>) -> Option<u32> {
        let page = self.pages.get(&client)?;
        page.owed.range(statements).find(|number| !page.committed.contains(number)).copied()
    }

    /// A server begins a block with this statement, or reads with it alone.
    pub fn begun(&mut self, mark: Mark) {
        let begun = &mut self.pages.entry(mark.client).or_default().begun;
        self.begun_again += u64::from(*begun == Some(mark.number));
        *begun = Some(mark.number);
    }

    /// How often the same statement came again.
    #[must_use]
    pub fn begun_again(&self) -> u64 {
        self.begun_again
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
