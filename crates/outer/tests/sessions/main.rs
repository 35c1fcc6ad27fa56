//! A session stays what it is, whichever server its next transaction runs on: settings, prepared statements, names, notifications; and nothing of it reaches another.

mod bases;
mod catalogue;
mod configuration;
mod definitions;
mod listening;
mod one_session;
mod postgresql_versions;
mod program_files;
mod programs;
mod session_state;
mod strangers;
