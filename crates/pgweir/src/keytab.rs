//! `auth_gss_keytab`: where the library of Kerberos finds this machine's keys.
//!
//! It looks into its environment and nowhere else, and no safe Rust changes that of a running process. So the program starts itself
//! again: the same process, arguments and descriptors, with the variable set.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

const VARIABLE: &str = "KRB5_KTNAME";

/// First thing, while nothing has begun: sees to it that the environment names this keytab. It returns if it does.
///
/// # Errors
/// The program could not be started again.
pub(crate) fn name(keytab: &str) -> io::Result<()> {
    if keytab.is_empty() || std::env::var_os(VARIABLE).is_some_and(|named| named == keytab) {
        return Ok(());
    }
    let mut command = Command::new(std::env::current_exe()?);
    if let Some(name) = std::env::args_os().next() {
        command.arg0(name);
    }
    Err(command.args(std::env::args_os().skip(1)).env(VARIABLE, keytab).exec())
}
