//! Checks what a start needs on this machine besides valid settings: TLS files, folders, a user. `check` and `import` use it, so that they
//! refuse each file that the start refuses. It changes nothing.
//!
//! It does not check ports and sockets in use or a full disk: these may differ when the process starts.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use ::settings::Key;
use config::{Config, Problem};

use crate::{complain, identity, keyring};

/// Returns an error for each setting that keeps a process from starting here.
pub(crate) fn problems(config: &Config) -> Vec<Problem> {
    let global = &config.pooling.global;
    let mut problems = Vec::new();
    let mut refuse = |key: Key, found: &str, expected: &str| problems.push(config.refused(key, found, expected));
    if let Err(words) = keyring::read(&global.tls) {
        let (key, why) = words.split_once(": ").unwrap_or((Key::client_tls_cert_file.name(), &words));
        let key = ::settings::table::find(key).map_or(Key::client_tls_cert_file, |setting| setting.key);
        refuse(key, &format!("no usable file: {why}"), "files that can be used together");
    }
    if let Some(user) = &global.listening.user
        && !identity::exists(user)
    {
        refuse(Key::user, &quoted(user), "a user of this system");
    }
    if let Some(file) = &global.log.logfile
        && let Some(why) = unwritable(Path::new(file))
    {
        refuse(Key::logfile, &format!("{} ({why})", quoted(file)), "a file that can be written");
    }
    if let Some(file) = &global.listening.pidfile
        && let Some(why) = unwritable(Path::new(file))
    {
        refuse(Key::pidfile, &format!("{} ({why})", quoted(file)), "a file that can be written");
    }
    let dir = global.listening.unix_socket_dir.as_ref().filter(|dir| !dir.starts_with('@'));
    if let Some(dir) = dir
        && let Err(why) = is_folder(Path::new(dir))
        && !is_made_at_the_start(Path::new(dir))
    {
        refuse(Key::unix_socket_dir, &format!("{} ({})", quoted(dir), complain::why(&why)), "a folder that is there");
    }
    if global.listening.listen_addr.is_empty() && global.listening.unix_socket_dir.is_none() {
        refuse(Key::listen_addr, "nothing", "an address, or unix_socket_dir: nobody could connect");
    }
    problems
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// Why a file cannot be written; `None`: it can. Does not create it.
fn unwritable(file: &Path) -> Option<String> {
    let found = match fs::metadata(file) {
        Ok(_) => File::options().append(true).open(file).map(drop),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            is_folder(folder).or_else(|error| if is_made_at_the_start(folder) { Ok(()) } else { Err(error) })
        }
        Err(error) => Err(error),
    };
    found.err().map(|error| complain::why(&error))
}

/// Whether the service manager may create a folder when it starts the service: `RuntimeDirectory=` of systemd.exec(5).
fn is_made_at_the_start(folder: &Path) -> bool {
    folder.starts_with("/run") || folder.starts_with("/var/run")
}

fn is_folder(path: &Path) -> io::Result<()> {
    match fs::metadata(path)?.is_dir() {
        true => Ok(()),
        false => Err(io::ErrorKind::NotADirectory.into()),
    }
}
