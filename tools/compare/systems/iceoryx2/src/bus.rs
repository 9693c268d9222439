//! The two ends of a service of iceoryx2.
//!
//! Messages are slices of words, of which each publisher has room for the longest
//! (AllocationStrategy::Static, the default). Overflow is off and publishers retry until there is
//! room, also a default, so nothing is lost. The buffer of a subscriber holds about BUFFERED_BYTES
//! instead of two messages; between 16 and 4096 messages of 8 to 128 bytes it carried the same, 1.1
//! to 1.3 million a second, most of which time goes into taking samples back. For --blocking there is an event service beside, as in the example
//! "event_based_communication" of iceoryx2: who sends notifies, who receives sleeps on a listener.

use crate::machine::{Stopped, now_ns};
use crate::message::{NUMBER_MASK, fill, first_word};
use crate::options::Options;
use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::port::{BackpressureAction, BackpressureInfo};
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::{event, publish_subscribe};
use std::error::Error;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

type Link = ipc::Service;
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

const BUFFERED_BYTES: u64 = 1 << 20;
const SLEEP_AT_MOST: Duration = Duration::from_millis(50);
const CONNECT_WITHIN_NS: i64 = 10_000_000_000;
const MARKER_WORDS: usize = 2;

pub fn node() -> Result<Node<Link>> {
    set_log_level(LogLevel::Fatal);
    let handled_here = SignalHandlingMode::Disabled;
    Ok(NodeBuilder::new().signal_handling_mode(handled_here).create::<Link>()?)
}

fn messages(
    node: &Node<Link>,
    options: &Options,
    address: &str,
) -> Result<publish_subscribe::PortFactory<Link, [u64], ()>> {
    let buffered = (BUFFERED_BYTES / options.bytes_max).clamp(16, 1024) as usize;
    Ok(node
        .service_builder(&address.try_into()?)
        .publish_subscribe::<[u64]>()
        .enable_safe_overflow(false)
        .subscriber_max_buffer_size(buffered)
        .subscriber_max_borrowed_samples(1)
        .max_publishers(options.senders.max(1))
        .max_subscribers(1)
        .open_or_create()?)
}

fn events(node: &Node<Link>, options: &Options, address: &str) -> Result<event::PortFactory<Link>> {
    Ok(node
        .service_builder(&address.try_into()?)
        .event()
        .max_notifiers(options.senders.max(1))
        .open_or_create()?)
}

pub struct Inbox {
    subscriber: Subscriber<Link, [u64], ()>,
    listener: Option<Listener<Link>>,
}

impl Inbox {
    pub fn new(node: &Node<Link>, options: &Options, address: &str) -> Result<Self> {
        let events = events(node, options, address)?;
        let listener = match options.blocking {
            true => Some(events.listener_builder().create()?),
            false => None,
        };
        let subscriber = messages(node, options, address)?.subscriber_builder().create()?;
        Ok(Self { subscriber, listener })
    }

    /// Hands on what is there and returns how much it was; sleeps when nothing is, if it may.
    pub fn poll(&self, mut handler: impl FnMut(&[u64])) -> Result<u64> {
        const MOST: u64 = 256;
        let mut count = 0;
        while count != MOST
            && let Some(sample) = self.subscriber.receive()?
        {
            handler(sample.payload());
            count += 1;
        }
        if count == 0
            && let Some(listener) = &self.listener
        {
            // A signal ends the wait as an error; the caller knows of it.
            let _ = listener.timed_wait(|_| {}, SLEEP_AT_MOST);
        }
        Ok(count)
    }
}

pub struct Outlet {
    publisher: Publisher<Link, [u64], ()>,
    notifier: Option<Notifier<Link>>,
    claim: bool,
    paced: bool,
    corrupt_every: u64,
    own: Vec<MaybeUninit<u64>>,
    until_ns: Arc<AtomicI64>,
    refused: Arc<AtomicU64>,
}

impl Outlet {
    /// Waits for a receiver.
    pub fn new(
        node: &Node<Link>,
        options: &Options,
        address: &str,
        stopped: &Stopped,
    ) -> Result<Self> {
        let messages = messages(node, options, address)?;
        let refused = Arc::new(AtomicU64::new(0));
        let until_ns = Arc::new(AtomicI64::new(i64::MAX));
        let words = (options.bytes_max / 8).max(MARKER_WORDS as u64) as usize;
        let publisher = messages
            .publisher_builder()
            .initial_max_slice_len(words)
            .max_loaned_samples(1)
            .set_backpressure_handler(retry(&refused, &until_ns, stopped))
            .create()?;
        let deadline = now_ns() + CONNECT_WITHIN_NS;
        while messages.dynamic_config().number_of_subscribers() == 0 {
            if stopped.get() || now_ns() > deadline {
                return Err("could not connect".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let events = events(node, options, address)?;
        let notifier = match events.dynamic_config().number_of_listeners() {
            0 => None,
            _ => Some(events.notifier_builder().create()?),
        };
        Ok(Self {
            publisher,
            notifier,
            claim: options.claim,
            paced: options.paced,
            corrupt_every: options.corrupt_every,
            own: vec![MaybeUninit::new(0); words],
            until_ns,
            refused,
        })
    }

    /// From then on a message that finds no room is given up.
    pub fn give_up_at(&self, time_ns: i64) {
        self.until_ns.store(time_ns, Ordering::Relaxed);
    }

    /// Messages that found no room at the first try.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Fills in and sends one message; false if there was no room for it in time.
    pub fn send(&mut self, word: u64, words: usize, intended_ns: i64) -> Result<bool> {
        let (paced, corrupt_every) = (self.paced, self.corrupt_every);
        self.put(words, |to| compose(to, word, paced.then_some(intended_ns), corrupt_every))
    }

    /// Sends back what came.
    pub fn echo(&mut self, message: &[u64]) -> Result<bool> {
        self.put(message.len(), |to| {
            to.write_copy_of_slice(message);
        })
    }

    /// Says how many messages there were.
    pub fn end(&mut self, sender: u64, count: u64) -> Result<bool> {
        self.put(MARKER_WORDS, |to| {
            to[0].write(first_word(sender, NUMBER_MASK));
            to[1].write(count);
        })
    }

    fn put(&mut self, words: usize, write: impl FnOnce(&mut [MaybeUninit<u64>])) -> Result<bool> {
        let mut sample = self.publisher.loan_slice_uninit(words)?;
        if self.claim {
            write(sample.payload_mut());
        } else {
            let own = &mut self.own[..words];
            write(own);
            sample.payload_mut().copy_from_slice(own);
        }
        // SAFETY: `write` has written each word, the first of which says so.
        let sent = unsafe { sample.assume_init() }.send();
        let accepted = match sent {
            Ok(receivers) => receivers != 0,
            Err(iceoryx2::port::SendError::UnableToDeliver) => false,
            Err(problem) => return Err(problem.into()),
        };
        if accepted && let Some(notifier) = &self.notifier {
            notifier.notify()?;
        }
        Ok(accepted)
    }
}

/// What a publisher does while there is no room: it waits, as without a handler, but not for ever.
fn retry(
    refused: &Arc<AtomicU64>,
    until_ns: &Arc<AtomicI64>,
    stopped: &Stopped,
) -> impl Fn(&BackpressureInfo) -> BackpressureAction + Send + 'static {
    let (refused, until_ns, stopped) = (refused.clone(), until_ns.clone(), stopped.clone());
    move |info| {
        if info.retries == 0 {
            refused.fetch_add(1, Ordering::Relaxed);
        }
        match stopped.get() || now_ns() > until_ns.load(Ordering::Relaxed) {
            true => BackpressureAction::DiscardDataAndFail,
            false => BackpressureAction::Retry,
        }
    }
}

fn compose(to: &mut [MaybeUninit<u64>], word: u64, intended_ns: Option<i64>, corrupt_every: u64) {
    let mut from = 0;
    if let Some(time) = intended_ns {
        to[0].write(word);
        to[1].write(time as u64);
        from = 2;
    }
    fill(to, from, word);
    if corrupt_every != 0
        && (word & NUMBER_MASK).is_multiple_of(corrupt_every)
        && let Some(last) = to.last_mut()
    {
        // SAFETY: fill() has written it.
        last.write(unsafe { last.assume_init() } ^ 0xff << 56);
    }
}
