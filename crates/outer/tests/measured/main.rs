//! What measures: the published tests, and what the observer costs.

mod observer_cost;
mod published;
