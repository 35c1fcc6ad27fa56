//! Servers, hosts and clients that fail, lie or attack: what the others notice, and what is left behind.

mod evil_clients;
mod evil_servers;
mod faults;
mod hostile;
mod hosts;
