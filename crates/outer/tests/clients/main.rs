//! Other people's programs, and the manual's examples and recipes.

mod drivers;
mod examples;
mod recipes;
mod tools;
