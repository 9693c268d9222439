//! The harness of iceoryx2 in the comparison: one role of one run.

mod account;
mod bus;
mod machine;
mod message;
mod options;

use account::{Account, new_histogram, percentiles};
use bus::{Inbox, Outlet, Result};
use machine::{Stopped, cpu_ns, now_ns};
use message::{Lengths, first_word, intact};
use options::Options;
use std::process::ExitCode;
use std::time::Duration;

// How often a sender looks at the clock: it costs as much as a small message.
const LOOK_MESSAGES: u64 = 64;
const WORTH_SLEEPING_NS: i64 = 200_000;
const WAKE_UP_EARLY_NS: i64 = 100_000;
const MARKER_WITHIN_NS: i64 = 10_000_000_000;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    match play(&options) {
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

fn play(options: &Options) -> Result<String> {
    let stopped = Stopped::watch()?;
    match options.role.as_str() {
        "receive" => receive(options, &stopped),
        "send" => send(options, &stopped),
        "ping" => ping(options, &stopped),
        "pong" => pong(options, &stopped),
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

fn receive(options: &Options, stopped: &Stopped) -> Result<String> {
    let node = bus::node()?;
    let inbox = Inbox::new(&node, options, &options.address)?;
    let mut account = Account::new(options);
    let patience_ns = (options.patience * 1e9) as i64;
    let mut pause_after_ns = (options.pause_after >= 0.0).then_some(options.pause_after * 1e9);
    say_ready();
    while !stopped.get() && !account.complete() {
        let came = inbox.poll(|message| account.take(message))?;
        if let Some(after) = pause_after_ns
            && account.first_ns() != 0
            && (account.last_ns() - account.first_ns()) as f64 >= after
        {
            pause_after_ns = None;
            std::thread::sleep(Duration::from_secs_f64(options.pause_for));
        } else if came == 0 {
            account.rest();
            if account.first_ns() != 0 && now_ns() - account.last_ns() > patience_ns {
                break;
            }
        }
    }
    Ok(account.json())
}

fn send(options: &Options, stopped: &Stopped) -> Result<String> {
    let node = bus::node()?;
    let mut outlet = Outlet::new(&node, options, &options.address, stopped)?;
    let lengths = Lengths::new(options.bytes_min, options.bytes_max);
    say_ready();
    await_go()?;
    let cpu_start = cpu_ns();
    let start = now_ns();
    let end = start + (options.seconds * 1e9) as i64;
    outlet.give_up_at(end);
    let (mut number, mut bytes, mut longest_call_ns) = (0, 0, 0);
    while !stopped.get() {
        let mut intended = 0;
        if options.rate > 0.0 {
            intended = start + (number as f64 * (1e9 / options.rate)) as i64;
            sleep_until(intended.min(end));
        }
        if (options.paced || number % LOOK_MESSAGES == 0) && now_ns() >= end {
            break;
        }
        let word = first_word(options.sender, number);
        let words = lengths.words(word);
        let before = if options.paced { now_ns() } else { 0 };
        let sent = outlet.send(word, words, intended)?;
        if options.paced {
            longest_call_ns = longest_call_ns.max(now_ns() - before);
        }
        if !sent {
            break;
        }
        number += 1;
        bytes += 8 * words;
    }
    let seconds = (now_ns() - start) as f64 / 1e9;
    let cpu_s = (cpu_ns() - cpu_start) as f64 / 1e9;
    let refused = outlet.refused();
    outlet.give_up_at(now_ns() + MARKER_WITHIN_NS);
    outlet.end(options.sender, number)?;
    Ok(format!(
        concat!(
            r#"{{"accepted":{},"refused":{},"bytes":{},"longest_call_ns":{},"#,
            r#""seconds":{},"cpu_s":{}}}"#
        ),
        number, refused, bytes, longest_call_ns, seconds, cpu_s
    ))
}

fn sleep_until(time_ns: i64) {
    loop {
        match time_ns - now_ns() {
            left if left <= 0 => return,
            left if left > WORTH_SLEEPING_NS => {
                std::thread::sleep(Duration::from_nanos((left - WAKE_UP_EARLY_NS) as u64));
            }
            _ => std::thread::yield_now(),
        }
    }
}

/// Sends back what comes.
fn pong(options: &Options, stopped: &Stopped) -> Result<String> {
    let node = bus::node()?;
    let inbox = Inbox::new(&node, options, &options.address)?;
    say_ready();
    let mut outlet = Outlet::new(&node, options, &options.reply_address, stopped)?;
    let mut round_trips = 0;
    while !stopped.get() {
        let mut problem = None;
        inbox.poll(|message| match outlet.echo(message) {
            Ok(sent) => round_trips += u64::from(sent),
            Err(error) => problem = Some(error),
        })?;
        if let Some(problem) = problem {
            return Err(problem);
        }
    }
    Ok(format!(r#"{{"round_trips":{},"cpu_s":{}}}"#, round_trips, cpu_ns() as f64 / 1e9))
}

/// Sends and awaits the answer. The first tenth of the time isn't recorded.
fn ping(options: &Options, stopped: &Stopped) -> Result<String> {
    let node = bus::node()?;
    let inbox = Inbox::new(&node, options, &options.reply_address)?;
    let mut outlet = Outlet::new(&node, options, &options.address, stopped)?;
    let words = (options.bytes_max / 8) as usize;
    let mut times = new_histogram();
    let mut corrupt = 0;
    say_ready();
    await_go()?;
    let start = now_ns();
    let record_from = start + (options.seconds * 1e8) as i64;
    let end = start + (options.seconds * 1e9) as i64;
    let mut before = start;
    let mut number = 0;
    while before < end && !stopped.get() {
        if !outlet.send(number, words, before)? {
            break;
        }
        let mut came = 0;
        while came == 0 && !stopped.get() {
            came = inbox.poll(|message| {
                let whole = message.len() == words && intact(message, 0, number);
                corrupt += u64::from(!whole);
            })?;
        }
        let now = now_ns();
        if came != 0 && before >= record_from {
            times.saturating_record((now - before) as u64);
        }
        before = now;
        number += 1;
    }
    Ok(format!(
        r#"{{"round_trips":{},"corrupt":{},"rtt_ns":{},"cpu_s":{}}}"#,
        times.len(),
        corrupt,
        percentiles(&times),
        cpu_ns() as f64 / 1e9
    ))
}
