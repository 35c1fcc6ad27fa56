//! The control plane: the console, reload and shutdown. It never delays a query.
//!
//! It is one thread of its own that communicates with the data plane only by messages: it requests snapshots, posts
//! settings and commands, and answers the console's clients. It owns no client and no server, and nothing that serves
//! queries ever waits for it.
//!
//! ```text
//!   signals ─┐                       ┌─► look: snapshots          (averages, SHOW …)
//!   console ─┼─► events ─► Steward ──┼─► configure: new settings  (RELOAD, SIGHUP)
//!   engine ──┘                       ├─► stop: how to end         (SHUTDOWN, SIGTERM, SIGINT, SIGQUIT)
//!                                    └─► answer: bytes for a console client
//! ```
//!
//! * [`command`]: everything that can be typed at the console, a closed list,
//!   and its parser.
//! * [`admin`]: one file for each `SHOW`, with its columns and its rows, made from a [`ShowInput`].
//! * [`console`]: rights, errors, and the wire messages of an answer.
//! * [`steward`]: the thread's loop. [`Plane`] is all that it needs from the engine, and [`Loaded`] all from the
//!   configuration, so that it can be tested without both.
//!
//! Names, columns, types, error texts and log lines are PgBouncer's (`//= pgbouncer usage.md#admin-console`), because
//! exporters, dashboards and scripts match on them.

pub mod admin;
pub mod averages;
pub mod command;
pub mod console;
mod courtesy;
pub mod events;
mod help;
pub mod metrics;
pub mod past;
mod pattern;
pub mod pidfile;
pub mod plane;
pub mod show_input;
pub mod shutdown;
pub mod sight;
pub mod steward;
pub mod table;
mod time_of_day;
pub mod version;

pub use admin::Show;
pub use command::Command;
pub use plane::{
    Asker, DoorFacts, EngineFacts, Exemplar, Exemplars, HostProbe, HostSeen, HostsSeen, KnownName, KnownNames,
    KnownZone, Loaded, Plane, SettingRow, Wanted, WorkerFacts,
};
pub use show_input::{Detail, ShowInput};
pub use shutdown::Signal;
pub use sight::Sight;
pub use steward::{ClientOrder, ControlEvent, Ending, Steward};
