//! The user that the process runs as. Root never serves: it becomes another user first, or refuses to start.

use std::fs;

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// An account of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// All groups it is a member of, its own first.
    pub(crate) groups: Vec<u32>,
}

/// Are we root?
pub(crate) fn is_root() -> bool {
    geteuid().is_root()
}

/// Becomes another user for good, unless it is this user already. Linux keeps these ids for each thread, so this must happen while there is only one:
/// those that come later inherit them.
///
/// # Errors
/// A message for the log, as PgBouncer words it.
pub(crate) fn become_user(name: &str) -> Result<(), String> {
    let account = look_up(name).ok_or_else(|| format!("could not find user '{name}' to switch to"))?;
    if !is_root() {
        let is_it = geteuid().as_raw() == account.uid;
        let only_root = || {
            let own = own_name();
            format!(
                "failed to assume identity of user '{name}': only root can; start it as that user, or leave user= out (it runs as '{own}')"
            )
        };
        return if is_it { Ok(()) } else { Err(only_root()) };
    }
    let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    assert_eq!(threads, 1, "a second thread would stay root");
    let failed = |why: rustix::io::Errno| format!("could not become user '{name}': {why}");
    let groups: Vec<Gid> = account.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(account.gid));
    // Groups first: without root's rights they could not be changed any more.
    set_thread_groups(&groups).map_err(failed)?;
    set_thread_res_gid(gid, gid, gid).map_err(failed)?;
    set_thread_res_uid(uid, uid, uid).map_err(failed)
}

/// The name of the process's user; the number of a user whose name the system does not know.
pub(crate) fn own_name() -> String {
    let uid = geteuid().as_raw();
    engine::system_user(uid).ok().flatten().map_or_else(|| uid.to_string(), |name| name.to_string())
}

/// The account that root becomes if no setting names one: without rights, and present on most machines.
pub(crate) fn unprivileged() -> Option<String> {
    let usable = |name: &&str| is_root() && look_up(name).is_some_and(|account| account.uid != 0);
    ["postgres", "nobody"].into_iter().find(usable).map(str::to_owned)
}

/// Whether there is an account with this name.
pub(crate) fn exists(name: &str) -> bool {
    look_up(name).is_some()
}

/// An account by name, from passwd(5) and group(5). Directories on the network (NIS, LDAP) are not asked.
fn look_up(name: &str) -> Option<Account> {
    let passwd = fs::read_to_string("/etc/passwd").ok()?;
    let group = fs::read_to_string("/etc/group").unwrap_or_default();
    account(&passwd, &group, name)
}

fn account(passwd: &str, group: &str, name: &str) -> Option<Account> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    let uid = fields.next()?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    let mut groups = vec![gid];
    for line in group.lines() {
        let mut fields = line.split(':').skip(2);
        let number: Option<u32> = fields.next().and_then(|number| number.parse().ok());
        let is_member = fields.next().is_some_and(|members| members.split(',').any(|member| member == name));
        groups.extend(number.filter(|number| is_member && *number != gid));
    }
    Some(Account { uid, gid, groups })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_its_groups() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nweir:x:70:71::/:/bin/false\nodd:x\n";
        let group = "root:x:0:\nweir:x:71:weir\nssl-cert:x:105:postgres,weir\nothers:x:106:weird\n\n";
        assert_eq!(account(passwd, group, "weir"), Some(Account { uid: 70, gid: 71, groups: vec![71, 105] }));
        assert_eq!(account(passwd, group, "odd"), None);
        assert_eq!(account(passwd, group, "wei"), None);
    }

    #[test]
    fn only_root_needs_another_account() {
        assert_eq!(unprivileged().is_some(), is_root());
    }

    #[test]
    fn an_unknown_user_is_an_error_in_words() {
        let error = become_user("no such user").expect_err("nobody is called that");
        assert_eq!(error, "could not find user 'no such user' to switch to");
    }
}
