//! The manual's section Framework ScaleUp/ScaleDown: its example step by step, every way to rescale, every
//! moment at which one may, and its strong safety guarantees over all that happened meanwhile.

mod guarantees;
mod rescale;
mod stand;
