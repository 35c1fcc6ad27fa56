//! A table of states and of the transitions between them.
//!
//! [`transitions!`](crate::transitions!) takes the table, and promises that every state of the type is in it, that in builds
//! with assertions there is no other transition, and that the drawing in `docs/states.md` shows the same. What a transition
//! does is written in its function, beside the table.

/// A state, the function that leads out of it, and the state that it leads to.
pub type Transition<'a> = (&'a str, &'a str, &'a str);

/// The transitions of an `enum`, drawn in `docs/states.md` under a heading: each state once, with the transitions out of it.
/// A function makes one by `go`, which only the module of the table can call.
#[macro_export]
macro_rules! transitions {
    ($State:ident, drawn under $heading:literal: $($table:tt)+) => {
        $crate::transitions!(@table $State: $($table)+);

        #[cfg(test)]
        #[test]
        fn the_drawing_shows_the_transitions() {
            let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/states.md"));
            assert_eq!($crate::transitions::drawn(page, $heading), $State::TRANSITIONS);
        }
    };
    (@table $State:ident: $($from:ident { $($by:ident => $to:ident),* })+) => {
        impl $State {
            const TRANSITIONS: &[$crate::transitions::Transition<'static>] =
                &[$($((stringify!($from), stringify!($by), stringify!($to)),)*)+];

            /// The name in the drawing.
            fn name(&self) -> &'static str {
                match self {
                    $($State::$from { .. } => stringify!($from),)+
                }
            }

            #[inline]
            fn go(&mut self, by: &str, to: $State) {
                debug_assert!(
                    $State::TRANSITIONS.contains(&(self.name(), by, to.name())),
                    "{by} does not lead from {self:?} to {to:?}"
                );
                *self = to;
            }
        }
    };
}

/// The transitions that a page of Markdown draws under a heading, in their order, but for the first and the last of a life.
pub fn drawn<'p>(page: &'p str, heading: &str) -> Vec<Transition<'p>> {
    let behind = page.lines().skip_while(|line| line.strip_prefix("## ") != Some(heading)).skip(1);
    let section = behind.take_while(|line| !line.starts_with("## "));
    let transition = |line: &'p str| {
        let (from, rest) = line.trim().split_once(" --> ")?;
        let (to, by) = rest.split_once(": ")?;
        Some((from, by, to))
    };
    section.filter_map(transition).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    enum Lock {
        Open,
        Shut { turns: u8 },
    }

    transitions! {@table Lock:
        Open { shut => Shut }
        Shut { shut => Shut, unlock => Open }
    }

    #[test]
    fn a_transition_of_the_table_is_made() {
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
