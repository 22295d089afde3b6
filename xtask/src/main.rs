//! The project's commands: `cargo xtask demo`, `cargo xtask test`, `cargo xtask cluster up|down`.

fn main() {}
