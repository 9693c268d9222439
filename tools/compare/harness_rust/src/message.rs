//! Lengths and contents of messages, the same as in tools/atbus/bench/message.h: word i of a message
//! is its first word plus i steps, and the length follows from the first word.

use std::mem::MaybeUninit;

pub const NUMBER_BITS: u32 = 48;
pub const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;
pub const WORD_BYTES: usize = size_of::<u64>();
/// Of the message that says how many there were.
pub const MARKER_BYTES: usize = 2 * WORD_BYTES;
const STEP: u64 = 0xd6e8_feb8_6659_fd93;

pub fn first_word(sender: u64, number: u64) -> u64 {
    sender << NUMBER_BITS | number
}

/// None if the message is too short.
pub fn word_at(message: &[u8], index: usize) -> Option<u64> {
    let (words, _) = message.as_chunks();
    words.get(index).map(|&word| u64::from_ne_bytes(word))
}

/// Lengths in bytes, which are multiples of eight.
#[derive(Clone, Copy)]
pub struct Lengths {
    shortest: u64, // in words
    units: u64,
}

impl Lengths {
    pub fn new(bytes_min: u64, bytes_max: u64) -> Self {
        Self { shortest: bytes_min / 8, units: (bytes_max - bytes_min) / 8 + 1 }
    }

    pub fn of(&self, word: u64) -> usize {
        let mut x = word.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x ^= x >> 29;
        x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (self.shortest + ((x >> 32) * self.units >> 32)) as usize * WORD_BYTES
    }
}

/// What is to be sent, not yet written.
pub enum Message<'a> {
    /// One of a sender's, of so many bytes.
    Numbered { word: u64, bytes: usize, intended_ns: Option<i64>, is_wrong: bool },
    /// Says how many messages there were.
    Marker { sender: u64, count: u64 },
    /// What came is sent back.
    Echo(&'a [u8]),
}

impl Message<'_> {
    /// How many bytes write_to() needs.
    pub fn length(&self) -> usize {
        match self {
            Self::Numbered { bytes, .. } => *bytes,
            Self::Marker { .. } => MARKER_BYTES,
            Self::Echo(bytes) => bytes.len(),
        }
    }

    /// Writes all of `to`, which is as long as the message.
    pub fn write_to(&self, to: &mut [MaybeUninit<u8>]) {
        assert_eq!(to.len(), self.length());
        match *self {
            Self::Numbered { word, intended_ns, is_wrong, .. } => {
                let (words, _) = to.as_chunks_mut();
                fill(words, word);
                if let Some(time) = intended_ns {
                    words[1] = written(time as u64);
                }
                if is_wrong {
                    let last = words.len() - 1;
                    let right = word.wrapping_add(STEP.wrapping_mul(last as u64));
                    words[last] = written(right ^ 0xff << 56);
                }
            }
            Self::Marker { sender, count } => {
                let (words, _) = to.as_chunks_mut();
                words[0] = written(first_word(sender, NUMBER_MASK));
                words[1] = written(count);
            }
            Self::Echo(bytes) => {
                to.write_copy_of_slice(bytes);
            }
        }
    }
}

type UnwrittenWord = [MaybeUninit<u8>; WORD_BYTES];

fn written(word: u64) -> UnwrittenWord {
    word.to_ne_bytes().map(MaybeUninit::new)
}

fn fill(to: &mut [UnwrittenWord], word: u64) {
    let mut next = word;
    for at in to {
        *at = written(next);
        next = next.wrapping_add(STEP);
    }
}

/// Compares all words from the one with this index on with what a numbered message has.
pub fn intact(message: &[u8], from: usize, word: u64) -> bool {
    let (words, rest) = message.as_chunks();
    let mut next = word.wrapping_add(STEP.wrapping_mul(from as u64));
    let mut difference = 0;
    for &found in &words[from..] {
        difference |= u64::from_ne_bytes(found) ^ next;
        next = next.wrapping_add(STEP);
    }
    difference == 0 && rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(message: &Message) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(message.length());
        message.write_to(&mut bytes.spare_capacity_mut()[..message.length()]);
        // SAFETY: write_to() has written all of it.
        unsafe { bytes.set_len(message.length()) };
        bytes
    }

    fn numbered(word: u64, bytes: usize) -> Vec<u8> {
        bytes_of(&Message::Numbered { word, bytes, intended_ns: None, is_wrong: false })
    }

    // Lengths and words that tools/atbus/bench/message.h gives.
    #[test]
    fn is_the_same_as_in_message_h() {
        let lengths = Lengths::new(8, 16384);
        assert_eq!(lengths.of(first_word(3, 0)), 8 * 2040);
        assert_eq!(lengths.of(first_word(3, 12345)), 8 * 488);
        let message = numbered(first_word(3, 5), 80);
        assert_eq!(word_at(&message, 9), Some(0x8e33_f47b_9929_ea30));
        assert_eq!(word_at(&message, 10), None);
    }

    #[test]
    fn notices_each_changed_bit() {
        let word = first_word(1, 7);
        let mut message = numbered(word, 40);
        assert!(intact(&message, 0, word));
        for bit in 0..320 {
            message[bit / 8] ^= 1 << (bit % 8);
            assert!(!intact(&message, 0, word));
            message[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn sends_wrong_what_is_to_be_wrong() {
        let message =
            Message::Numbered { word: 9, bytes: 64, intended_ns: Some(5), is_wrong: true };
        let sent = bytes_of(&message);
        assert_eq!(word_at(&sent, 1), Some(5));
        assert!(!intact(&sent, 2, 9));
        assert!(intact(&sent[..56], 2, 9));
    }
}
