//! What is made of reports: pages, comparisons, plans. No cluster takes part, a real browser does.

mod admission;
mod browser;
mod capacity;
mod commands;
mod compare;
mod page;
mod plan;
mod sample;
mod saved;
