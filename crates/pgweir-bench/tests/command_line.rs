//! The command line: the version is pgweir's, and an unknown command is refused.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pgweir-bench")).args(arguments).output().expect("it was built with this test")
}

#[test]
fn it_has_the_version_that_pgweir_asks_for() {
    let output = run(&["--version"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("pgweir-bench {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn an_unknown_command_is_refused() {
    for arguments in [&["serve"][..], &[]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("Usage: pgweir-bench"), "{output:?}");
    }
}

#[test]
fn a_pgweir_that_is_not_there_is_named() {
    let output = run(&["--pgweir", "/nowhere/pgweir", "dev"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/pgweir"), "{output:?}");
}
