//! Servers, hosts and clients that fail, lie or attack: the effect on other clients, and on what the pooler keeps afterwards.

mod evil_clients;
mod evil_servers;
mod faults;
mod frozen;
mod hints;
mod hostile;
mod hosts;
mod lost_blocks;
mod managers;
mod others_at_the_primary;
mod outcomes;
mod patroni;
mod roles;
mod untouched_blocks;
