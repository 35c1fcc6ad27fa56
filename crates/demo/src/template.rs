//! A data directory that initdb has made once, and that temporary clusters copy: some 0.1 s in memory instead of 0.6 s and more.
//!
//! Promises: a copy is what initdb of the same programs with the same arguments makes, but for the superuser's password, which
//! the copy's owner sets; a template is whole or not there, however many processes make it at once; it does not outlive a boot,
//! because nothing of it is flushed to the disk. All copies have one system identifier, as primaries and their standbys have.
//!
//! Anybody who can write to a template decides what code a cluster runs. Therefore the caller names a directory of its own (a
//! build's cache). A template is ignored unless the directory and the template belong to us and nobody else may write to them.
//! Nothing that a user starts has a template: see [`crate::Options::template`].

use std::fs::{self, DirBuilder};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::account::Account;
use crate::binaries::Binaries;
use crate::random::random_hex;

/// A template's directory, which may not exist yet.
pub(crate) struct Template {
    dir: PathBuf,
    /// The boot's id, the PostgreSQL version, and a hash of everything else in which templates differ.
    name: String,
    boot: String,
}

impl Template {
    /// The template in `dir` for what `initdb` of these programs makes of `arguments`. `None`: the programs' files or the
    /// boot's id cannot be read.
    pub(crate) fn within(dir: &Path, binaries: &Binaries, arguments: &[String]) -> Option<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let boot: String = boot.chars().filter(char::is_ascii_hexdigit).take(12).collect();
        let mut hasher = DefaultHasher::new();
        arguments.hash(&mut hasher);
        binaries.dir.hash(&mut hasher);
        // A version that is installed over another one may call itself the same (18devel) and keep its data otherwise.
        for name in ["initdb", "postgres"] {
            let about = fs::metadata(binaries.dir.join(name)).ok()?;
            (about.len(), about.mtime(), about.mtime_nsec(), about.ino()).hash(&mut hasher);
        }
        let version: String = binaries.version.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '.').collect();
        let name = format!("{boot}-{version}-{:016x}", hasher.finish());
        Some(Self { dir: dir.to_owned(), name, boot })
    }

    /// Copies the template to `data`, an empty directory. `false`: there is none yet, or it is not ours alone.
    pub(crate) fn bring(&self, data: &Path, account: Option<&Account>) -> io::Result<bool> {
        let made = self.dir.join(&self.name);
        if !is_ours_alone(&self.dir) || !is_ours_alone(&made) {
            return Ok(false);
        }
        copy_all(&made, data, account).map(|()| true)
    }

    /// Keeps a copy of what initdb has just made. An error is harmless: the next cluster runs initdb, too.
    pub(crate) fn keep(&self, data: &Path) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        if !is_ours_alone(&self.dir) {
            return Ok(());
        }
        self.remove_those_of_other_boots()?;
        let unfinished = self.dir.join(format!("{}.{}", self.name, random_hex(5)));
        DirBuilder::new().mode(0o700).create(&unfinished)?;
        // Another process may have been faster: a directory that is not empty is not replaced.
        let kept = copy_all(data, &unfinished, None).and_then(|()| fs::rename(&unfinished, self.dir.join(&self.name)));
        if kept.is_err() {
            let _ = fs::remove_dir_all(&unfinished);
        }
        kept
    }

    /// Removes the templates of earlier boots: nobody uses them any more.
    fn remove_those_of_other_boots(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)?.flatten() {
            if !entry.file_name().to_string_lossy().starts_with(&self.boot) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        Ok(())
    }
}

/// A directory that belongs to us and that nobody else may write to.
fn is_ours_alone(dir: &Path) -> bool {
    let ours = rustix::process::geteuid().as_raw();
    let is_ours =
        |about: fs::Metadata| about.is_dir() && about.uid() == ours && about.permissions().mode() & 0o022 == 0;
    fs::symlink_metadata(dir).is_ok_and(is_ours)
}

/// Copies the contents of `from` into `to`, with their modes, and gives them to `account`.
fn copy_all(from: &Path, to: &Path, account: Option<&Account>) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, source, target) = (entry.file_type()?, entry.path(), to.join(entry.file_name()));
        if kind.is_dir() {
            DirBuilder::new().mode(entry.metadata()?.permissions().mode() & 0o777).create(&target)?;
            copy_all(&source, &target, account)?;
        } else if kind.is_file() {
            // By the kernel (copy_file_range), and by reference where the file system can.
            fs::copy(&source, &target)?;
        } else {
            return Err(io::Error::other(format!("{} is neither a file nor a directory", source.display())));
        }
        if let Some(account) = account {
            account.take(&target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(dir: &Path, arguments: &[&str]) -> Template {
        let name = format!("b00t-{}", arguments.join("-"));
        Template { dir: dir.to_owned(), name, boot: "b00t".to_owned() }
    }

    /// A directory of this test's own, removed when dropped.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Self {
            let dir = std::env::temp_dir().join(format!("demo-template-{}", random_hex(5)));
            DirBuilder::new().mode(0o700).create(&dir).expect("a fresh name");
            Self(dir)
        }

        /// A small tree, as initdb might have made it.
        fn data(&self) -> PathBuf {
            let data = self.0.join("data");
            fs::create_dir_all(data.join("base/1")).expect("a fresh directory");
            fs::write(data.join("PG_VERSION"), "15\n").expect("a fresh directory");
            fs::write(data.join("base/1/112"), [7; 100]).expect("a fresh directory");
            fs::set_permissions(data.join("base"), fs::Permissions::from_mode(0o700)).expect("ours");
            data
        }

        fn empty(&self, name: &str) -> PathBuf {
            let dir = self.0.join(name);
            fs::create_dir(&dir).expect("a fresh name");
            dir
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_copy_is_what_was_kept_and_there_is_none_before() {
        let scratch = Scratch::new();
        let template = template(&scratch.empty("kept"), &["a"]);
        let copy = scratch.empty("copy");
        assert!(!template.bring(&copy, None).expect("it looks"));
        template.keep(&scratch.data()).expect("it is kept");
        assert!(template.bring(&copy, None).expect("it is copied"));
        assert_eq!(fs::read(copy.join("base/1/112")).expect("copied"), [7; 100]);
        assert_eq!(fs::metadata(copy.join("base")).expect("copied").permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn many_make_one_at_the_same_time_and_nothing_else_is_left() {
        let scratch = Scratch::new();
        let (kept, data) = (scratch.empty("kept"), scratch.data());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| drop(template(&kept, &["a"]).keep(&data)));
            }
        });
        let names: Vec<_> = fs::read_dir(&kept).expect("ours").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["b00t-a"]);
        assert!(template(&kept, &["a"]).bring(&scratch.empty("copy"), None).expect("it is whole"));
    }

    #[test]
    fn what_others_may_write_to_is_passed_over() {
        let scratch = Scratch::new();
        let kept = scratch.empty("kept");
        template(&kept, &["a"]).keep(&scratch.data()).expect("it is kept");
        fs::set_permissions(kept.join("b00t-a"), fs::Permissions::from_mode(0o770)).expect("ours");
        assert!(!template(&kept, &["a"]).bring(&scratch.empty("one"), None).expect("it looks"));
        fs::set_permissions(kept.join("b00t-a"), fs::Permissions::from_mode(0o700)).expect("ours");
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o777)).expect("ours");
        assert!(!template(&kept, &["a"]).bring(&scratch.empty("two"), None).expect("it looks"));
    }

    #[test]
    fn those_of_other_boots_go() {
        let scratch = Scratch::new();
        let kept = scratch.empty("kept");
        fs::create_dir(kept.join("01d-15.1-a")).expect("ours");
        template(&kept, &["a"]).keep(&scratch.data()).expect("it is kept");
        assert!(!kept.join("01d-15.1-a").exists() && kept.join("b00t-a").exists());
    }

    #[test]
    fn other_arguments_and_other_programs_are_another_template() {
        let name = |dir: &Path, argument: &str| {
            let binaries = Binaries { dir: dir.to_owned(), version: "15.1".to_owned(), tree: None };
            Template::within(Path::new("/nowhere"), &binaries, &[argument.to_owned()]).map(|template| template.name)
        };
        let scratch = Scratch::new();
        assert_eq!(name(&scratch.0, "a"), None, "there are no programs");
        for program in ["initdb", "postgres"] {
            fs::write(scratch.0.join(program), "one").expect("ours");
        }
        let first = name(&scratch.0, "a");
        assert!(first.is_some() && first == name(&scratch.0, "a"));
        assert_ne!(first, name(&scratch.0, "b"));
        fs::write(scratch.0.join("postgres"), "another").expect("ours");
        assert_ne!(first, name(&scratch.0, "a"));
    }
}
