//! Which tools there are, what they may do, and what permits more.
//!
//! ```text
//!   perf: on PATH?  kernel.perf_event_paranoid ≤ 2, or CAP_PERFMON, CAP_SYS_ADMIN?     of another user's process: CAP_PERFMON or CAP_SYS_PTRACE
//!   gdb:  on PATH?  kernel.yama.ptrace_scope: 0, or CAP_SYS_PTRACE (1, 2), or never (3)?  of another user's process: CAP_SYS_PTRACE
//! ```
//!
//! Promises words that a person can act on. The kernel has the last word: a sandbox may forbid what is permitted here.

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use crate::tool::Tool;

/// Capabilities, by their number in the kernel's sets.
const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
/// Kernels of Debian and Ubuntu know a level above this that keeps perf for root.
const PARANOID_MAX: i32 = 2;

/// What can be used, or why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    pub perf: Result<(), String>,
    pub gdb: Result<(), String>,
}

/// What this process may do, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rights {
    uid: u32,
    capabilities: u64,
    paranoid: i32,
    /// 0 where there is no Yama.
    ptrace_scope: u32,
}

/// Which tools are installed, and permitted in general.
#[must_use]
pub fn available() -> Available {
    let rights = Rights::here();
    let of = |tool: Tool| installed(tool).and_then(|()| rights.in_general(tool));
    Available { perf: of(Tool::Perf), gdb: of(Tool::Gdb) }
}

/// Whether a tool may look at a process.
///
/// # Errors
/// Why not, and what permits it.
pub fn permitted(tool: Tool, pid: u32) -> Result<(), String> {
    // The directory belongs to root while the process may not be looked at by its own user.
    let owner = fs::metadata(format!("/proc/{pid}")).map_err(|_| format!("process {pid} is gone"))?.uid();
    Rights::here().of_process(tool, pid, owner)
}

fn installed(tool: Tool) -> Result<(), String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut files = env::split_paths(&path).map(|folder| folder.join(tool.as_str()));
    let is_program =
        |file: &PathBuf| fs::metadata(file).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    if files.any(|file| is_program(&file)) {
        return Ok(());
    }
    Err(match tool {
        Tool::Perf => "perf is not installed (Debian: apt install linux-perf; Ubuntu: linux-tools-generic; Fedora, RHEL: dnf install perf)",
        Tool::Gdb => "gdb is not installed (apt install gdb, dnf install gdb)",
    }
    .to_owned())
}

impl Rights {
    fn here() -> Rights {
        let number = |file: &str| fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<i32>().ok());
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let capabilities =
            status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
        Rights {
            uid: rustix::process::geteuid().as_raw(),
            capabilities: capabilities.unwrap_or_default(),
            paranoid: number("/proc/sys/kernel/perf_event_paranoid").unwrap_or(PARANOID_MAX),
            ptrace_scope: number("/proc/sys/kernel/yama/ptrace_scope")
                .and_then(|scope| scope.try_into().ok())
                .unwrap_or(0),
        }
    }

    fn has(&self, capability: u32) -> bool {
        self.capabilities >> capability & 1 == 1
    }

    fn in_general(&self, tool: Tool) -> Result<(), String> {
        let may_perf = self.has(CAP_PERFMON) || self.has(CAP_SYS_ADMIN);
        match tool {
            Tool::Perf if self.paranoid > PARANOID_MAX && !may_perf => Err(format!(
                "perf is not permitted: kernel.perf_event_paranoid is {} (run it as root, or sysctl kernel.perf_event_paranoid={PARANOID_MAX}; in a \
                 container: --cap-add PERFMON)",
                self.paranoid
            )),
            Tool::Gdb if self.ptrace_scope >= 3 => Err(
                "gdb is not permitted: kernel.yama.ptrace_scope is 3, and nobody may trace a process until the next boot".to_owned(),
            ),
            Tool::Gdb if self.ptrace_scope > 0 && !self.has(CAP_SYS_PTRACE) => Err(format!(
                "gdb is not permitted: kernel.yama.ptrace_scope is {} (run it as root, or sysctl kernel.yama.ptrace_scope=0; in a container: --cap-add \
                 SYS_PTRACE)",
                self.ptrace_scope
            )),
            _ => Ok(()),
        }
    }

    fn of_process(&self, tool: Tool, pid: u32, owner: u32) -> Result<(), String> {
        self.in_general(tool)?;
        let may_others = match tool {
            Tool::Perf => self.has(CAP_SYS_PTRACE) || self.has(CAP_PERFMON) || self.has(CAP_SYS_ADMIN),
            Tool::Gdb => self.has(CAP_SYS_PTRACE),
        };
        if may_others || owner == self.uid {
            return Ok(());
        }
        let capability = match tool {
            Tool::Perf => "PERFMON",
            Tool::Gdb => "SYS_PTRACE",
        };
        Err(format!(
            "{} may not look at process {pid}: it belongs to user {owner}, and this is user {} (run it as root or as that user; in a container: \
             --cap-add {capability})",
            tool.as_str(),
            self.uid
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: Rights = Rights { uid: 65534, capabilities: 0, paranoid: 2, ptrace_scope: 0 };

    #[test]
    fn what_is_missing_is_said_with_what_permits_it() {
        let ubuntu = Rights { paranoid: 4, ptrace_scope: 1, ..NOBODY };
        let perf = ubuntu.in_general(Tool::Perf).expect_err("not permitted");
        assert!(
            perf.contains("kernel.perf_event_paranoid is 4") && perf.contains("sysctl kernel.perf_event_paranoid=2"),
            "{perf}"
        );
        let gdb = ubuntu.in_general(Tool::Gdb).expect_err("not permitted");
        assert!(
            gdb.contains("kernel.yama.ptrace_scope is 1") && gdb.contains("sysctl kernel.yama.ptrace_scope=0"),
            "{gdb}"
        );
        let never = Rights { ptrace_scope: 3, capabilities: u64::MAX, ..NOBODY };
        assert!(never.in_general(Tool::Gdb).is_err_and(|why| why.contains("until the next boot")));
    }

    #[test]
    fn capabilities_permit_it() {
        let with = |capability: u32| Rights { capabilities: 1 << capability, paranoid: 4, ptrace_scope: 2, ..NOBODY };
        assert_eq!(with(CAP_PERFMON).of_process(Tool::Perf, 7, 0), Ok(()));
        assert_eq!(with(CAP_SYS_ADMIN).of_process(Tool::Perf, 7, 0), Ok(()));
        assert_eq!(with(CAP_SYS_PTRACE).of_process(Tool::Gdb, 7, 0), Ok(()));
        assert!(with(CAP_PERFMON).of_process(Tool::Gdb, 7, 0).is_err());
    }

    #[test]
    fn a_user_looks_at_processes_of_its_own() {
        for tool in [Tool::Perf, Tool::Gdb] {
            assert_eq!(NOBODY.of_process(tool, 7, 65534), Ok(()));
            let why = NOBODY.of_process(tool, 7, 0).expect_err("root's");
            assert!(why.contains("process 7: it belongs to user 0, and this is user 65534"), "{why}");
        }
        assert_eq!(permitted(Tool::Perf, u32::MAX), Err(format!("process {} is gone", u32::MAX)));
    }
}
