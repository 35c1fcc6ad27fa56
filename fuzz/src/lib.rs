//! Coverage-guided fuzzing of everything that comes from the network or from a user's file.
//!
//! Each target is a function of bytes that must not panic, whatever they are; what it asserts stands at the head of its
//! file. libFuzzer makes up the bytes (`make fuzz`); what it found worth keeping lies in `corpus/`, and every
//! `cargo test` runs the targets on all of it, without libFuzzer. Does not look for slow answers between whole programs,
//! nor at sockets: the simulator and the outer ring do.

pub mod access;
pub mod auth_file;
pub mod configuration;
pub mod door;
pub mod history;
pub mod messages;
pub mod proofs;
pub mod proxies;
pub mod rules;
pub mod sasl;
pub mod statements;
pub mod worker;

mod tape;

/// A target's name, which is that of its corpus too, and what it does with the fuzzer's bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 14] = [
    ("wire", messages::run),
    ("door", door::run),
    ("worker", worker::run),
    ("sql", statements::run),
    ("auth", proofs::run),
    ("auth_file", auth_file::run),
    ("sasl_client", sasl::client::run),
    ("sasl_server", sasl::server::run),
    ("config", configuration::run),
    ("rules", rules::run),
    ("hba", access::rules),
    ("ident", access::maps),
    ("proxy", proxies::run),
    ("history", history::run),
];
