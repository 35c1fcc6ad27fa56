//! Debian's archive, read through settings of our own: source packages and binary packages of one version.
//!
//! Promises: the machine's apt settings and package lists stay as they are; an ordinary user may use it.
//! Does not: install, except what [`install`] is asked for, and only as root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Our own sources, lists and archives in one folder.
#[derive(Debug)]
pub(crate) struct Apt {
    folder: PathBuf,
}

impl Apt {
    /// Asks for the same suites as the machine, source packages too. Errors: there is no apt, or it knows no suite of
    /// Debian's.
    pub(crate) fn open(folder: &Path) -> Result<Apt, String> {
        let mut suites = suites()?;
        if suites.is_empty() && rustix::process::geteuid().is_root() {
            run(Command::new("apt-get").args(["update", "-qq"]))?;
            suites = self::suites()?;
        }
        if suites.is_empty() {
            return Err("apt has no list of Debian's packages yet: run apt-get update as root".to_owned());
        }
        for below in ["lists/partial", "archives/partial"] {
            let below = folder.join(below);
            fs::create_dir_all(&below).map_err(|error| format!("cannot make {}: {error}", below.display()))?;
        }
        let lines: String = suites.iter().map(|suite| format!("deb {suite}\ndeb-src {suite}\n")).collect();
        let apt = Apt { folder: folder.to_owned() };
        fs::write(apt.sources(), lines).map_err(|error| format!("cannot write apt's sources: {error}"))?;
        apt.run("apt-get", &["update", "-qq"], folder)?;
        Ok(apt)
    }

    /// The name of the newest server's package, such as `postgresql-15`.
    pub(crate) fn server_package(&self) -> Result<String, String> {
        let text = self.run("apt-cache", &["depends", "postgresql"], &self.folder)?;
        let names = text.lines().filter_map(|line| line.trim_start_matches([' ', '|']).strip_prefix("Depends: "));
        let numbered = |name: &&str| name.strip_prefix("postgresql-").is_some_and(|rest| rest.parse::<u32>().is_ok());
        names.map(str::trim).find(numbered).map(str::to_owned).ok_or("Debian has no PostgreSQL server".to_owned())
    }

    /// Versions of a source package, newest first as apt lists them.
    pub(crate) fn source_versions(&self, package: &str) -> Result<Vec<String>, String> {
        let text = self.run("apt-cache", &["showsrc", package], &self.folder)?;
        let mut versions: Vec<String> = text
            .lines()
            .filter_map(|line| line.strip_prefix("Version: "))
            .map(|version| version.trim().to_owned())
            .collect();
        versions.dedup();
        Ok(versions)
    }

    /// Fetches the files of a source package into a folder.
    pub(crate) fn fetch_source(&self, package: &str, version: &str, into: &Path) -> Result<(), String> {
        let wanted = format!("{package}={version}");
        self.run("apt-get", &["source", "-qq", "--download-only", &wanted], into).map(drop)
    }

    /// Fetches binary packages of one version into a folder.
    pub(crate) fn fetch_binaries(&self, packages: &[String], version: &str, into: &Path) -> Result<(), String> {
        let wanted: Vec<String> = packages.iter().map(|package| format!("{package}={version}")).collect();
        let words: Vec<&str> = ["download", "-qq"].into_iter().chain(wanted.iter().map(String::as_str)).collect();
        self.run("apt-get", &words, into).map(drop)
    }

    /// The shared libraries that packages depend on.
    pub(crate) fn libraries(&self, packages: &[String]) -> Result<Vec<String>, String> {
        let words: Vec<&str> = ["depends"].into_iter().chain(packages.iter().map(String::as_str)).collect();
        let text = self.run("apt-cache", &words, &self.folder)?;
        let names = text.lines().filter_map(|line| line.trim_start_matches([' ', '|']).strip_prefix("Depends: "));
        Ok(names.filter(|name| name.starts_with("lib") || name.starts_with("zlib")).map(str::to_owned).collect())
    }

    fn sources(&self) -> PathBuf {
        self.folder.join("sources.list")
    }

    fn run(&self, program: &str, words: &[&str], folder: &Path) -> Result<String, String> {
        let place = self.folder.display();
        let options = [
            format!("Dir::Etc::sourcelist={}", self.sources().display()),
            "Dir::Etc::sourceparts=-".to_owned(),
            format!("Dir::State::lists={place}/lists"),
            format!("Dir::Cache={place}"),
            // Our folder may lie where apt's own account cannot go.
            "APT::Sandbox::User=".to_owned(),
            // A mirror that is busy for a moment is no verdict.
            "Acquire::Retries=3".to_owned(),
        ];
        let options = options.iter().flat_map(|option| ["-o", option]);
        run(Command::new(program).args(options).args(words).current_dir(folder))
    }
}

/// `URI RELEASE COMPONENT` of every suite of Debian's that this machine has lists of.
fn suites() -> Result<Vec<String>, String> {
    let format = "$(ORIGIN)|$(REPO_URI) $(RELEASE) $(COMPONENT)";
    let text = run(Command::new("apt-get").args(["indextargets", "--format", format, "Identifier: Packages"]))?;
    let mut suites: Vec<String> =
        text.lines().filter_map(|line| line.strip_prefix("Debian|")).map(str::to_owned).collect();
    suites.sort_unstable();
    suites.dedup();
    Ok(suites)
}

/// Installs packages into the system. Errors: we are not root, with the words to say as root.
pub(crate) fn install(packages: &[String]) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err(format!("missing here; as root: apt-get install {}", packages.join(" ")));
    }
    let quiet = ["install", "-y", "-qq", "--no-install-recommends"];
    run(Command::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive").args(quiet).args(packages)).map(drop)
}

/// Runs a program to its end and returns what it wrote; on failure the last line of its complaint says why.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run {name}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let wrote = text(&output.stdout) + &text(&output.stderr);
    let last = wrote.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it wrote nothing");
    Err(format!("{name}: {}: {last}", output.status))
}
