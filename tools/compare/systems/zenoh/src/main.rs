//! The harness of zenoh in the comparison: one role of one run.

mod bus;

fn main() -> std::process::ExitCode {
    compare_harness::run::<bus::Zenoh>()
}
