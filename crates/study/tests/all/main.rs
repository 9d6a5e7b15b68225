//! What the studies' backends write, judged by other crates.

mod explained_traps;
