//! Waits and their causes as pgweir shows them: observer, page, top, report, doctor, profile, traces, metrics and alerts.

mod alerts;
mod blocking;
mod culprits;
mod dashboards;
mod doctor;
mod exporter;
mod held;
mod histograms;
mod live_page;
mod monitoring;
mod night;
mod observer;
mod profile;
mod report;
mod statements;
mod top;
mod traces;
mod usage;
mod why;
