//! States as a table: which there are, and which ways lead from one to another.
//!
//! [`ways!`](crate::ways!) takes the table, and promises that every state of the type stands in it, that in builds with
//! assertions nothing goes a way that does not, and that the drawing in `docs/states.md` shows the same. What a way does is
//! its function's, beside the table.

/// A state, the function that leads out of it, and the state that it leads to.
pub type Way<'a> = (&'a str, &'a str, &'a str);

/// The ways of an `enum`, drawn in `docs/states.md` under a heading: each state once, and behind it the ways out of it.
/// A function goes one by `go`, which only the module of the table can call.
#[macro_export]
macro_rules! ways {
    ($State:ident, drawn under $heading:literal: $($table:tt)+) => {
        $crate::ways!(@table $State: $($table)+);

        #[cfg(test)]
        #[test]
        fn the_drawing_shows_the_ways() {
            let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/states.md"));
            assert_eq!($crate::ways::drawn(page, $heading), $State::WAYS);
        }
    };
    (@table $State:ident: $($from:ident { $($way:ident => $to:ident),* })+) => {
        impl $State {
            const WAYS: &[$crate::ways::Way<'static>] =
                &[$($((stringify!($from), stringify!($way), stringify!($to)),)*)+];

            /// Without what belongs to it, as it is drawn.
            fn name(&self) -> &'static str {
                match self {
                    $($State::$from { .. } => stringify!($from),)+
                }
            }

            #[inline]
            fn go(&mut self, way: &str, to: $State) {
                debug_assert!(
                    $State::WAYS.contains(&(self.name(), way, to.name())),
                    "{way} does not lead from {self:?} to {to:?}"
                );
                *self = to;
            }
        }
    };
}

/// The ways that a page of Markdown draws under a heading, in their order; where they begin and end is none.
pub fn drawn<'p>(page: &'p str, heading: &str) -> Vec<Way<'p>> {
    let behind = page.lines().skip_while(|line| line.strip_prefix("## ") != Some(heading)).skip(1);
    let section = behind.take_while(|line| !line.starts_with("## "));
    let way = |line: &'p str| {
        let (from, rest) = line.trim().split_once(" --> ")?;
        let (to, way) = rest.split_once(": ")?;
        Some((from, way, to))
    };
    section.filter_map(way).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    enum Lock {
        Open,
        Shut { turns: u8 },
    }

    ways! {@table Lock:
        Open { shut => Shut }
        Shut { shut => Shut, unlock => Open }
    }

    #[test]
    fn a_way_of_the_table_is_gone() {
        let mut lock = Lock::Open;
        lock.go("shut", Lock::Shut { turns: 1 });
        lock.go("shut", Lock::Shut { turns: 2 });
        assert_eq!(lock, Lock::Shut { turns: 2 });
        lock.go("unlock", Lock::Open);
        assert_eq!(lock, Lock::Open);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "unlock does not lead from Open to Shut { turns: 1 }")]
    fn another_is_not() {
        Lock::Open.go("unlock", Lock::Shut { turns: 1 });
    }

    #[test]
    fn a_drawing_is_of_its_heading() {
        let page = "## Locks\n    [*] --> Open\n    Open --> Shut: shut\n* **Open**: a word\n## Doors\n    Open --> Shut: slam\n";
        assert_eq!(drawn(page, "Locks"), [("Open", "shut", "Shut")]);
        assert_eq!(drawn(page, "Doors"), [("Open", "slam", "Shut")]);
        assert_eq!(drawn(page, "Windows"), []);
    }
}
