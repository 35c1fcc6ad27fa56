//! Measurements: the published tests, and the cost of the observer.

mod observer_cost;
mod published;
