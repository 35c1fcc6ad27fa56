//! Programs of one session, in files by their subjects. `PROGRAM=word cargo test -p outer --test sessions program_files` runs those whose name
//! has the word.

use crate::one_session::run_file;

#[test]
fn settings() {
    run_file(include_str!("programs/settings.txt"));
}

#[test]
fn roles() {
    run_file(include_str!("programs/roles.txt"));
}

#[test]
fn code() {
    run_file(include_str!("programs/code.txt"));
}

#[test]
fn objects() {
    run_file(include_str!("programs/objects.txt"));
}

#[test]
fn statements() {
    run_file(include_str!("programs/statements.txt"));
}

#[test]
fn transactions() {
    run_file(include_str!("programs/transactions.txt"));
}
