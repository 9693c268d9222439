//! What a harness written in Rust does, for any system: the same work, options and figures as those in
//! C++, tools/compare/harness.

mod account;
mod bus;
mod machine;
mod message;
mod options;
mod roles;

pub use bus::{Bus, Handler, Inbox, Outlet, Receive, Result, SLEEP_AT_MOST, retry};
pub use machine::{Stopped, now_ns};
pub use message::{MARKER_BYTES, Message};
pub use options::Options;
pub use roles::run;
