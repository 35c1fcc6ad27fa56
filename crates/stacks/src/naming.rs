//! Makes frames for people out of what tools tell: names without hashes and versions, and whose code it is.
//!
//! Promises that a name is one line without control characters, at most [`NAME_CHARS_MAX`] characters long.

use crate::folded::{Frame, Kind};
use crate::limits::NAME_CHARS_MAX;
use crate::stack::{RawFrame, RawStack};

/// Where code of the C library lies, by the beginning of a file's name.
const LIBC: [&str; 9] = ["libc.", "libc-", "ld-", "ld.", "libpthread", "libm.", "libm-", "librt", "[vdso]"];
/// In brackets, and not the kernel's.
const NOT_KERNEL: [&str; 4] = ["[heap]", "[stack]", "[anon]", "[unknown]"];

/// The file of a program whose processes are sampled, and whose code that is.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: String,
    pub(crate) kind: Kind,
}

impl Program {
    /// The calls of a stack, the outermost first, below `above`.
    pub(crate) fn frames(&self, above: &[String], raw: &RawStack) -> Vec<Frame> {
        let label = |name: &String| Frame { name: line(name), kind: Kind::Label };
        let mut frames: Vec<Frame> = above.iter().map(label).collect();
        if raw.is_cut {
            frames.push(Frame { name: "[cut]".to_owned(), kind: Kind::Unknown });
        }
        frames.extend(raw.frames.iter().rev().map(|frame| self.frame(frame)));
        frames
    }

    fn frame(&self, raw: &RawFrame) -> Frame {
        let module = raw.module.as_deref().unwrap_or_default();
        let kind = self.kind_of(module);
        let name = match &raw.function {
            Some(function) => symbol(function),
            None if module.is_empty() => "[unknown]".to_owned(),
            None if module.starts_with('[') => module.to_owned(),
            None => format!("[{}]", file(module)),
        };
        Frame { name: line(&name), kind }
    }

    fn kind_of(&self, module: &str) -> Kind {
        let name = file(module);
        if module.is_empty() || NOT_KERNEL.contains(&module) {
            Kind::Unknown
        } else if module == self.path {
            self.kind
        } else if LIBC.iter().any(|start| name.starts_with(start)) {
            Kind::Libc
        } else if module.starts_with('[') {
            Kind::Kernel
        } else if name == "postgres" || module.contains("/postgresql/") {
            Kind::PostgreSql
        } else {
            Kind::Library
        }
    }
}

fn file(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A function's name: demangled, without the hash of Rust's names and the version of the C library's.
fn symbol(name: &str) -> String {
    let name = name.split_once("@@").map_or(name, |(name, _)| name);
    // Without its hash, if it has one.
    let name = format!("{:#}", rustc_demangle::demangle(name));
    match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => path.to_owned(),
        _ => name,
    }
}

/// A name as one line.
fn line(name: &str) -> String {
    let mut chars = name.chars().map(|letter| if letter.is_control() { '?' } else { letter });
    let mut kept: String = chars.by_ref().take(NAME_CHARS_MAX).collect();
    if chars.next().is_some() {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_symbols() {
        let table = [
            ("WaitLatch", "WaitLatch"),
            ("__libc_start_main@@GLIBC_2.34", "__libc_start_main"),
            ("_ZN6engine4host4Host5round17h06da3da98c8397e0E", "engine::host::Host::round"),
            ("engine::host::Host::round::h06da3da98c8397e0", "engine::host::Host::round"),
            ("_RNvCskwGfYPst2Cb_3foo16example_function", "foo::example_function"),
            ("a::hello", "a::hello"),
            ("finish_task_switch.isra.0", "finish_task_switch.isra.0"),
            ("_Znothing", "_Znothing"),
        ];
        for (name, expected) in table {
            assert_eq!(symbol(name), expected, "{name}");
        }
    }

    #[test]
    fn a_table_of_files() {
        let program = Program { path: "/opt/pgweir".to_owned(), kind: Kind::Pooler };
        let table = [
            ("/opt/pgweir", Kind::Pooler),
            ("/usr/lib/postgresql/15/bin/postgres", Kind::PostgreSql),
            ("/usr/lib/postgresql/15/lib/postgis-3.so", Kind::PostgreSql),
            ("/usr/local/pgsql/bin/postgres", Kind::PostgreSql),
            ("/usr/lib/x86_64-linux-gnu/libc.so.6", Kind::Libc),
            ("/lib64/ld-linux-x86-64.so.2", Kind::Libc),
            ("/lib/ld-musl-x86_64.so.1", Kind::Libc),
            ("[vdso]", Kind::Libc),
            ("[kernel.kallsyms]", Kind::Kernel),
            ("[nf_tables]", Kind::Kernel),
            ("/usr/lib/libssl.so.3", Kind::Library),
            ("[heap]", Kind::Unknown),
            ("", Kind::Unknown),
        ];
        for (module, kind) in table {
            assert_eq!(program.kind_of(module), kind, "{module}");
        }
    }

    #[test]
    fn a_stack_begins_with_what_it_is_of_and_names_its_files() {
        let program = Program { path: "/bin/postgres".to_owned(), kind: Kind::PostgreSql };
        let frame = |function: Option<&str>, module: Option<&str>| RawFrame {
            function: function.map(str::to_owned),
            module: module.map(str::to_owned),
            address: None,
        };
        let frames =
            vec![frame(None, None), frame(None, Some("/bin/postgres")), frame(Some("main"), Some("/bin/postgres"))];
        let raw = RawStack { frames, is_cut: true, ..RawStack::default() };
        let names: Vec<String> =
            program.frames(&["x\u{1b}[2J\n".to_owned()], &raw).into_iter().map(|frame| frame.name).collect();
        assert_eq!(names, ["x?[2J?", "[cut]", "main", "[postgres]", "[unknown]"]);
        assert_eq!(line(&"a".repeat(1000)).chars().count(), NAME_CHARS_MAX + 1);
    }
}
