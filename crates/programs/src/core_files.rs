//! No core file is written: it would have every password, key and private key that the process keeps.
//!
//! The soft limit alone is lowered, so whoever looks for a fault can raise it in the running process, as the guide says
//! (docs/guide/authentication.md). Debuggers and profilers are not kept away.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Too small for any core file, as 0 is. At 0 a core would still go to a program that the system has for them (`core_pattern` with
/// a bar); 1 is what Linux takes for "to no program either".
const LIMIT: u64 = 1;

/// For this process, its threads, and the programs that it starts.
pub fn forbid() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Core);
    let current = maximum.map_or(LIMIT, |most| most.min(LIMIT));
    // Anybody may lower a limit; if a sandbox forbids even that, serving matters more.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(current), maximum });
}
