//! How it gets done: watches, cache, ready set, writes, budget, metrics. The only async crate that ships.
