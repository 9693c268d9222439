//! What the harness asks of a system.

use crate::machine::{Stopped, now_ns};
use crate::message::Message;
use crate::options::Options;
use std::error::Error;
use std::ops::DerefMut;
use std::time::Duration;

pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

pub const SLEEP_AT_MOST: Duration = Duration::from_millis(50);
const RETRY_FOR_NS: i64 = 10_000_000_000;

/// What this process has of a system, for all that it receives and sends.
pub trait Bus: Sized {
    type Outlet: Outlet;

    fn open(options: &Options) -> Result<Self>;
    /// Waits for a receiver.
    fn outlet(&self, options: &Options, address: &str, stopped: &Stopped) -> Result<Self::Outlet>;
}

/// For all handlers, or, where threads of the system call them, for those that can be sent there.
pub trait Receive<H: Handler>: Bus {
    type Inbox: Inbox<H>;

    fn inbox(&self, options: &Options, address: &str, handler: H) -> Result<Self::Inbox>;
}

/// Takes what arrives.
pub trait Handler {
    /// True if poll() should return, for its caller to look at the handler.
    fn take(&mut self, message: &[u8]) -> bool;
}

pub trait Inbox<H> {
    /// Hands on what is there, if the system does not do so by itself. When nothing is, sleeps for at
    /// most SLEEP_AT_MOST if --blocking was given, or if there is nothing to poll.
    fn poll(&mut self) -> Result<()>;

    /// While this is held, nothing is taken.
    fn handler(&mut self) -> impl DerefMut<Target = H>;
}

pub trait Outlet {
    /// Waits for room; false if there was none in time.
    fn send(&mut self, message: &Message) -> Result<bool>;

    /// From then on a message that finds no room is given up, where the system lets one do so.
    fn give_up_at(&mut self, _time_ns: i64) {}

    /// Messages that found no room at the first try, where the system tells.
    fn refused(&self) -> u64 {
        0
    }

    /// What was accepted no longer needs this process when it returns.
    fn finish(&mut self, _stopped: &Stopped) -> Result<()> {
        Ok(())
    }
}

/// Asks again and again until it is so; fails with these words when that takes too long.
pub fn retry(
    stopped: &Stopped,
    otherwise: &str,
    mut is_so: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let deadline = now_ns() + RETRY_FOR_NS;
    while !is_so()? {
        if stopped.get() || now_ns() > deadline {
            return Err(otherwise.into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
