//! `-R`: an online upgrade. Either side's part that belongs to the program: which process is asked, what it is told of the log and the
//! pidfile, and who decides.
//!
//! //= pgbouncer usage.md#command-line-switches

use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use config::Config;
use control::ControlEvent;
use engine::Handle;
use handover::predecessor::{self, Meeting, Overseer};
use handover::successor::{Refused, Succession};
use machine::{Level, Orders};

/// Where a process with this configuration is asked.
fn path(config: &Config) -> Option<PathBuf> {
    let listening = &config.pooling.global.listening;
    handover::path(listening.unix_socket_dir.as_ref()?, listening.listen_port)
}

/// Asks the running process. `None`: there is none.
///
/// # Errors
/// It does not hand over, or cannot be asked.
pub(crate) fn ask(config: &Config) -> Result<Option<Succession>, String> {
    let path = path(config).ok_or("an online restart (-R) needs unix_socket_dir, a directory")?;
    match Succession::ask(&path, &control::version::full()) {
        Ok(succession) => Ok(Some(succession)),
        Err(Refused::Nobody) => Ok(None),
        Err(Refused::No(why)) => Err(format!("the running process does not hand over: {why}")),
        // Not "nobody": whoever has put it there would like us to go on without a word.
        Err(Refused::Stranger(why)) => {
            Err(format!("the process that listens on {} is not believed: {why}", path.display()))
        }
    }
}

/// The control plane decides.
struct Steward {
    control: Mutex<Sender<ControlEvent>>,
}

impl Steward {
    fn tell(&self, event: ControlEvent) {
        // Fails when the process is about to end.
        let _ = self.control.lock().expect("nothing panics while it holds this lock").send(event);
    }
}

impl Overseer for Steward {
    fn may_hand_over(&self, pid: u32) -> Result<Orders, String> {
        let (to, answer) = channel();
        self.tell(ControlEvent::UpgradeAsked(pid, to));
        answer.recv().unwrap_or_else(|_| Err("it is about to end".to_owned()))
    }

    fn begun(&self, pid: u32) {
        self.tell(ControlEvent::UpgradeBegun(pid));
    }

    fn ordered(&self, orders: Orders) {
        self.tell(ControlEvent::Ordered(orders));
    }

    fn servers_asked(&self) {
        self.tell(ControlEvent::ServersAsked);
    }

    fn successor_gone(&self) {
        self.tell(ControlEvent::SuccessorGone);
    }

    fn successor_replaced(&self) {
        self.tell(ControlEvent::SuccessorReplaced);
    }
}

/// From now on another process may take our place.
pub(crate) fn await_successor(config: &Config, handle: &Handle, control: Sender<ControlEvent>) -> Option<Meeting> {
    let path = path(config)?;
    let steward = Steward { control: Mutex::new(control) };
    match predecessor::listen(&path, &control::version::full(), handle.clone(), Arc::new(steward)) {
        Ok(meeting) => Some(meeting),
        Err(error) => {
            let text = format!("no online restart (-R) will be possible: cannot listen on {}: {error}", path.display());
            handle.log().say(Level::Warning, text);
            None
        }
    }
}
