//! What an operator does: reloads the settings while work is going on, stops the pooler when it is done.

use std::sync::Arc;

use pooling::{Mail, Place, Stop};

use crate::rounds::{Letter, Machinery};
use crate::world::{Happening, Stage, World};

impl World {
    pub(crate) fn plan_reloads(&mut self) {
        for _ in 0..self.plan.reloads {
            let after = self.random.skewed(1_000, 2_000_000);
            self.after(after, Happening::Reload);
        }
    }

    /// New settings for everybody, who learn of them one after another.
    pub(crate) fn reload(&mut self) {
        if self.stage != Stage::Working {
            return;
        }
        self.census.reloads += 1;
        let mut random = self.random.clone();
        let before = self.plan.settings.databases.len();
        self.plan.reload(&mut random);
        self.random = random;
        self.census.databases_removed += (before - self.plan.settings.databases.len()) as u64;
        self.checks.reloaded_at.push(self.now);
        self.spread_settings();
    }

    pub(crate) fn spread_settings(&mut self) {
        self.trace.line(self.now, || "settings are reloaded".to_owned());
        let settings = Arc::clone(&self.plan.settings);
        self.tell_everybody(|place| Mail::configure(place, Arc::clone(&settings)));
    }

    /// The pooler is to end, if the plan says so.
    pub(crate) fn stop(&mut self) {
        let Some(stop) = self.plan.stop else { return };
        self.census.stops += 1;
        self.trace.line(self.now, || format!("the pooler is stopped: {stop:?}"));
        self.tell_everybody(|place| Mail::stop(place, stop));
    }

    fn tell_everybody(&mut self, mail: impl Fn(Place) -> Mail) {
        for node in 0..self.nodes.len() as u16 {
            // In the order in which they were sent.
            let last = self.posted.entry((u16::MAX, node)).or_default();
            *last = (*last).max(self.now + self.random.range(1, 2_000));
            let at = *last;
            let mail = mail(self.nodes[usize::from(node)].place);
            self.deliver(node, Letter { from: node, at, mail, carrying: None, returned: false });
        }
    }

    /// Workers that were stopped and never said that they have come to their end.
    pub(crate) fn unfinished(&self) -> Vec<String> {
        // Who waits for clients only goes on serving whoever is left; everybody has gone by now.
        let asked = matches!(self.plan.stop, Some(Stop::WaitForClients | Stop::WaitForServers | Stop::Immediate));
        let workers = self.nodes.iter().filter(|node| matches!(node.machinery, Machinery::Worker(_)));
        workers
            .filter(|node| asked && !node.finished)
            .map(|node| format!("{:?} has not finished", node.place))
            .collect()
    }
}
