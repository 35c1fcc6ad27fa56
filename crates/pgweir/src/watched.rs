//! What is shown by HTTP to those who watch: the control plane makes it.

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use control::ControlEvent;

/// How long the control plane may take.
const PATIENCE: Duration = Duration::from_secs(4);

/// Asks the control plane.
pub(crate) struct Watched {
    control: Sender<ControlEvent>,
}

impl Watched {
    pub(crate) fn new(control: Sender<ControlEvent>) -> Watched {
        Watched { control }
    }

    fn ask<T>(&self, question: impl FnOnce(Sender<T>) -> ControlEvent) -> Option<T> {
        let (to, answer) = channel();
        self.control.send(question(to)).ok()?;
        answer.recv_timeout(PATIENCE).ok()
    }
}

impl monitor::Source for Watched {
    fn metrics(&self) -> Option<String> {
        self.ask(ControlEvent::Scraped)
    }

    fn is_ready(&self) -> bool {
        self.ask(ControlEvent::ReadyAsked).unwrap_or(false)
    }
}
