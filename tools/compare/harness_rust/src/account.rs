//! What a receiver makes of what arrives: checks each byte, counts losses, and keeps how much came in
//! each tenth of a second and how late.

use crate::bus::Handler;
use crate::machine::{cpu_ns, now_ns};
use crate::message::{
    Lengths, MARKER_BYTES, NUMBER_BITS, NUMBER_MASK, first_word, intact, word_at,
};
use crate::options::Options;
use hdrhistogram::Histogram;

const SLICE_NS: i64 = 100_000_000;
// How often the clock is looked at: it costs as much as a small message.
const LOOK_MESSAGES: u32 = 64;
const LOOK_BYTES: u64 = 64 * 1024;
const PACED_WORDS: usize = 2;

pub struct Account {
    lengths: Lengths,
    paced: bool,
    next: Vec<u64>, // by sender: the first word expected next
    marked: Vec<bool>,
    messages: u64,
    bytes: u64,
    missing: u64,
    corrupt: u64,
    reordered: u64,
    latency: Histogram<u64>,
    latency_max: Vec<u64>,
    messages_since: u32,
    bytes_since: u64,
    messages_booked: u64,
    first_ns: i64,
    last_ns: i64,
    cpu_start_ns: i64,
    cpu_ns: i64, // from the first message to the last
    slices: Vec<u64>,
    slice_bytes: Vec<u64>,
}

impl Account {
    pub fn new(options: &Options) -> Self {
        Self {
            lengths: Lengths::new(options.bytes_min, options.bytes_max),
            paced: options.paced,
            next: (0..options.senders as u64).map(|sender| first_word(sender, 0)).collect(),
            marked: vec![false; options.senders],
            messages: 0,
            bytes: 0,
            missing: 0,
            corrupt: 0,
            reordered: 0,
            latency: new_histogram(),
            latency_max: vec![0; options.senders],
            messages_since: LOOK_MESSAGES - 1, // the first message is looked at, for its time
            bytes_since: 0,
            messages_booked: 0,
            first_ns: 0,
            last_ns: 0,
            cpu_start_ns: 0,
            cpu_ns: 0,
            slices: Vec::new(),
            slice_bytes: Vec::new(),
        }
    }

    fn take_message(&mut self, message: &[u8]) {
        let word = word_at(message, 0).unwrap_or(u64::MAX); // too short: of no sender
        if message.len() == MARKER_BYTES && word & NUMBER_MASK == NUMBER_MASK {
            self.take_marker(message, word);
            return;
        }
        self.messages += 1;
        self.bytes_since += message.len() as u64;
        self.check(message, word);
        self.messages_since += 1;
        if self.messages_since >= LOOK_MESSAGES || self.bytes_since >= LOOK_BYTES {
            self.look();
        }
    }

    fn check(&mut self, message: &[u8], word: u64) {
        let sender = (word >> NUMBER_BITS) as usize;
        let from = if self.paced { PACED_WORDS } else { 0 };
        if sender >= self.next.len()
            || message.len() != self.lengths.of(word)
            || !intact(message, from, word)
        {
            self.corrupt += 1;
            return;
        }
        if self.paced
            && let Some(intended) = word_at(message, 1)
        {
            let late = (now_ns() - intended as i64).max(0) as u64;
            self.latency.saturating_record(late);
            self.latency_max[sender] = self.latency_max[sender].max(late);
        }
        let next = &mut self.next[sender];
        if word == *next {
            *next += 1;
        } else if word > *next {
            self.missing += word - *next;
            *next = word + 1;
        } else {
            // Late, or a second time; the first fills a gap that was counted.
            self.reordered += 1;
            self.missing -= self.missing.min(1);
        }
    }

    fn take_marker(&mut self, marker: &[u8], word: u64) {
        let sender = (word >> NUMBER_BITS) as usize;
        let count = word_at(marker, 1).unwrap_or(0);
        if sender < self.marked.len() && !self.marked[sender] {
            self.marked[sender] = true;
            self.missing += count.saturating_sub(self.next[sender] & NUMBER_MASK);
            self.rest();
            self.cpu_ns = cpu_ns() - self.cpu_start_ns;
        }
    }

    fn look(&mut self) {
        let now = now_ns();
        if self.first_ns == 0 {
            self.first_ns = now;
            self.cpu_start_ns = cpu_ns();
        }
        self.last_ns = now;
        let slice = ((now - self.first_ns) / SLICE_NS) as usize;
        if slice >= self.slices.len() {
            self.slices.resize(slice + 1, 0);
            self.slice_bytes.resize(slice + 1, 0);
            self.cpu_ns = cpu_ns() - self.cpu_start_ns; // seldom: it is a system call
        }
        self.slices[slice] += self.messages - self.messages_booked;
        self.slice_bytes[slice] += self.bytes_since;
        self.bytes += self.bytes_since;
        self.messages_booked = self.messages;
        self.messages_since = 0;
        self.bytes_since = 0;
    }

    /// Nothing has come for a moment.
    pub fn rest(&mut self) {
        if self.messages != self.messages_booked {
            self.look();
        }
    }

    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// 0: nothing has come yet.
    pub fn first_ns(&self) -> i64 {
        self.first_ns
    }

    pub fn last_ns(&self) -> i64 {
        self.last_ns
    }

    /// True when the markers of all senders have come.
    pub fn complete(&self) -> bool {
        self.marked.iter().all(|&marked| marked)
    }

    pub fn json(&self) -> String {
        // A corrupt message leaves a gap where it belonged; it did arrive.
        let lost = self.missing.saturating_sub(self.corrupt);
        let latency = if self.latency.is_empty() {
            String::new()
        } else {
            format!(
                r#","latency_ns":{},"latency_max_ns":{:?}"#,
                percentiles(&self.latency),
                self.latency_max
            )
        };
        format!(
            concat!(
                r#"{{"messages":{},"bytes":{},"lost":{},"corrupt":{},"reordered":{},"#,
                r#""first_message_ns":{},"last_message_ns":{},"cpu_s":{},"#,
                r#""slices":{:?},"slice_bytes":{:?}{}}}"#
            ),
            self.messages,
            self.bytes,
            lost,
            self.corrupt,
            self.reordered,
            self.first_ns,
            self.last_ns,
            self.cpu_ns as f64 / 1e9,
            self.slices,
            self.slice_bytes,
            latency
        )
    }
}

impl Handler for Account {
    fn take(&mut self, message: &[u8]) -> bool {
        self.take_message(message);
        self.complete()
    }
}

pub fn new_histogram() -> Histogram<u64> {
    const LARGEST_NS: u64 = 1 << 40;
    Histogram::new_with_max(LARGEST_NS, 3).expect("sensible bounds")
}

pub fn percentiles(all: &Histogram<u64>) -> String {
    format!(
        r#"{{"p50":{},"p90":{},"p99":{},"p999":{},"max":{}}}"#,
        all.value_at_quantile(0.5),
        all.value_at_quantile(0.9),
        all.value_at_quantile(0.99),
        all.value_at_quantile(0.999),
        all.max()
    )
}
