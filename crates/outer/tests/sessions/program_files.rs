//! Programs of one session, in files by their subjects. `PROGRAM=word cargo test -p outer --test sessions program_files` runs those whose name
//! has the word.

use crate::one_session::run_file;

#[test]
#[ignore = "test-full: servers are drawn at random, so a limit of the manual may show; `programs::` and the transcripts in `state/` stay"]
fn settings() {
    run_file(include_str!("programs/settings.txt"));
}

#[test]
#[ignore = "test-full: servers are drawn at random, so a limit of the manual may show; `programs::` and the transcripts in `state/` stay"]
fn roles() {
    run_file(include_str!("programs/roles.txt"));
}

#[test]
#[ignore = "test-full: servers are drawn at random, so a limit of the manual may show; `programs::` and the transcripts in `state/` stay"]
fn code() {
    run_file(include_str!("programs/code.txt"));
}

#[test]
#[ignore = "test-full: servers are drawn at random, so a limit of the manual may show; `programs::` and the transcripts in `state/` stay"]
fn objects() {
    run_file(include_str!("programs/objects.txt"));
}

#[test]
#[ignore = "test-full: servers are drawn at random, so a limit of the manual may show; `programs::` and the transcripts in `state/` stay"]
fn statements() {
    run_file(include_str!("programs/statements.txt"));
}

#[test]
#[ignore = "test-full: servers are drawn at random, so a limit of the manual may show; `programs::` and the transcripts in `state/` stay"]
fn transactions() {
    run_file(include_str!("programs/transactions.txt"));
}
