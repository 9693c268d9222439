package compare;

import java.util.Arrays;
import org.HdrHistogram.Histogram;
import org.agrona.UnsafeApi;

/** A receiver's account: what came, what did not, and when. */
final class Tally {
  private final Message lengths;
  private final boolean paced;
  private final long[] next;
  private final boolean[] ended;
  private final long[] latencyMax;
  private final Slices slices = new Slices();
  private final Histogram latency = new Histogram(3);

  private long messages;
  private long bytes;
  private long missing;
  private long corrupt;
  private long reordered;
  private int running;

  Tally(Options options) {
    lengths = new Message(options.shortest, options.longest);
    paced = options.paced;
    next = new long[options.senders];
    ended = new boolean[options.senders];
    latencyMax = new long[options.senders];
    running = options.senders;
    for (int sender = 0; sender != next.length; sender++) {
      next[sender] = Message.firstWord(sender, 0);
    }
  }

  /** Checks and counts the message at that address. */
  void take(long at, int length) {
    long word = length >= 8 ? UnsafeApi.getLong(at) : -1;
    long sender = word >>> Message.NUMBER_BITS;
    if ((word & Message.NUMBER_MASK) == Message.NUMBER_MASK && length == Message.END_BYTES
        && sender < next.length) {
      end((int) sender, UnsafeApi.getLong(at + 8));
      return;
    }
    messages++;
    bytes += length;
    if (sender >= next.length || length != lengths.length(word)
        || !Message.intact(at, paced ? 16 : 0, length, word)) {
      corrupt++;
      return;
    }
    if (paced) {
      long late = Math.max(0, System.nanoTime() - UnsafeApi.getLong(at + 8));
      latency.recordValue(late);
      latencyMax[(int) sender] = Math.max(latencyMax[(int) sender], late);
    }
    if (word == next[(int) sender]) {
      next[(int) sender]++;
    } else {
      outOfOrder(word, (int) sender);
    }
  }

  private void outOfOrder(long word, int sender) {
    if (word > next[sender]) {
      missing += word - next[sender];
      next[sender] = word + 1;
    } else { // late, or a second time; the first fills a gap that was counted
      reordered++;
      missing -= Math.min(missing, 1);
    }
  }

  private void end(int sender, long sent) {
    if (!ended[sender]) {
      ended[sender] = true;
      running--;
      missing += Math.max(0, sent - (next[sender] & Message.NUMBER_MASK));
    }
  }

  /** Called after each poll. */
  void tick(long now) {
    slices.tick(now, messages, bytes);
  }

  Slices slices() {
    return slices;
  }

  /** True when the end markers of all senders have come. */
  boolean complete() {
    return running == 0;
  }

  String json(double warmUpSeconds) {
    // A corrupt message leaves a gap where it belonged; it did arrive.
    long lost = missing - Math.min(missing, corrupt);
    String latencies =
        latency.getTotalCount() == 0
            ? ""
            : ",\"latency_ns\":" + percentiles(latency)
                + ",\"latency_max_ns\":" + Arrays.toString(latencyMax);
    return "{\"messages\":" + messages + ",\"bytes\":" + bytes + ",\"lost\":" + lost
        + ",\"corrupt\":" + corrupt + ",\"reordered\":" + reordered + "," + slices.json()
        + ",\"warm_up_s\":" + warmUpSeconds + latencies + "}";
  }

  static String percentiles(Histogram all) {
    return "{\"p50\":" + all.getValueAtPercentile(50) + ",\"p90\":" + all.getValueAtPercentile(90)
        + ",\"p99\":" + all.getValueAtPercentile(99)
        + ",\"p999\":" + all.getValueAtPercentile(99.9) + ",\"max\":" + all.getMaxValue() + "}";
  }
}
