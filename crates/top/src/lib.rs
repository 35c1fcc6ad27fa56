//! What `pgweir top` shows: rows of the console and keys to a screen of text.
//!
//! ```text
//!   text ◄── rows ◄── views ◄── choice ◄── looking, orders, rates, words ◄── screen ◄── keys      what a key does
//!                                                                                 ◄── draw, plain  what is seen
//! ```
//!
//! Pure: knows no console, terminal or clock. Promises that nothing a client has chosen, be it a name, a tag or a statement, reaches the terminal
//! as anything but text, or moves a column.

mod choice;
mod draw;
mod keys;
mod looking;
mod orders;
mod plain;
mod rates;
mod rows;
mod screen;
mod text;
mod views;
mod words;

pub use draw::draw;
pub use keys::{Effect, Key};
pub use orders::Order;
pub use plain::text_of;
pub use rows::Table;
pub use screen::{Beginning, Heard, Palette, Refresh, Screen};

#[cfg(test)]
mod tests;
