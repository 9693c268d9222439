//! The roles that a process can have in a run.

use crate::account::{Account, new_histogram, percentiles};
use crate::bus::{Bus, Handler, Inbox, Outlet, Receive, Result};
use crate::machine::{Stopped, cpu_ns, now_ns};
use crate::message::{Lengths, Message, NUMBER_MASK, first_word, intact};
use crate::options::Options;
use std::process::ExitCode;
use std::time::Duration;

// How often a sender looks at the clock: it costs as much as a small message.
const LOOK_MESSAGES: u64 = 64;
const WORTH_SLEEPING_NS: i64 = 200_000;
const WAKE_UP_EARLY_NS: i64 = 100_000;
const MARKER_WITHIN_NS: i64 = 10_000_000_000;

/// Plays the role that the command line names, and prints its figures.
pub fn run<B>() -> ExitCode
where
    B: Receive<Account> + Receive<Answers> + Receive<Echo<<B as Bus>::Outlet>>,
{
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    match play::<B>(&options) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn play<B>(options: &Options) -> Result<String>
where
    B: Receive<Account> + Receive<Answers> + Receive<Echo<<B as Bus>::Outlet>>,
{
    let stopped = Stopped::watch()?;
    match options.role.as_str() {
        "receive" => receive::<B>(options, &stopped),
        "send" => send::<B>(options, &stopped),
        "ping" => ping::<B>(options, &stopped),
        "pong" => pong::<B>(options, &stopped),
        "hold" => hold::<B>(options, &stopped),
        other => Err(format!("--role {other}: there is none").into()),
    }
}

fn say_ready() {
    println!("ready"); // line by line
}

fn await_go() -> Result<()> {
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

fn receive<B: Receive<Account>>(options: &Options, stopped: &Stopped) -> Result<String> {
    let bus = B::open(options)?;
    let mut inbox = bus.inbox(options, &options.address, Account::new(options))?;
    let patience_ns = (options.patience * 1e9) as i64;
    let mut pause_after_ns = (options.pause_after >= 0.0).then_some(options.pause_after * 1e9);
    let mut before = 0;
    say_ready();
    loop {
        inbox.poll()?;
        let mut account = inbox.handler();
        let is_idle = account.messages() == before;
        before = account.messages();
        if stopped.get() || account.complete() {
            return Ok(account.json());
        }
        if let Some(after) = pause_after_ns
            && account.first_ns() != 0
            && (account.last_ns() - account.first_ns()) as f64 >= after
        {
            pause_after_ns = None;
            std::thread::sleep(Duration::from_secs_f64(options.pause_for));
        } else if is_idle {
            account.rest();
            if account.first_ns() != 0 && now_ns() - account.last_ns() > patience_ns {
                return Ok(account.json());
            }
        }
    }
}

fn send<B: Bus>(options: &Options, stopped: &Stopped) -> Result<String> {
    let bus = B::open(options)?;
    let mut outlet = bus.outlet(options, &options.address, stopped)?;
    let lengths = Lengths::new(options.bytes_min, options.bytes_max);
    say_ready();
    await_go()?;
    let cpu_start = cpu_ns();
    let start = now_ns();
    let end = start + (options.seconds * 1e9) as i64;
    outlet.give_up_at(end);
    let (mut number, mut all_bytes, mut longest_call_ns) = (0, 0, 0);
    while !stopped.get() {
        let mut intended_ns = 0;
        if options.rate > 0.0 {
            intended_ns = start + (number as f64 * (1e9 / options.rate)) as i64;
            sleep_until(intended_ns.min(end), options.blocking);
        }
        if (options.paced || number % LOOK_MESSAGES == 0) && now_ns() >= end {
            break;
        }
        let message = numbered(options, &lengths, number, intended_ns);
        let before = if options.paced { now_ns() } else { 0 };
        let sent = outlet.send(&message)?;
        if options.paced {
            longest_call_ns = longest_call_ns.max(now_ns() - before);
        }
        if !sent {
            break;
        }
        number += 1;
        all_bytes += message.length();
    }
    let seconds = (now_ns() - start) as f64 / 1e9;
    let cpu_s = (cpu_ns() - cpu_start) as f64 / 1e9;
    let refused = outlet.refused();
    outlet.give_up_at(now_ns() + MARKER_WITHIN_NS);
    outlet.send(&Message::Marker { sender: options.sender, count: number })?;
    outlet.finish(stopped)?;
    Ok(format!(
        concat!(
            r#"{{"accepted":{},"refused":{},"bytes":{},"longest_call_ns":{},"#,
            r#""seconds":{},"cpu_s":{}}}"#
        ),
        number, refused, all_bytes, longest_call_ns, seconds, cpu_s
    ))
}

fn numbered(
    options: &Options,
    lengths: &Lengths,
    number: u64,
    intended_ns: i64,
) -> Message<'static> {
    let word = first_word(options.sender, number);
    let corrupt_every = options.corrupt_every;
    Message::Numbered {
        word,
        bytes: lengths.of(word),
        intended_ns: options.paced.then_some(intended_ns),
        is_wrong: corrupt_every != 0 && (word & NUMBER_MASK).is_multiple_of(corrupt_every),
    }
}

/// Asleep for the whole time, it is a little late, but without a processor.
fn sleep_until(time_ns: i64, asleep: bool) {
    loop {
        match time_ns - now_ns() {
            left if left <= 0 => return,
            left if asleep => std::thread::sleep(Duration::from_nanos(left as u64)),
            left if left > WORTH_SLEEPING_NS => {
                std::thread::sleep(Duration::from_nanos((left - WAKE_UP_EARLY_NS) as u64));
            }
            _ => std::thread::yield_now(),
        }
    }
}

/// Sends back what comes.
pub struct Echo<O> {
    outlet: Option<O>,
    round_trips: u64,
    problem: Result<()>,
}

impl<O: Outlet> Handler for Echo<O> {
    fn take(&mut self, message: &[u8]) -> bool {
        let Some(outlet) = &mut self.outlet else {
            return false;
        };
        match outlet.send(&Message::Echo(message)) {
            Ok(sent) => self.round_trips += u64::from(sent),
            Err(problem) => self.problem = Err(problem),
        }
        self.problem.is_err()
    }
}

fn pong<B>(options: &Options, stopped: &Stopped) -> Result<String>
where
    B: Receive<Echo<<B as Bus>::Outlet>>,
{
    let bus = B::open(options)?;
    let echo = Echo { outlet: None, round_trips: 0, problem: Ok(()) };
    let mut inbox = bus.inbox(options, &options.address, echo)?;
    let mut echo = inbox.handler(); // nothing is taken before it can be answered
    say_ready();
    echo.outlet = Some(bus.outlet(options, &options.reply_address, stopped)?);
    drop(echo);
    while !stopped.get() {
        inbox.poll()?;
        std::mem::replace(&mut inbox.handler().problem, Ok(()))?;
    }
    let round_trips = inbox.handler().round_trips;
    Ok(format!(r#"{{"round_trips":{},"cpu_s":{}}}"#, round_trips, cpu_ns() as f64 / 1e9))
}

pub struct Answers {
    word: u64,
    bytes: usize,
    has_come: bool,
    corrupt: u64,
}

impl Handler for Answers {
    fn take(&mut self, message: &[u8]) -> bool {
        let is_whole = message.len() == self.bytes && intact(message, 0, self.word);
        self.corrupt += u64::from(!is_whole);
        self.has_come = true;
        true
    }
}

/// Sends and awaits the answer. The first tenth of the time isn't recorded.
fn ping<B: Receive<Answers>>(options: &Options, stopped: &Stopped) -> Result<String> {
    let bus = B::open(options)?;
    let bytes = options.bytes_max as usize;
    let answers = Answers { word: 0, bytes, has_come: false, corrupt: 0 };
    let mut inbox = bus.inbox(options, &options.reply_address, answers)?;
    let mut outlet = bus.outlet(options, &options.address, stopped)?;
    let mut times = new_histogram();
    say_ready();
    await_go()?;
    let start = now_ns();
    let record_from = start + (options.seconds * 1e8) as i64;
    let end = start + (options.seconds * 1e9) as i64;
    let mut before = start;
    let mut word = 0;
    while before < end && !stopped.get() {
        {
            let mut answers = inbox.handler();
            answers.word = word;
            answers.has_come = false;
        }
        let message = Message::Numbered { word, bytes, intended_ns: None, is_wrong: false };
        if !outlet.send(&message)? {
            break;
        }
        let mut has_come = false;
        while !has_come && !stopped.get() {
            inbox.poll()?;
            has_come = inbox.handler().has_come;
        }
        let now = now_ns();
        if has_come && before >= record_from {
            times.saturating_record((now - before) as u64);
        }
        before = now;
        word += 1;
    }
    let corrupt = inbox.handler().corrupt;
    Ok(format!(
        r#"{{"round_trips":{},"corrupt":{},"rtt_ns":{},"cpu_s":{}}}"#,
        times.len(),
        corrupt,
        percentiles(&times),
        cpu_ns() as f64 / 1e9
    ))
}

/// Connects so many times and sends nothing.
fn hold<B: Bus>(options: &Options, stopped: &Stopped) -> Result<String> {
    let mut held = Vec::new();
    for _ in 0..options.senders {
        let bus = B::open(options)?;
        let outlet = bus.outlet(options, &options.address, stopped)?;
        held.push((outlet, bus));
    }
    say_ready();
    await_go()?;
    Ok("{}".to_owned())
}
