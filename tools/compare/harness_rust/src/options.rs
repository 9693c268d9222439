//! The command line that all harnesses of the comparison share.

use std::collections::HashMap;

const FLAGS: [&str; 3] = ["--claim", "--blocking", "--paced"];

pub struct Options {
    pub role: String,
    pub address: String,
    /// Where pong answers to.
    pub reply_address: String,
    /// What a system can do in more than one way.
    pub variant: String,
    pub bytes_min: u64,
    pub bytes_max: u64,
    pub seconds: f64,
    /// Messages a second of this sender; 0: as fast as it goes.
    pub rate: f64,
    /// Messages carry the time at which they were to be sent.
    pub paced: bool,
    pub sender: u64,
    pub senders: usize,
    pub claim: bool,
    pub blocking: bool,
    /// When the receiver stops reading, for pause_for; negative: never.
    pub pause_after: f64,
    pub pause_for: f64,
    /// The receiver ends so long after the last message.
    pub patience: f64,
    /// For tests of the check: one byte in each so many messages is sent wrong; 0: none.
    pub corrupt_every: u64,
}

impl Options {
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut given = HashMap::new();
        while let Some(name) = arguments.next() {
            let value = if FLAGS.contains(&name.as_str()) {
                String::new()
            } else {
                arguments.next().ok_or(format!("{name} needs a value"))?
            };
            given.insert(name, value);
        }
        let mut text = |name: &str| given.remove(name);
        let role = text("--role").ok_or("--role is missing")?;
        let address = text("--address").ok_or("--address is missing")?;
        let reply_address = text("--reply-address").unwrap_or(format!("{address}-back"));
        let variant = text("--variant").unwrap_or_default();
        let paced = text("--paced").is_some();
        let claim = text("--claim").is_some();
        let blocking = text("--blocking").is_some();
        let mut number = |name: &str, otherwise: f64| match text(name) {
            None => Ok(otherwise),
            Some(value) => value.parse::<f64>().map_err(|why| format!("{name} {value}: {why}")),
        };
        let rate = number("--rate", 0.0)?;
        let all = Self {
            role,
            address,
            reply_address,
            variant,
            bytes_min: number("--bytes-min", 8.0)? as u64,
            bytes_max: number("--bytes-max", 128.0)? as u64,
            seconds: number("--seconds", 1.0)?,
            rate,
            paced: paced || rate > 0.0,
            sender: number("--sender", 0.0)? as u64,
            senders: number("--senders", 1.0)? as usize,
            claim,
            blocking,
            pause_after: number("--pause-after", -1.0)?,
            pause_for: number("--pause-for", 0.0)?,
            patience: number("--patience", 2.0)?,
            corrupt_every: number("--corrupt-every", 0.0)? as u64,
        };
        match given.keys().next() {
            None => Ok(all),
            Some(unknown) => Err(format!("{unknown} is unknown")),
        }
    }
}
