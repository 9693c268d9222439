//! Time, processor time, and the request of others that this process ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn clock_ns(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of this frame.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

pub fn now_ns() -> i64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Used by all threads of this process.
pub fn cpu_ns() -> i64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// True from SIGTERM on.
#[derive(Clone)]
pub struct Stopped(Arc<AtomicBool>);

impl Stopped {
    pub fn watch() -> std::io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGTERM, flag.clone())?;
        Ok(Self(flag))
    }

    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
