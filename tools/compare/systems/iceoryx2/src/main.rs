//! The harness of iceoryx2 in the comparison: one role of one run.

mod bus;

fn main() -> std::process::ExitCode {
    compare_harness::run::<bus::Iceoryx2>()
}
