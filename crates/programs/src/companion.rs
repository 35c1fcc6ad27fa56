//! Finds the other program (pgweir-bench for pgweir, pgweir for pgweir-bench) and compares its version with ours.
//!
//! Promises: the one in the folder of the program that runs comes first, so that an installation or a build uses its own.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The version of both programs, which are built from one source.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

pub const PGWEIR: &str = "pgweir";
pub const PGWEIR_BENCH: &str = "pgweir-bench";

/// The folder of programs that are not for users' shells, seen from /usr/bin.
const LIBEXEC: &str = "../libexec/pgweir";

/// The program of this name: beside the one that runs, in its libexec folder, or on PATH.
///
/// # Errors
/// There is none in these places, which the error lists.
pub fn find(name: &str) -> Result<PathBuf, String> {
    // The file may have been replaced meanwhile; its folder is still the same.
    let own = std::env::current_exe().ok();
    let own = own.as_deref().and_then(Path::parent);
    let path = std::env::var_os("PATH").unwrap_or_default();
    find_in(name, own, &path).ok_or_else(|| {
        let beside = own.map(|folder| format!(" beside this one ({}) or", folder.display())).unwrap_or_default();
        format!(
            "the program {name} is not installed: it is not{beside} on PATH. The packages and the tarball of pgweir have it, the image \
             does not; from the source, cargo install --path crates/{name} builds it"
        )
    })
}

fn find_in(name: &str, own: Option<&Path>, path: &OsStr) -> Option<PathBuf> {
    let own = own.into_iter().flat_map(|folder| [folder.to_owned(), folder.join(LIBEXEC)]);
    own.chain(std::env::split_paths(path)).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Whether a program is of this version.
///
/// # Errors
/// It is of another one, or cannot be run.
pub fn agree(program: &Path) -> Result<(), String> {
    let shown = program.display();
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|why| format!("cannot run {shown}: {why}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    match version_in(&said) {
        Some(VERSION) => Ok(()),
        found => Err(format!(
            "{shown} is of version {}, and this program of version {VERSION}: install both of the same version",
            found.unwrap_or("unknown")
        )),
    }
}

/// Of the line `pgweir 0.1.0` or `pgweir-bench 0.1.0`.
fn version_in(said: &str) -> Option<&str> {
    said.lines().find(|line| line.starts_with("pgweir"))?.split_whitespace().nth(1)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_version_is_read_of_both_programs() {
        assert_eq!(version_in("PgBouncer 1.25.2\npgweir 0.1.0\nfeatures: no pam\n"), Some("0.1.0"));
        assert_eq!(version_in("pgweir-bench 0.2.0\n"), Some("0.2.0"));
        assert_eq!(version_in("PgBouncer 1.25.2\n"), None);
        assert_eq!(version_in(""), None);
    }

    /// A folder that goes with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = std::env::temp_dir().join(format!("pgweir-companion-{name}-{}", std::process::id()));
            fs::create_dir_all(folder.join("bin")).expect("a temporary folder");
            fs::create_dir_all(folder.join("libexec/pgweir")).expect("a temporary folder");
            fs::create_dir_all(folder.join("path")).expect("a temporary folder");
            Folder(folder)
        }

        fn program(&self, place: &str, says: &str) -> PathBuf {
            let file = self.0.join(place);
            fs::write(&file, format!("#!/bin/sh\necho '{says}'\n")).expect("it can be written");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it is ours");
            file
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_one_beside_comes_first_then_libexec_then_path() {
        let folder = Folder::new("find");
        let (own, path) = (folder.0.join("bin"), folder.0.join("path"));
        let found = || find_in("other", Some(&own), path.as_os_str());
        assert_eq!(found(), None);
        folder.program("path/other", "");
        assert_eq!(found(), Some(path.join("other")));
        folder.program("libexec/pgweir/other", "");
        assert_eq!(found(), Some(own.join(LIBEXEC).join("other")));
        folder.program("bin/other", "");
        assert_eq!(found(), Some(own.join("other")));
    }

    #[test]
    fn another_version_is_told_with_both() {
        let folder = Folder::new("agree");
        assert_eq!(agree(&folder.program("bin/same", &format!("pgweir-bench {VERSION}"))), Ok(()));
        let older = folder.program("bin/older", "pgweir-bench 0.0.9");
        let why = agree(&older).expect_err("another version");
        assert!(why.contains("version 0.0.9") && why.contains(VERSION) && why.contains("bin/older"), "{why}");
        let silent = agree(&folder.program("bin/silent", "")).expect_err("no version");
        assert!(silent.contains("version unknown"), "{silent}");
    }
}
