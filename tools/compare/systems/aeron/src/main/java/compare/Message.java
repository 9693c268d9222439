package compare;

import org.agrona.UnsafeApi;

/**
 * Lengths and contents of messages, the same as in tools/atbus/bench/message.h: word i of a message
 * is its first word plus i steps, and the length follows from the first word.
 *
 * <p>Messages are at addresses: of accesses through a buffer, which may be an array as well, the
 * just-in-time compiler makes slower code, with the buffer's fields read again for each word.
 */
final class Message {
  static final int NUMBER_BITS = 48;
  static final long NUMBER_MASK = (1L << NUMBER_BITS) - 1;
  /** An end marker: the sender with all number bits set, then how many messages it sent. */
  static final int END_BYTES = 16;

  private static final long STEP = 0xd6e8feb86659fd93L;

  private final int shortest;
  private final long units;

  Message(int shortest, int longest) {
    this.shortest = shortest;
    this.units = (longest - shortest) / 8 + 1;
  }

  static long firstWord(long sender, long number) {
    return sender << NUMBER_BITS | number;
  }

  int length(long word) {
    long x = (word + 1) * 0x9e3779b97f4a7c15L;
    x ^= x >>> 29;
    x *= 0xbf58476d1ce4e5b9L;
    return shortest + 8 * (int) ((x >>> 32) * units >>> 32);
  }

  /** Writes the message from byte {@code from} on, which is at a whole word like the end. */
  static void fill(long at, int from, int length, long word) {
    long next = word + (from >> 3) * STEP;
    int i = from;
    for (; i + 32 <= length; i += 32) {
      UnsafeApi.putLong(at + i, next);
      UnsafeApi.putLong(at + i + 8, next + STEP);
      UnsafeApi.putLong(at + i + 16, next + 2 * STEP);
      UnsafeApi.putLong(at + i + 24, next + 3 * STEP);
      next += 4 * STEP;
    }
    for (; i < length; i += 8) {
      UnsafeApi.putLong(at + i, next);
      next += STEP;
    }
  }

  /** Compares every byte from {@code from} on with what fill() wrote. */
  static boolean intact(long at, int from, int length, long word) {
    long next = word + (from >> 3) * STEP;
    long difference = 0;
    int i = from;
    for (; i + 32 <= length; i += 32) {
      difference |= UnsafeApi.getLong(at + i) ^ next;
      difference |= UnsafeApi.getLong(at + i + 8) ^ (next + STEP);
      difference |= UnsafeApi.getLong(at + i + 16) ^ (next + 2 * STEP);
      difference |= UnsafeApi.getLong(at + i + 24) ^ (next + 3 * STEP);
      next += 4 * STEP;
    }
    for (; i < length; i += 8) {
      difference |= UnsafeApi.getLong(at + i) ^ next;
      next += STEP;
    }
    return difference == 0;
  }
}
