//! What a run needs, said before it begins: time, memory, room on the disk, open files.
//!
//! Promises: a run that needs more files than a process may open does not begin. Memory is an estimate, from what a connection took
//! in our own records; what is more than the machine has is said, and begins all the same.

use std::time::Duration;

use crate::contestant::AUTO_SIZE_MAX;
use crate::machine::gigabytes;
use crate::plan::Trial;
use crate::progress::words;
use crate::sample::number;

/// Besides its clients and servers: the log, epoll, our own connections.
const FILES_BESIDE: usize = 64;
/// Of a direct connection that runs TPC-B; an idle one takes half of it.
const CONNECTION_BYTES: u64 = 2_600 << 10;
/// Of PostgreSQL without connections, its shared buffers aside, and of poolers and the load.
const BESIDE_BYTES: u64 = 300 << 20;
/// Of a hundred thousand rows, in tables and indexes.
const SCALE_BYTES: u64 = 15 << 20;
const SCALE_MILLIS: u64 = 500;

/// Files that a process opens at most in a test: the load has its clients, a pooler its servers too.
fn files(trial: &Trial) -> usize {
    trial.connections() + (trial.pool.max(AUTO_SIZE_MAX) as usize) + FILES_BESIDE
}

/// Whether a process may open as many files as these tests need. `limit`: `None` is as many as it likes.
///
/// # Errors
/// Which tests need more, how many, and what can be done.
pub(crate) fn check_files(trials: &[Trial], limit: Option<u64>) -> Result<(), String> {
    let Some(limit) = limit else { return Ok(()) };
    let (fits, too_many): (Vec<&Trial>, Vec<&Trial>) = trials.iter().partition(|trial| files(trial) as u64 <= limit);
    let Some(most) = too_many.iter().map(|trial| files(trial)).max() else { return Ok(()) };
    let names = |trials: &[&Trial]| trials.iter().map(|trial| trial.name).collect::<Vec<_>>();
    let fits: String = names(&fits).iter().map(|name| format!(" --only {name}")).collect();
    let others = if fits.is_empty() { String::new() } else { format!(", or run the others:{fits}") };
    Err(format!(
        "{}: a process needs up to {most} open files, and may have {limit} here (ulimit -Hn). Raise the limit{others}",
        names(&too_many).join(", ")
    ))
}

/// Where PostgreSQL is and what there is, as far as it is known.
pub(crate) struct Place {
    /// Connections that it still takes.
    pub(crate) room: u64,
    pub(crate) shared_buffers: u64,
    /// Whether it runs on this machine.
    pub(crate) is_here: bool,
    /// Bytes of memory that can be had here.
    pub(crate) memory: u64,
}

/// What it will take, in sentences.
pub(crate) fn described(trials: &[Trial], scale: u32, measuring: Duration, place: &Place) -> String {
    let making = Duration::from_millis(SCALE_MILLIS * u64::from(scale));
    let mut words = format!(
        "This takes about {}, {} of it to make the tables, which take {} on PostgreSQL's disk.",
        words(measuring + making),
        words(making),
        gigabytes(SCALE_BYTES * u64::from(scale))
    );
    // More connections than PostgreSQL takes are not tried.
    let most = trials.iter().map(|trial| trial.connections() as u64).filter(|count| *count <= place.room).max();
    let most = most.unwrap_or(0);
    let needed = place.shared_buffers + BESIDE_BYTES + most * CONNECTION_BYTES;
    let connections = number(most as f64);
    words += &format!(" With {connections} direct connections PostgreSQL may need {} of memory", gigabytes(needed));
    if !place.is_here {
        return words + ", on a machine that cannot be seen from here.";
    }
    words += &format!("; {} can be had.", gigabytes(place.memory));
    if needed > place.memory {
        let few = |trial: &&Trial| {
            place.shared_buffers + BESIDE_BYTES + trial.connections() as u64 * CONNECTION_BYTES < place.memory
        };
        let fits: String = trials.iter().filter(few).map(|trial| format!(" --only {}", trial.name)).collect();
        words += "\nWARNING: that is too much: the machine may swap, or end processes.";
        if !fits.is_empty() {
            words += &format!(" Less is needed with{fits}");
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::chosen;

    fn trials(names: &[&str]) -> Vec<Trial> {
        chosen(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).expect("they are there")
    }

    #[test]
    fn too_many_files_are_told_before_anything_begins() {
        let all = trials(&["linux-5", "linux-6", "cern-idle-5000"]);
        assert_eq!(check_files(&all, None), Ok(()));
        assert_eq!(check_files(&all, Some(5164)), Ok(()));
        let told = check_files(&all, Some(4096)).expect_err("4,000 clients and their pool");
        let expected = "cern-idle-5000, linux-6: a process needs up to 5164 open files, and may have 4096 here (ulimit -Hn). Raise the \
                        limit, or run the others: --only linux-5";
        assert_eq!(told, expected);
        let told = check_files(&trials(&["linux-6"]), Some(1024)).expect_err("4,000 clients");
        assert!(told.ends_with("Raise the limit"), "{told}");
    }

    #[test]
    fn time_memory_and_disk_are_told() {
        let place = |room, memory, is_here| Place { room, shared_buffers: 1 << 30, is_here, memory };
        let trials = trials(&["linux-5", "linux-6"]);
        let tell = |place: &Place| described(&trials, 100, Duration::from_secs(1200), place);
        let told = tell(&place(5000, 16 << 30, true));
        let expected = "This takes about 21 min, 50 s of it to make the tables, which take 1.50 GB on PostgreSQL's disk. With 4,000 direct \
                        connections PostgreSQL may need 11.2 GB of memory; 16 GB can be had.";
        assert_eq!(told, expected);
        let told = tell(&place(5000, 4 << 30, true));
        assert!(told.ends_with("Less is needed with --only linux-5"), "{told}");
        let told = tell(&place(900, 4 << 30, true));
        assert!(told.contains("With 500 direct connections") && !told.contains("WARNING"), "{told}");
        assert!(tell(&place(5000, 4 << 30, false)).ends_with("cannot be seen from here."));
    }
}
