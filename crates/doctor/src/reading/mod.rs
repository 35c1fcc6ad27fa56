//! From answers of PostgreSQL and of a console to facts.
//!
//! Promises that a part that is refused is noted as unseen, and the others are read; that columns are found by their names, so that a console
//! with fewer or more of them is read as far as it goes.

mod answer;
mod console;
mod postgres;

pub use answer::Answer;
pub use console::pooler;
pub use postgres::{PREPARATION, postgres};

use crate::facts::Unseen;

/// Runs one statement. An error is in the server's words, with the SQLSTATE in front of them where it has one.
pub type Ask<'a> = dyn FnMut(&str) -> Result<Answer, String> + 'a;

/// One part: what was made of the answer, or a note why there is none.
fn part<T: Default>(
    ask: &mut Ask<'_>,
    unseen: &mut Vec<Unseen>,
    what: &str,
    sql: &str,
    read: impl FnOnce(&Answer) -> T,
) -> T {
    match ask(sql) {
        Ok(answer) => read(&answer),
        Err(why) => {
            unseen.push(Unseen { what: what.to_owned(), why, mend: None });
            T::default()
        }
    }
}
