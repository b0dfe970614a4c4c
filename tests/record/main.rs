//! `poolbench record` and `poolbench bundle`: what is recorded, what is refused, and what is left when a
//! recording ends before its time.

#[path = "../common/mod.rs"]
mod common;

mod bundle;
mod disturbed;
mod endings;
mod full_disk;
mod refusals;
mod sessions;
mod sides;
mod stand_in;
mod support;
