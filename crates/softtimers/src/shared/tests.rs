//! Tests with loom (`RUSTFLAGS="--cfg loom"`), and the same on real threads.

#[cfg(loom)]
mod every_interleaving;
#[cfg(not(loom))]
mod threads;
