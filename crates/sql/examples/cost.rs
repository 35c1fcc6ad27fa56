//! Asks a memo for one text, seen before, many times: what a hit costs is counted from outside.
//!
//! `cost NUMBER TEXT` asks NUMBER times. Instructions of a hit are the difference between two runs, divided:
//! `valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/cost 1000 'select 1'`.
#![expect(clippy::disallowed_methods, reason = "an example is a program: what to ask is an argument")]

use sql::{Key, Memo, Rules, Text};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, number, text] = arguments.as_slice() else { panic!("cost NUMBER TEXT") };
    let number: u64 = number.parse().expect("a number");
    let mut memo = Memo::new(Key::from_seed(number), 1 << 20);
    let mut statements = 0;
    for _ in 0..number {
        let text = Text::new(std::hint::black_box(text.as_bytes()), Rules::default());
        statements += memo.summary(&text).statements();
    }
    println!("{statements}");
}
