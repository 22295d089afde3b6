//! Pages, comparisons and plans from reports, without a cluster and with a real browser.

mod admission;
mod browser;
mod capacity;
mod commands;
mod compare;
mod limits;
mod page;
mod plan;
mod sample;
mod saved;
