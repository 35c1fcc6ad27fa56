//! The command line: what a person gets who asks for help, or names a suite or a path that does not exist.

use std::process::{Command, Output};

fn regress(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_regress")).args(arguments).output().expect("it was built with this test")
}

#[test]
fn help_names_suites_and_paths() {
    let output = regress(&["--help"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    for word in ["serial", "parallel", "isolation", "contrib", "rotate", "poison"] {
        assert!(text.contains(word), "{word} is missing:\n{text}");
    }
}

#[test]
fn an_unknown_suite_or_path_is_refused() {
    for arguments in [["--suite", "seriel"], ["--path", "rotated"]] {
        let output = regress(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(arguments[1]), "{output:?}");
    }
}
