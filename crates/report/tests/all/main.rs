//! The integration tests of this crate in one binary, which is linked once.

mod chromium;
mod common;
mod echarts;
mod from_results;
mod page;
mod site;
mod size;
