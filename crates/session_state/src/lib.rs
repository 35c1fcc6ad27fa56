//! What a session is and leaves behind: settings, prepared statements, what it keeps on its server, and what the names
//! of a database have as side effects.
//!
//! Values that know no worker, no server and no queue. Nothing here decides which session is linked to which server: it says what a session
//! has set, what a server has, what to say to the one to make it the other ([`state`]), what a session's statements under way
//! will do and what has become of them ([`tracker`]), and what a statement may have left behind ([`catalogue`]).

pub mod access;
pub mod catalogue;
pub mod login_report;
pub mod own_changes;
pub mod own_settings;
pub mod parameter_set;
pub mod parameters;
mod pins;
pub mod prepared;
pub mod shape;
mod side_effects;
pub mod spelling;
pub mod state;
pub mod statement_errors;
pub mod tracker;
pub mod unnamed;
