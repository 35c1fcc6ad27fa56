//! Checks what a start needs on this machine besides valid settings: TLS files, folders, a user, addresses. `check` and `import` use it, so that
//! they refuse each file that the start refuses. It creates nothing. As root it becomes the user of the file first, whose rights count.
//!
//! It does not check ports and sockets in use or a full disk: these may differ when the process starts.

use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use ::settings::Key;
use config::{Config, Problem};
use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::{complain, identity, keyring, settings};

/// Returns an error for each setting that keeps a process from starting here.
pub(crate) fn problems(config: &Config) -> Vec<Problem> {
    let global = &config.pooling.global;
    let mut problems = Vec::new();
    let mut refuse = |key: Key, found: &str, expected: &str| problems.push(config.refused(key, found, expected));
    let user = global.listening.user.as_deref();
    match user {
        Some(user) if !identity::exists(user) => refuse(Key::user, &quoted(user), "a user of this system"),
        Some(user) if identity::is_root() => {
            if let Err(why) = identity::become_user(user) {
                refuse(Key::user, &format!("{} ({why})", quoted(user)), "a user that root can become");
            }
        }
        _ => {}
    }
    // This process cannot find out what another user may read and write.
    let is_judged = identity::is_root() || user.is_none_or(|user| user == identity::own_name());
    if let Err(words) = keyring::read(&global.tls)
        && (is_judged || !words.contains("Permission denied"))
    {
        let (key, why) = words.split_once(": ").unwrap_or((Key::client_tls_cert_file.name(), &words));
        let key = ::settings::table::find(key).map_or(Key::client_tls_cert_file, |setting| setting.key);
        refuse(key, &format!("no usable file: {why}"), "files that can be used together");
    }
    let files = [(Key::logfile, &global.log.logfile), (Key::pidfile, &global.listening.pidfile)];
    for (key, file) in files {
        if let Some(file) = file
            && let Err(why) = is_writable(Path::new(file), is_judged)
        {
            refuse(key, &format!("{} ({})", quoted(file), complain::why(&why)), "a file that can be written");
        }
    }
    let dir = global.listening.unix_socket_dir.as_ref().filter(|dir| !dir.starts_with('@'));
    if let Some(dir) = dir
        && let Err(why) = takes_files(Path::new(dir), is_judged)
    {
        let found = format!("{} ({})", quoted(dir), complain::why(&why));
        refuse(Key::unix_socket_dir, &found, "a folder that is there, and can be written to");
    }
    let group = Some(&global.listening.unix_socket_group).filter(|group| !group.is_empty() && dir.is_some());
    if let Some(group) = group
        && let Err(why) = engine::probe_group(group)
        && (is_judged || why.kind() == io::ErrorKind::NotFound)
    {
        let found = format!("{} ({})", quoted(group), complain::why(&why));
        refuse(Key::unix_socket_group, &found, "a group of this system that the user is a member of");
    }
    if let Some(file) = settings::names(global).resolv_conf
        && let Err(why) = names::probe_resolv_conf(&file)
    {
        refuse(
            Key::resolv_conf,
            &format!("no usable file: {}", complain::why(&why)),
            "a file that names a name server",
        );
    }
    if global.listening.listen_addr.is_empty() && global.listening.unix_socket_dir.is_none() {
        refuse(Key::listen_addr, "nothing", "an address, or unix_socket_dir: nobody could connect");
    }
    addresses(config, refuse);
    problems
}

/// Checks listen_addr and http_listen, and calls `refuse` for each address that this machine does not have.
fn addresses(config: &Config, mut refuse: impl FnMut(Key, &str, &str)) {
    let global = &config.pooling.global;
    let listening = engine::probe(&global.listening.listen_addr, global.listening.listen_port);
    let taken = listening.unwrap_or_else(|error| {
        let found = format!("{} ({})", quoted(&error.place), error.why);
        refuse(Key::listen_addr, &found, "an address of this machine");
        Vec::new()
    });
    for address in &global.console.http_listen {
        let is_same = |one: &SocketAddr| taken.iter().any(|other| collide(*one, *other));
        match monitor::probe(address) {
            Ok(found) if found.iter().any(is_same) => {
                refuse(Key::http_listen, &quoted(address), "another port than listen_port");
            }
            Ok(_) => {}
            Err(why) => {
                let found = format!("{} ({})", quoted(address), complain::why(&why));
                refuse(Key::http_listen, &found, "an address of this machine");
            }
        }
    }
}

/// Whether two sockets cannot be listened on at once. Port 0 is any that is free.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let is_one = one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && one.port() != 0 && one.is_ipv4() == other.is_ipv4() && is_one
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// Whether a file can be written. Does not create it. `is_judged`: it is known whose rights count.
fn is_writable(file: &Path, is_judged: bool) -> io::Result<()> {
    match fs::metadata(file) {
        Ok(_) if !is_judged => Ok(()),
        Ok(_) => File::options().append(true).open(file).map(drop),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            takes_files(folder, is_judged)
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_judged => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether files can be created in a folder, or the service manager may create it when it starts the service: `RuntimeDirectory=` of
/// systemd.exec(5).
fn takes_files(folder: &Path, is_judged: bool) -> io::Result<()> {
    if folder.starts_with("/run") || folder.starts_with("/var/run") {
        return Ok(());
    }
    match fs::metadata(folder) {
        Ok(found) if !found.is_dir() => return Err(io::ErrorKind::NotADirectory.into()),
        Ok(_) if !is_judged => return Ok(()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_judged => return Ok(()),
        Err(error) => return Err(error),
    }
    accessat(CWD, folder, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).map_err(io::Error::from)
}
