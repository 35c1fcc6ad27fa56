//! Who PostgreSQL runs as. It refuses to run as root, so root hands it to an account without privileges.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// An account of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub uid: u32,
    pub gid: u32,
    pub name: String,
}

/// As root: the account that PostgreSQL and pgweir run as, `postgres` if the machine has it, else `nobody`.
/// `None` for an ordinary user (everything runs as that user), and on a machine that has neither account.
#[must_use]
pub fn unprivileged() -> Option<Account> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let passwd = fs::read_to_string("/etc/passwd").ok()?;
    ["postgres", "nobody"].iter().find_map(|name| look_up(&passwd, name))
}

impl Account {
    /// Makes `command` run as this account. The standard library drops root's supplementary groups when it changes the
    /// user, so the child has the account's own group and no other.
    pub fn apply(&self, command: &mut Command) {
        command.gid(self.gid).uid(self.uid);
    }

    /// Gives `path` (not what lies in it) to this account.
    pub(crate) fn take(&self, path: &Path) -> std::io::Result<()> {
        std::os::unix::fs::chown(path, Some(self.uid), Some(self.gid))
    }
}

/// One account out of the text of passwd(5).
fn look_up(passwd: &str, name: &str) -> Option<Account> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    let uid = fields.next()?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    // An account with root's number would defeat the purpose.
    (uid != 0).then(|| Account { uid, gid, name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65533:nobody:/:/usr/sbin/nologin\nodd:x\n";

    #[test]
    fn an_account_is_read_from_passwd() {
        let nobody = Account { uid: 65534, gid: 65533, name: "nobody".to_owned() };
        assert_eq!(look_up(PASSWD, "nobody"), Some(nobody));
    }

    #[test]
    fn unknown_broken_and_privileged_accounts_are_none() {
        for name in ["postgres", "odd", "root", ""] {
            assert_eq!(look_up(PASSWD, name), None, "{name}");
        }
    }

    #[test]
    fn only_root_needs_another_account() {
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(unprivileged().is_some(), is_root);
        assert!(unprivileged().is_none_or(|account| account.uid != 0));
    }
}
