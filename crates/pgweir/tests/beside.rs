//! `pgweir dev` and `pgweir bench` start another program: how pgweir finds it, and the error if it is missing or of another version.
//!
//! A script takes the place of pgweir-bench and prints what it gets.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The script after its answer to `--version`: it prints its pid, its arguments and the URL, and ends with status 7.
const TELLS: &str =
    "echo \"pid $$\"\necho \"args $*\"\n[ \"$3\" != --url-from ] || echo \"url $(cat \"$4\")\"\nexit 7\n";

/// A folder with a pgweir of its own, gone with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("pgweir-beside-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("bin")).expect("the directory for temporary files is writable");
        // A link would lead to where it was built.
        put(&fs::read(env!("CARGO_BIN_EXE_pgweir")).expect("the program was built"), &path.join("bin/pgweir"));
        Folder(path)
    }

    /// A pgweir-bench of a version.
    fn with(name: &str, place: &str, version: &str) -> Folder {
        let folder = Folder::new(name);
        let file = folder.0.join(place).join("pgweir-bench");
        fs::create_dir_all(folder.0.join(place)).expect("the folder is ours");
        let text = format!("#!/bin/sh\n[ \"$1\" != --version ] || {{ echo pgweir-bench {version}; exit; }}\n{TELLS}");
        put(text.as_bytes(), &file);
        folder
    }

    fn pgweir(&self) -> PathBuf {
        self.0.join("bin/pgweir")
    }

    /// With a PATH on which there is a shell, and the folder `path`.
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(self.pgweir());
        command.args(line.split(' ')).env("PATH", format!("/usr/bin:/bin:{}", self.0.join("path").display()));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().expect("it starts")
    }
}

/// Writes a program, by a process of its own: a child that another test forks meanwhile would have a file of ours open for writing, and
/// nobody can start a program that somebody may still write (ETXTBSY).
fn put(bytes: &[u8], file: &Path) {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""]).arg(file).stdin(Stdio::piped());
    let mut shell = command.spawn().expect("there is a shell");
    shell.stdin.take().expect("it is piped").write_all(bytes).expect("the shell reads all of it");
    assert!(shell.wait().expect("it is our child").success(), "{}", file.display());
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("we write UTF-8")
}

fn own_version() -> &'static str {
    control::version::PGWEIR
}

#[test]
fn arguments_and_status_are_passed_through_and_the_process_is_the_same() {
    let folder = Folder::with("passed", "bin", own_version());
    let child = folder.command("-q dev --port 7000 --data /d --pool-size 20 -v").spawn().expect("it starts");
    let pid = child.id();
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let expected = format!(
        "pid {pid}\nargs --pgweir {} dev --port=7000 --data=/d --pool-size=20 --quiet --verbose\n",
        folder.pgweir().display()
    );
    assert_eq!(text(&output.stdout), expected);
}

#[test]
fn a_url_is_on_no_command_line() {
    let folder = Folder::with("url", "bin", own_version());
    let output = folder.run("bench postgres://app:secret@db/shop --quick --only cern");
    let said = text(&output.stdout);
    let (arguments, url) = said.split_once("\nurl ").unwrap_or_else(|| panic!("{said} {}", text(&output.stderr)));
    assert_eq!(url, "postgres://app:secret@db/shop\n");
    assert!(!arguments.contains("secret") && arguments.ends_with("bench --only=cern --quick"), "{arguments}");
}

#[test]
fn it_is_found_in_libexec_and_on_path_too() {
    for place in ["libexec/pgweir", "path"] {
        let folder = Folder::with(&place.replace('/', "-"), place, own_version());
        assert_eq!(folder.run("bench").status.code(), Some(7), "{place}");
    }
}

#[test]
fn where_it_is_missing_or_of_another_version_one_sentence_says_so() {
    let missing = Folder::new("missing");
    let older = Folder::with("older", "bin", "0.0.9");
    let newer = |folder: &Folder| folder.0.join("bin/pgweir-bench").display().to_string();
    let lacks = "pgweir dev: the program pgweir-bench is not installed: ";
    let differs = format!("{} is of version 0.0.9, and this program of version {}", newer(&older), own_version());
    for (folder, expected) in [(&missing, lacks), (&older, differs.as_str())] {
        let output = folder.run("dev");
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert!(said.contains(expected) && said.lines().count() == 1, "{said}");
        assert_eq!(text(&output.stdout), "");
    }
    let said = text(&missing.run("dev").stderr);
    let folder: &Path = &missing.0.join("bin");
    for part in [&*folder.to_string_lossy(), "packages", "image", "cargo install --path crates/pgweir-bench"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
