//! Messages of PostgreSQL's protocol as clients send them: of any length and kind, COPY, cancel requests, parameters, versions, replication.

mod big;
mod cancel;
mod copying;
mod cves;
mod messages;
mod names;
mod parameters;
mod programs;
mod protocol_versions;
mod queries;
mod replication;
mod tokens;
