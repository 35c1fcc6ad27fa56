//! `watch_config` from outside: files that change while the program runs.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::process::Signal;

mod stage;

use stage::{Console, Place, Running, wait_until};

fn set(name: &str, value: &str) -> String {
    format!("{name}|{value}")
}

/// What SHOW CONFIG has for a setting, with its name.
fn shown(console: &mut Console, name: &str) -> String {
    let rows = console.ask("show config");
    let row = rows.iter().find(|row| row.split('|').next() == Some(name)).expect("a setting");
    row.split('|').take(2).collect::<Vec<_>>().join("|")
}

fn becomes(console: &mut Console, name: &str, value: &str) {
    wait_until(&format!("{name} = {value}"), || (shown(console, name) == set(name, value)).then_some(()));
}

fn changes(place: &Place) -> usize {
    place.log().matches("has changed, re-reading config").count()
}

/// A volume of Kubernetes: names are links to what is behind `..data`, which is a link to the newest directory.
struct Volume<'a> {
    place: &'a Place,
    current: Option<String>,
}

impl Volume<'_> {
    /// As the kubelet does it: a new directory, then the link to it, at once.
    fn publish(&mut self, version: &str, more: &str) {
        let dir = self.place.path(version);
        fs::create_dir(&dir).expect("a new version");
        let here = self.place.0.display();
        let ini = format!(
            "[databases]\n%include {here}/databases.ini\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = {here}\n\
             auth_type = trust\nauth_file = {here}/users.txt\nadmin_users = adm\nlogfile = {here}/log\nworkers = 1\n\
             watch_config = 1\n{more}\n"
        );
        fs::write(dir.join("pgweir.ini"), ini).expect("it is ours");
        fs::write(dir.join("databases.ini"), format!("{} = host=127.0.0.1 port=1\n", &version[2..])).expect("ours");
        fs::write(dir.join("users.txt"), "\"adm\" \"\"\n").expect("it is ours");
        symlink(version, self.place.path("..data_tmp")).expect("there is none");
        fs::rename(self.place.path("..data_tmp"), self.place.path("..data")).expect("a link");
        match self.current.replace(version.to_owned()) {
            Some(old) => fs::remove_dir_all(self.place.path(&old)).expect("nobody needs it any more"),
            None => {
                for name in ["pgweir.ini", "databases.ini", "users.txt"] {
                    let link = self.place.path(name);
                    let _ = fs::remove_file(&link);
                    symlink(format!("..data/{name}"), link).expect("removed before");
                }
            }
        }
    }
}

fn databases(console: &mut Console) -> Vec<String> {
    let rows = console.ask("show databases");
    rows.iter().map(|row| row.split('|').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_volume_of_kubernetes_that_is_renewed_is_one_reload() {
    let place = Place::new();
    let mut volume = Volume { place: &place, current: None };
    volume.publish("..v1", "default_pool_size = 11");
    let _running = place.start();
    let mut console = place.console("adm");
    assert_eq!(shown(&mut console, "default_pool_size"), set("default_pool_size", "11"));
    assert!(databases(&mut console).contains(&"v1".to_owned()));
    for (version, size) in [("..v2", "12"), ("..v3", "13")] {
        volume.publish(version, &format!("default_pool_size = {size}"));
        becomes(&mut console, "default_pool_size", size);
        let names = databases(&mut console);
        assert!(names.contains(&version[2..].to_owned()) && !names.contains(&"v1".to_owned()), "{names:?}");
    }
    assert_eq!(changes(&place), 2, "all files of a volume are one change: {}", place.log());
}

/// With a file of users beside the ini file.
fn watched(place: &Place) -> (Running, Console) {
    place.write_ini("watch_config = 1\ndefault_pool_size = 11");
    let running = place.start();
    let console = place.console("adm");
    (running, console)
}

#[test]
fn files_that_are_written_to_in_place_and_files_that_are_named_count() {
    let place = Place::new();
    let (_running, mut console) = watched(&place);
    // As long as before.
    place.write_ini("watch_config = 1\ndefault_pool_size = 12");
    becomes(&mut console, "default_pool_size", "12");
    fs::write(place.path("users.txt"), "\"adm\" \"\"\n\"sta\" \"\"\n\"new\" \"\"\n").expect("it is ours");
    wait_until("the user", || console.ask("show users").iter().any(|row| row.starts_with("new|")).then_some(()));
    assert!(place.log().contains("users.txt has changed, re-reading config"), "{}", place.log());
    assert_eq!(changes(&place), 2, "{}", place.log());
}

#[test]
fn a_file_that_is_wrong_leaves_all_as_it_was_until_it_is_mended() {
    let place = Place::new();
    let (_running, mut console) = watched(&place);
    place.write_ini("watch_config = 1\ndefault_pool_size = 12\nfrob = 1");
    wait_until("the mistake", || place.log().contains("config file loading failed").then_some(()));
    assert_eq!(shown(&mut console, "default_pool_size"), set("default_pool_size", "11"));
    // A file that the wrong one has named is not there yet.
    place.write_ini("watch_config = 1\n%include more.ini");
    let more = place.path("more.ini");
    place.write_ini(&format!("watch_config = 1\n%include {}", more.display()));
    wait_until("the missing file", || place.log().contains("more.ini").then_some(()));
    fs::write(&more, "default_pool_size = 13\n").expect("it is ours");
    becomes(&mut console, "default_pool_size", "13");
}

#[test]
fn files_of_tls_that_were_named_before_they_are_there_are_waited_for() {
    let place = Place::new();
    let (_running, mut console) = watched(&place);
    let (certificate, key) = (place.path("weir.crt"), place.path("weir.key"));
    place.write_ini(&format!(
        "watch_config = 1\ndefault_pool_size = 12\nclient_tls_sslmode = allow\nclient_tls_cert_file = {}\n\
         client_tls_key_file = {}",
        certificate.display(),
        key.display()
    ));
    let failed = || place.log().matches("ERROR TLS setup failed: ").count();
    wait_until("the missing file", || (failed() == 1).then_some(()));
    assert!(place.log().contains("No such file or directory"), "{}", place.log());
    fs::write(&certificate, "no certificate").expect("it is ours");
    fs::write(&key, "no key").expect("it is ours");
    wait_until("a file that cannot be used", || (failed() > 1).then_some(()));
    assert!(place.log().contains("weir.crt has changed, re-reading config"), "{}", place.log());
    assert_eq!(shown(&mut console, "default_pool_size"), set("default_pool_size", "11"));
}

#[test]
fn without_it_a_changed_file_waits_for_a_reload_and_set_turns_it_on() {
    let place = Place::new();
    place.write_ini("default_pool_size = 11");
    let running = place.start();
    let mut console = place.console("adm");
    place.write_ini("default_pool_size = 12\nwatch_config = 1");
    running.signal(Signal::HUP);
    becomes(&mut console, "default_pool_size", "12");
    assert_eq!(changes(&place), 0, "a RELOAD has read it: {}", place.log());
    place.write_ini("default_pool_size = 13\nwatch_config = 0");
    becomes(&mut console, "default_pool_size", "13");
    place.write_ini("default_pool_size = 14\nwatch_config = 0");
    assert_eq!(console.ask("set watch_config = 1"), ["SET watch_config=1"]);
    becomes(&mut console, "default_pool_size", "14");
    // In the order in which it was told.
    let log = place.log();
    let (set, changed) = (log.find("SET watch_config=1"), log.rfind("has changed, re-reading config"));
    assert!(set.is_some() && set < changed, "{log}");
    assert_eq!(changes(&place), 2, "{log}");
}
