package compare;

import org.agrona.collections.LongArrayList;

/** Messages and bytes by slices of 100 ms, from the first message on. */
final class Slices {
  private static final long SLICE_NS = 100_000_000;

  private final LongArrayList messages = new LongArrayList();
  private final LongArrayList bytes = new LongArrayList();
  private long firstNs;
  private long lastNs;
  private long endNs;
  private long firstCpuNs;
  private long cpuNs; // from the first message to the last slice with messages
  private long seenMessages;
  private long closedMessages;
  private long closedBytes;

  /** Called after each poll with all that came until then. */
  void tick(long now, long allMessages, long allBytes) {
    if (allMessages != seenMessages) {
      if (seenMessages == 0) {
        firstNs = now;
        firstCpuNs = Main.cpuNs();
        endNs = now + SLICE_NS;
      }
      seenMessages = allMessages;
      lastNs = now;
    }
    if (firstNs == 0 || now < endNs) {
      return;
    }
    if (allMessages != closedMessages) {
      cpuNs = Main.cpuNs(); // seldom: it is a system call
    }
    while (now >= endNs) {
      messages.addLong(allMessages - closedMessages);
      bytes.addLong(allBytes - closedBytes);
      closedMessages = allMessages;
      closedBytes = allBytes;
      endNs += SLICE_NS;
    }
  }

  /** 0 until a message came. */
  long firstNs() {
    return firstNs;
  }

  long lastNs() {
    return lastNs;
  }

  String json() {
    return "\"slices\":" + list(messages) + ",\"slice_bytes\":" + list(bytes)
        + ",\"first_message_ns\":" + firstNs + ",\"last_message_ns\":" + lastNs
        + ",\"cpu_s\":" + (cpuNs - firstCpuNs) / 1e9;
  }

  private static String list(LongArrayList values) {
    StringBuilder text = new StringBuilder("[");
    for (int i = 0; i != values.size(); i++) {
      text.append(i == 0 ? "" : ",").append(values.getLong(i));
    }
    return text.append(']').toString();
  }
}
