//! Queues, their order, and the number of servers: classes, shares, sizes, limits, deadlines, many clients and many databases.

mod classes;
mod counts;
mod databases;
mod deadlines;
mod herd;
mod idle_pools;
mod lanes;
mod limits;
mod many_databases;
mod sharing;
mod sizing;
