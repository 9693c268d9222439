//! zenoh from peer to peer: who receives listens at the address, who sends connects to it, and there is
//! neither a router nor scouting. Of two that answer each other, both directions share that link, as in
//! zenoh's z_ping and z_pong.
//!
//! Messages block when there is no room (CongestionControl::Block, as in z_pub_thr), and are batched as
//! zenoh does by default; those of a round trip are "express", as in z_ping. They are taken in a callback,
//! in zenoh's own thread, as in z_sub_thr and z_pong: through a channel to another thread came half as
//! many small ones. So there is nothing to poll, and without --blocking it waits as well.
//!
//! With --variant shm zenoh moves messages from 3 KiB on through shared memory, its default where both
//! sides have it. Written by the sender in shared memory, short ones were six times slower.

use caps::{CapSet, Capability};
use compare_harness::{
    Bus, Handler, Inbox, Message, Options, Outlet, Receive, Result, SLEEP_AT_MOST, Stopped, retry,
};
use std::ops::DerefMut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use zenoh::pubsub::{Publisher, Subscriber};
use zenoh::qos::CongestionControl;
use zenoh::sample::Sample;
use zenoh::{Config, Session, Wait};

// By default a link that has had no room for five seconds is closed, and what is on it lost. Readers
// of the comparison stop for so long.
const WAIT_BEFORE_CLOSE_US: &str = "60000000";

pub struct Zenoh {
    session: Session,
}

fn config(options: &Options) -> Result<Config> {
    let mut config = Config::default();
    let endpoint = format!("[\"{}\"]", options.address);
    let (listen, connect) = match options.role.as_str() {
        "receive" | "pong" => (endpoint.as_str(), "[]"),
        _ => ("[]", endpoint.as_str()),
    };
    let shared = (options.variant == "shm").to_string();
    for (name, value) in [
        ("mode", "\"peer\""),
        ("listen/endpoints", listen),
        ("connect/endpoints", connect),
        ("scouting/multicast/enabled", "false"),
        ("scouting/gossip/enabled", "false"),
        // Who sends waits for a subscriber, not for half a second in case that somebody else is found.
        ("open/return_conditions/connect_scouted", "false"),
        ("open/return_conditions/declares", "false"),
        (
            "transport/link/tx/queue/congestion_control/block/wait_before_close",
            WAIT_BEFORE_CLOSE_US,
        ),
        ("transport/shared_memory/enabled", &shared),
    ] {
        config.insert_json5(name, value)?;
    }
    Ok(config)
}

/// zenoh asks for realtime priority for the threads that watch over shared memory. Where a process has one
/// core, they then wait, busy, for what the thread that they have displaced holds, until the kernel
/// stops them after 0.95 s. Who is not root gets no such priority, and has no such stalls.
fn give_up_realtime() -> Result<()> {
    Ok(caps::drop(None, CapSet::Effective, Capability::CAP_SYS_NICE)?)
}

/// The key expression of messages in one direction.
fn key(options: &Options, address: &str) -> &'static str {
    if address == options.reply_address { "back" } else { "to" }
}

impl Bus for Zenoh {
    type Outlet = Publication;

    fn open(options: &Options) -> Result<Self> {
        if options.variant == "shm" {
            give_up_realtime()?;
        }
        Ok(Self { session: zenoh::open(config(options)?).wait()? })
    }

    fn outlet(&self, options: &Options, address: &str, stopped: &Stopped) -> Result<Publication> {
        let publisher = self
            .session
            .declare_publisher(key(options, address))
            .congestion_control(CongestionControl::Block)
            .express(matches!(options.role.as_str(), "ping" | "pong"))
            .wait()?;
        retry(stopped, "could not connect", || Ok(publisher.matching_status().wait()?.matching()))?;
        Ok(Publication { publisher })
    }
}

impl<H: Handler + Send + 'static> Receive<H> for Zenoh {
    type Inbox = Subscription<H>;

    fn inbox(&self, options: &Options, address: &str, handler: H) -> Result<Subscription<H>> {
        let shared = Arc::new(Shared {
            handler: Mutex::new(handler),
            is_due: AtomicBool::new(false),
            due: Condvar::new(),
        });
        let taken = shared.clone();
        let subscriber = self
            .session
            .declare_subscriber(key(options, address))
            .callback(move |sample| taken.take(&sample))
            .wait()?;
        Ok(Subscription { _subscriber: subscriber, shared })
    }
}

/// What the threads of zenoh and this one share.
struct Shared<H> {
    handler: Mutex<H>,
    is_due: AtomicBool, // poll() returns; changed under the mutex
    due: Condvar,
}

impl<H: Handler> Shared<H> {
    fn take(&self, sample: &Sample) {
        // A long one comes in pieces, which this puts together.
        let message = sample.payload().to_bytes();
        let mut handler = self.lock();
        if handler.take(&message) {
            self.is_due.store(true, Ordering::Relaxed);
            drop(handler);
            self.due.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, H> {
        self.handler.lock().expect("no handler panics")
    }
}

pub struct Subscription<H> {
    _subscriber: Subscriber<()>,
    shared: Arc<Shared<H>>,
}

impl<H: Handler> Inbox<H> for Subscription<H> {
    fn poll(&mut self) -> Result<()> {
        let shared = &self.shared;
        let is_not_due = |_: &mut H| !shared.is_due.swap(false, Ordering::Relaxed);
        let waited = shared.due.wait_timeout_while(shared.lock(), SLEEP_AT_MOST, is_not_due);
        drop(waited.expect("no handler panics"));
        Ok(())
    }

    fn handler(&mut self) -> impl DerefMut<Target = H> {
        self.shared.lock()
    }
}

pub struct Publication {
    publisher: Publisher<'static>,
}

impl Outlet for Publication {
    fn send(&mut self, message: &Message) -> Result<bool> {
        let length = message.length();
        let mut bytes = Vec::with_capacity(length);
        message.write_to(&mut bytes.spare_capacity_mut()[..length]);
        // SAFETY: write_to() has written each byte.
        unsafe { bytes.set_len(length) };
        self.publisher.put(bytes).wait()?;
        Ok(true)
    }

    /// Closing does not wait for what is queued; the receiver ends when it has all.
    fn finish(&mut self, stopped: &Stopped) -> Result<()> {
        retry(stopped, "the receiver does not end", || {
            Ok(!self.publisher.matching_status().wait()?.matching())
        })
    }
}
