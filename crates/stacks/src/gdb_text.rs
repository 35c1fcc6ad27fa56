//! Reads what gdb prints for `thread apply all bt`.
//!
//! ```text
//!   Thread 2 (Thread 0x7f9bb681ea80 (LWP 815) "worker-1"):
//!   #0  0x00007f9bb6b28ef3 in epoll_wait (epfd=...) at ../sysdeps/unix/sysv/linux/epoll_wait.c:30
//!   #1  0x00005607c750d13e in WaitEventSetWait ()
//! ```
//!
//! Promises to take any text: what is no call is passed over. Arguments are dropped, which may hold what clients have sent.

use crate::stack::{RawFrame, RawStack};

/// gdb's word for what it does not know.
const UNKNOWN: &str = "??";
/// gdb's last line for a stack that is longer than it was told to print, or that it could not follow.
const CUTS: [&str; 2] = ["(More stack frames follow", "Backtrace stopped:"];

/// Makes stacks of lines.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    threads: Vec<RawStack>,
}

impl Threads {
    /// Takes the next line.
    pub(crate) fn line(&mut self, line: &str) {
        let text = line.trim();
        if let Some(thread) = thread(text) {
            self.threads.push(RawStack { thread, ..RawStack::default() });
        } else if CUTS.iter().any(|words| text.starts_with(words)) {
            if let Some(stack) = self.threads.last_mut() {
                stack.is_cut = true;
            }
        } else if let (Some(frame), Some(stack)) = (call(text), self.threads.last_mut()) {
            stack.frames.push(frame);
        }
    }

    /// All threads that had calls.
    pub(crate) fn end(&mut self) -> Vec<RawStack> {
        let mut threads = std::mem::take(&mut self.threads);
        threads.retain(|stack| !stack.frames.is_empty());
        for stack in &mut threads {
            // As perf's: the shell's frames around main are not counted as cut.
            stack.is_cut &= !stack.frames.iter().any(|frame| frame.function.as_deref() == Some("main"));
        }
        threads
    }
}

/// The name of a thread, from its line.
fn thread(text: &str) -> Option<String> {
    let rest = text.strip_prefix("Thread ")?.strip_suffix(':')?;
    let number = rest.split(' ').next()?;
    number.parse::<u32>().ok()?;
    let name =
        rest.find(" \"").and_then(|begin| rest[begin + 2..].rfind('"').map(|end| &rest[begin + 2..begin + 2 + end]));
    Some(name.unwrap_or_default().to_owned())
}

/// `#1  0x… in function (arguments) at file:line`, or `from library`; the address is missing at the beginning of a line of code and in inlined calls.
fn call(text: &str) -> Option<RawFrame> {
    let (number, rest) = text.strip_prefix('#')?.split_once(' ')?;
    number.parse::<u32>().ok()?;
    let rest = rest.trim_start();
    let (address, rest) = match rest.strip_prefix("0x").and_then(|rest| rest.split_once(" in ")) {
        Some((address, rest)) => (Some(u64::from_str_radix(address, 16).ok()?), rest),
        None => (None, rest),
    };
    // The last of them: what is before it may be a string that a client has sent.
    let (signature, module) = match (rest.rfind(") at "), rest.rfind(") from ")) {
        (at, Some(from)) if at.is_none_or(|at| at < from) => (&rest[..=from], Some(rest[from + 7..].to_owned())),
        (Some(at), _) => (&rest[..=at], None),
        (None, _) => (rest, None),
    };
    let function = Some(without_arguments(signature).to_owned()).filter(|name| !name.is_empty() && name != UNKNOWN);
    Some(RawFrame { function, module, address })
}

/// Drops the last pair of brackets; a name may hold others. Where they do not match, arguments begin with the first one.
fn without_arguments(signature: &str) -> &str {
    // No arguments, as in <signal handler called>.
    if !signature.ends_with(')') {
        return signature;
    }
    let mut depth = 0_usize;
    for (at, letter) in signature.char_indices().rev() {
        match letter {
            ')' => depth += 1,
            '(' if depth <= 1 => return signature[..at].trim_end(),
            '(' => depth -= 1,
            _ => {}
        }
    }
    signature.split(" (").next().unwrap_or(signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<RawStack> {
        let mut reading = Threads::default();
        text.lines().for_each(|line| reading.line(line));
        reading.end()
    }

    #[test]
    fn a_table_of_calls() {
        type Case = (&'static str, Option<&'static str>, Option<&'static str>, Option<u64>);
        let table: [Case; 12] = [
            ("#1  0x00005607c750d13e in WaitEventSetWait ()", Some("WaitEventSetWait"), None, Some(0x5607_c750_d13e)),
            ("#4  0x00005607c73b6bbf in ?? ()", None, None, Some(0x5607_c73b_6bbf)),
            ("#0  0x1f in poll () from /lib/libc.so.6", Some("poll"), Some("/lib/libc.so.6"), Some(0x1f)),
            ("#0  0x1f in ?? () from /my lib/x.so", None, Some("/my lib/x.so"), Some(0x1f)),
            ("#0  syscall () at ../sysdeps/x86_64/syscall.S:38", Some("syscall"), None, None),
            ("#0  epoll_wait (epfd=..., n=...) at a (b) c.c:30", Some("epoll_wait"), None, None),
            ("#5  0x2 in join<()> () at /rustc/59/thread.rs:241", Some("join<()>"), None, Some(2)),
            (
                "#6  0x2 in a::{{closure}}::h06da3da98c8397e0 () at b.rs:1",
                Some("a::{{closure}}::h06da3da98c8397e0"),
                None,
                Some(2),
            ),
            (
                "#18 0x3 in call_once<(), (dyn FnOnce<(), Output=()> + Send), Global> (self=...) at b.rs:2",
                Some("call_once<(), (dyn FnOnce<(), Output=()> + Send), Global>"),
                None,
                Some(3),
            ),
            ("#2  <signal handler called>", Some("<signal handler called>"), None, None),
            ("#12 main (argc=...) at main.c:1", Some("main"), None, None),
            ("#0  exec (sql=\") from x) at y\") at z.c:9", Some("exec"), None, None),
        ];
        for (line, function, module, address) in table {
            let frame = call(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((frame.function.as_deref(), frame.address), (function, address), "{line}");
            assert_eq!(frame.module.as_deref(), module, "{line}");
        }
        for line in
            ["", "#", "#x  0x1 in f ()", "0x1 in f ()", "30\t../sysdeps/epoll_wait.c: No such file or directory."]
        {
            assert_eq!(call(line), None, "{line}");
        }
    }

    #[test]
    fn each_thread_is_a_stack() {
        let text = "[Thread debugging using libthread_db enabled]\n0x1f in poll () from /lib/libc.so.6\n\n\
                    Thread 2 (Thread 0x7f (LWP 13565) \"my \"end\"\"):\n#0  0x1 in f ()\n#1  0x2 in g ()\n\n\
                    Thread 1 (LWP 7):\n#0  0x3 in main ()\n[Inferior 1 (process 12868) detached]\n";
        let found = read(text);
        let drawn: Vec<_> = found.iter().map(|stack| (stack.thread.as_str(), stack.frames.len())).collect();
        assert_eq!(drawn, [("my \"end\"", 2), ("", 1)]);
    }

    #[test]
    fn a_long_stack_is_cut() {
        let text = "Thread 1 (LWP 7 \"x\"):\n#0  0x1 in f ()\n(More stack frames follow...)\n";
        assert!(read(text)[0].is_cut);
        let text =
            "Thread 1 (LWP 7 \"x\"):\n#0  0x1 in main ()\nBacktrace stopped: previous frame inner to this frame\n";
        assert!(!read(text)[0].is_cut, "whatever is before main");
    }

    #[test]
    fn what_cannot_be_traced_has_no_stacks() {
        assert_eq!(read("ptrace: Operation not permitted.\nNo stack.\n"), []);
        assert_eq!(read("Thread 1 (LWP 7 \"x\"):\n"), []);
    }
}
