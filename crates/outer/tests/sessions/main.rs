//! A session stays what it is, whichever server its next transaction runs on: settings, prepared statements, names, notifications; and nothing of it reaches another.

mod bases;
mod catalogue;
mod configuration;
mod definitions;
mod listening;
mod postgresql_versions;
mod programs;
mod session_state;
mod strangers;
