//! The two ends of a service of iceoryx2.
//!
//! Messages are slices of bytes, aligned as words, of which each publisher has room for the longest
//! (AllocationStrategy::Static, the default). Overflow is off and publishers retry until there is
//! room, also a default, so nothing is lost. The buffer of a subscriber holds about BUFFERED_BYTES
//! instead of two messages; between 16 and 4096 messages of 8 to 128 bytes it carried the same, 1.1
//! to 1.3 million a second, most of which time goes into taking samples back. For --blocking there is
//! an event service beside, as in the example "event_based_communication" of iceoryx2: who sends
//! notifies, who receives sleeps on a listener.

use compare_harness::{
    Bus, Handler, Inbox, MARKER_BYTES, Message, Options, Outlet, Receive, Result, SLEEP_AT_MOST,
    Stopped, now_ns, retry,
};
use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::port::{BackpressureAction, BackpressureInfo, SendError};
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::{event, publish_subscribe};
use std::mem::MaybeUninit;
use std::ops::DerefMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

type Link = ipc::Service;

const BUFFERED_BYTES: u64 = 1 << 20;

pub struct Iceoryx2 {
    node: Node<Link>,
}

impl Iceoryx2 {
    fn messages(
        &self,
        options: &Options,
        address: &str,
    ) -> Result<publish_subscribe::PortFactory<Link, [u8], ()>> {
        let buffered = (BUFFERED_BYTES / options.bytes_max).clamp(16, 1024) as usize;
        Ok(self
            .node
            .service_builder(&address.try_into()?)
            .publish_subscribe::<[u8]>()
            .payload_alignment(Alignment::new(align_of::<u64>()).expect("a power of two"))
            .enable_safe_overflow(false)
            .subscriber_max_buffer_size(buffered)
            .subscriber_max_borrowed_samples(1)
            .max_publishers(options.senders.max(1))
            .max_subscribers(1)
            .open_or_create()?)
    }

    fn events(&self, options: &Options, address: &str) -> Result<event::PortFactory<Link>> {
        Ok(self
            .node
            .service_builder(&address.try_into()?)
            .event()
            .max_notifiers(options.senders.max(1))
            .open_or_create()?)
    }
}

impl Bus for Iceoryx2 {
    type Outlet = Publication;

    fn open(_options: &Options) -> Result<Self> {
        set_log_level(LogLevel::Fatal);
        let handled_here = SignalHandlingMode::Disabled;
        let node = NodeBuilder::new().signal_handling_mode(handled_here).create::<Link>()?;
        Ok(Self { node })
    }

    fn outlet(&self, options: &Options, address: &str, stopped: &Stopped) -> Result<Publication> {
        let messages = self.messages(options, address)?;
        let refused = Arc::new(AtomicU64::new(0));
        let until_ns = Arc::new(AtomicI64::new(i64::MAX));
        let longest = MARKER_BYTES.max(options.bytes_max as usize);
        let publisher = messages
            .publisher_builder()
            .initial_max_slice_len(longest)
            .max_loaned_samples(1)
            .set_backpressure_handler(wait_for_room(&refused, &until_ns, stopped))
            .create()?;
        retry(stopped, "could not connect", || {
            Ok(messages.dynamic_config().number_of_subscribers() != 0)
        })?;
        let events = self.events(options, address)?;
        let notifier = match events.dynamic_config().number_of_listeners() {
            0 => None,
            _ => Some(events.notifier_builder().create()?),
        };
        let own = (!options.claim).then(|| vec![MaybeUninit::uninit(); longest]);
        Ok(Publication { publisher, notifier, own, until_ns, refused })
    }
}

impl<H: Handler> Receive<H> for Iceoryx2 {
    type Inbox = Subscription<H>;

    fn inbox(&self, options: &Options, address: &str, handler: H) -> Result<Subscription<H>> {
        let events = self.events(options, address)?;
        let listener = match options.blocking {
            true => Some(events.listener_builder().create()?),
            false => None,
        };
        let subscriber = self.messages(options, address)?.subscriber_builder().create()?;
        Ok(Subscription { subscriber, listener, handler })
    }
}

pub struct Subscription<H> {
    subscriber: Subscriber<Link, [u8], ()>,
    listener: Option<Listener<Link>>,
    handler: H,
}

impl<H: Handler> Inbox<H> for Subscription<H> {
    fn poll(&mut self) -> Result<()> {
        const MOST: u64 = 256;
        let mut count = 0;
        while count != MOST
            && let Some(sample) = self.subscriber.receive()?
        {
            self.handler.take(sample.payload());
            count += 1;
        }
        if count == 0
            && let Some(listener) = &self.listener
        {
            // A signal ends the wait as an error; the caller knows of it.
            let _ = listener.timed_wait(|_| {}, SLEEP_AT_MOST);
        }
        Ok(())
    }

    fn handler(&mut self) -> impl DerefMut<Target = H> {
        &mut self.handler
    }
}

pub struct Publication {
    publisher: Publisher<Link, [u8], ()>,
    notifier: Option<Notifier<Link>>,
    own: Option<Vec<MaybeUninit<u8>>>, // without --claim
    until_ns: Arc<AtomicI64>,
    refused: Arc<AtomicU64>,
}

impl Outlet for Publication {
    fn send(&mut self, message: &Message) -> Result<bool> {
        let length = message.length();
        let mut sample = self.publisher.loan_slice_uninit(length)?;
        match &mut self.own {
            None => message.write_to(sample.payload_mut()),
            Some(own) => {
                message.write_to(&mut own[..length]);
                sample.payload_mut().copy_from_slice(&own[..length]);
            }
        }
        // SAFETY: write_to() has written each byte.
        let sent = unsafe { sample.assume_init() }.send();
        let accepted = match sent {
            Ok(receivers) => receivers != 0,
            Err(SendError::UnableToDeliver) => false,
            Err(problem) => return Err(problem.into()),
        };
        if accepted && let Some(notifier) = &self.notifier {
            notifier.notify()?;
        }
        Ok(accepted)
    }

    fn give_up_at(&mut self, time_ns: i64) {
        self.until_ns.store(time_ns, Ordering::Relaxed);
    }

    fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// What a publisher does while there is no room: it waits, as without a handler, but not for ever.
fn wait_for_room(
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
