//! Reads what `perf script -F comm,pid,tid,ip,sym,dso` prints: a line for each sample, a line for each call below it, an empty line.
//!
//! ```text
//!   worker-1  812/815
//!           13e4e8d engine::host::Host::round (/usr/bin/pgweir)
//!            1098eb clone3 (/usr/lib/x86_64-linux-gnu/libc.so.6)
//! ```
//!
//! Promises to take any text: a line that is neither is passed over. A thread's name may hold spaces and digits.

use crate::stack::{RawFrame, RawStack};

/// What perf puts for the frame where unwinding ended early.
const END_OF_COPY: u64 = u64::MAX;
/// perf's word for what it does not know.
const UNKNOWN: &str = "[unknown]";

/// Makes stacks of lines.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    current: Option<RawStack>,
}

impl Samples {
    /// Takes the next line; a stack that it ends.
    pub(crate) fn line(&mut self, line: &str) -> Option<RawStack> {
        let text = line.trim();
        if text.is_empty() {
            return self.end();
        }
        if !line.starts_with([' ', '\t']) {
            let before = self.end();
            self.current = head(text);
            return before;
        }
        if let (Some(stack), Some(frame)) = (&mut self.current, call(text)) {
            stack.push(frame);
        }
        None
    }

    /// The last one.
    pub(crate) fn end(&mut self) -> Option<RawStack> {
        let mut stack = self.current.take()?;
        stack.place_inlined();
        Some(stack)
    }
}

impl RawStack {
    fn push(&mut self, frame: RawFrame) {
        match frame {
            RawFrame { function: None, address: Some(END_OF_COPY), .. } => self.is_cut = true,
            frame => self.frames.push(frame),
        }
    }

    /// Inlined calls lie where the next real one does.
    fn place_inlined(&mut self) {
        let mut module = None;
        for frame in self.frames.iter_mut().rev() {
            match frame.module.as_deref() {
                Some("inlined") => frame.module.clone_from(&module),
                _ => module.clone_from(&frame.module),
            }
        }
    }
}

/// `comm pid/tid`, from the right: the name may hold anything.
fn head(text: &str) -> Option<RawStack> {
    let (thread, ids) = text.rsplit_once(' ')?;
    let (pid, _) = ids.split_once('/')?;
    Some(RawStack { pid: Some(pid.parse().ok()?), thread: thread.trim().to_owned(), ..RawStack::default() })
}

/// `address function (module)`; the function may hold spaces and brackets, and so may the module's path.
fn call(text: &str) -> Option<RawFrame> {
    let (address, rest) = text.split_once(' ')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let rest = rest.trim_start().strip_suffix(')').unwrap_or(rest);
    let rest = rest.strip_suffix(" (deleted)").unwrap_or(rest);
    let (function, module) = match rest.rfind(" (") {
        Some(end) => (&rest[..end], Some(&rest[end + 2..])),
        None => (rest, None),
    };
    let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty() && text != UNKNOWN);
    Some(RawFrame { function: known(without_offset(function)), module: module.and_then(known), address: Some(address) })
}

/// `name+0x1f` is a place in a function.
fn without_offset(function: &str) -> &str {
    match function.rsplit_once("+0x") {
        Some((name, offset)) if offset.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => function,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<RawStack> {
        let mut reading = Samples::default();
        let mut found: Vec<RawStack> = text.lines().filter_map(|line| reading.line(line)).collect();
        found.extend(reading.end());
        found
    }

    fn drawn(stack: &RawStack) -> String {
        let frame = |frame: &RawFrame| {
            format!("{}@{}", frame.function.as_deref().unwrap_or("?"), frame.module.as_deref().unwrap_or("?"))
        };
        stack.frames.iter().map(frame).collect::<Vec<_>>().join(" < ")
    }

    #[test]
    fn samples_end_with_an_empty_line_or_the_next_one() {
        let text = "postgres 12/12 \n\t  5ce4a2 CreatePortal+0x102 (/usr/lib/postgresql/15/bin/postgres)\n\n\
                    my thread 7 40/41 \n\t  10 main (/bin/x)\nb 50/50\n\t 11 f (/bin/y)\n";
        let found = read(text);
        let heads: Vec<_> = found.iter().map(|stack| (stack.pid, stack.thread.as_str())).collect();
        assert_eq!(heads, [(Some(12), "postgres"), (Some(40), "my thread 7"), (Some(50), "b")]);
        assert_eq!(drawn(&found[0]), "CreatePortal@/usr/lib/postgresql/15/bin/postgres");
        assert_eq!(drawn(&found[2]), "f@/bin/y");
    }

    #[test]
    fn a_table_of_calls() {
        let table = [
            ("1b7d88 [unknown] (/usr/bin/postgres)", "?@/usr/bin/postgres"),
            ("74672d00 [unknown] ([unknown])", "?@?"),
            ("ffffffff8201723b tcp_inbound_hash ([kernel.kallsyms])", "tcp_inbound_hash@[kernel.kallsyms]"),
            ("13e4e8d <a::B as c::D>::e::{{closure}} (/opt/my pooler/pgweir)", "<a::B as c::D>::e::{{closure}}@pgweir"),
            ("1350016 shop::Basket::sum(double, int) (/bin/x)", "shop::Basket::sum(double, int)@/bin/x"),
            ("1350016 main (/usr/bin/pgweir (deleted))", "main@/usr/bin/pgweir"),
            (
                "27304 __libc_start_main@@GLIBC_2.34+0x84 (/lib/libc.so.6)",
                "__libc_start_main@@GLIBC_2.34@/lib/libc.so.6",
            ),
            ("1f operator+ (/bin/x)", "operator+@/bin/x"),
            ("1f lonely", "lonely@?"),
            ("1f a<b>&c (/bin/<x>)", "a<b>&c@/bin/<x>"),
        ];
        for (line, expected) in table {
            let frame = call(line).unwrap_or_else(|| panic!("{line}"));
            let module = frame.module.as_deref().unwrap_or("?").replace("/opt/my pooler/", "");
            assert_eq!(format!("{}@{module}", frame.function.as_deref().unwrap_or("?")), expected, "{line}");
        }
        for line in ["", "nothing", "xyz main (/bin/x)"] {
            assert_eq!(call(line), None, "{line}");
        }
    }

    #[test]
    fn inlined_calls_lie_in_the_program_that_they_are_inlined_in() {
        let text = "x 1/1 \n\t 1 inner (inlined)\n\t 1 outer (inlined)\n\t 1 real (/bin/x)\n\t 2 main (/bin/y)\n";
        assert_eq!(drawn(&read(text)[0]), "inner@/bin/x < outer@/bin/x < real@/bin/x < main@/bin/y");
    }

    #[test]
    fn a_stack_that_was_longer_than_its_copy_is_cut() {
        let text = "x 1/1 \n\t 1 f (/bin/x)\n\tffffffffffffffff [unknown] ([unknown])\n";
        let found = read(text);
        assert!(found[0].is_cut && found[0].frames.len() == 1, "{found:?}");
    }

    #[test]
    fn lines_that_are_no_sample_are_passed_over() {
        assert_eq!(read("warning: something\n\t 1 f (/bin/x)\n\n\n"), []);
        assert_eq!(read("x 1/1 \n\n").len(), 1, "a sample without a stack is one, too");
        assert_eq!(read("x \u{1b}[2J/1 \n"), []);
    }
}
