//! Lengths and contents of messages, the same as in tools/atbus/bench/message.h: word i of a message
//! is its first word plus i steps, and the length follows from the first word.

use std::mem::MaybeUninit;

pub const NUMBER_BITS: u32 = 48;
pub const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;
const STEP: u64 = 0xd6e8_feb8_6659_fd93;

pub fn first_word(sender: u64, number: u64) -> u64 {
    sender << NUMBER_BITS | number
}

/// Lengths in words of eight bytes.
#[derive(Clone, Copy)]
pub struct Lengths {
    shortest: u64,
    units: u64,
}

impl Lengths {
    pub fn new(bytes_min: u64, bytes_max: u64) -> Self {
        Self { shortest: bytes_min / 8, units: (bytes_max - bytes_min) / 8 + 1 }
    }

    pub fn words(&self, word: u64) -> usize {
        let mut x = word.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x ^= x >> 29;
        x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (self.shortest + ((x >> 32) * self.units >> 32)) as usize
    }
}

/// Writes all words from the one with this index on.
pub fn fill(to: &mut [MaybeUninit<u64>], from: usize, word: u64) {
    let mut next = word.wrapping_add(STEP.wrapping_mul(from as u64));
    for at in &mut to[from..] {
        at.write(next);
        next = next.wrapping_add(STEP);
    }
}

/// Compares all words from the one with this index on with what fill() wrote.
pub fn intact(message: &[u64], from: usize, word: u64) -> bool {
    let mut next = word.wrapping_add(STEP.wrapping_mul(from as u64));
    let mut difference = 0;
    for &found in &message[from..] {
        difference |= found ^ next;
        next = next.wrapping_add(STEP);
    }
    difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    // Lengths and words that tools/atbus/bench/message.h gives.
    #[test]
    fn is_the_same_as_in_message_h() {
        let lengths = Lengths::new(8, 16384);
        assert_eq!(lengths.words(first_word(3, 0)), 2040);
        assert_eq!(lengths.words(first_word(3, 12345)), 488);
        let mut message = [MaybeUninit::uninit(); 10];
        fill(&mut message, 0, first_word(3, 5));
        // SAFETY: fill() has written all of it.
        let message = message.map(|word| unsafe { word.assume_init() });
        assert_eq!(message[9], 0x8e33_f47b_9929_ea30);
    }

    #[test]
    fn notices_each_changed_bit() {
        let word = first_word(1, 7);
        let mut message = [MaybeUninit::uninit(); 5];
        fill(&mut message, 0, word);
        // SAFETY: fill() has written all of it.
        let mut message = message.map(|word| unsafe { word.assume_init() });
        assert!(intact(&message, 0, word));
        for bit in 0..320 {
            message[bit / 64] ^= 1 << (bit % 64);
            assert!(!intact(&message, 0, word));
            message[bit / 64] ^= 1 << (bit % 64);
        }
    }
}
