package compare;

import io.aeron.ExclusivePublication;
import java.util.concurrent.locks.LockSupport;

/** Sends for a time, then says how many messages there were. */
final class Sender {
  /** How often the clock is looked at. */
  private static final int BATCH = 64;
  private static final long WORTH_SLEEPING_NS = 200_000;
  private static final long WAKE_UP_EARLY_NS = 100_000;

  private final Options options;
  private final Outlet outlet;
  private final Message lengths;
  private long number;
  private long bytes;

  Sender(Options options, Bus bus, ExclusivePublication publication) {
    this.options = options;
    outlet = new Outlet(options, bus, publication);
    lengths = new Message(options.shortest, options.longest);
  }

  /** Sends on the stream for it what nobody counts. */
  static void warmUp(Options options, Bus bus) {
    if (options.warmUp > 0) {
      Sender sender = new Sender(options, bus, bus.publishWarmUp());
      sender.outlet.connect();
      sender.sendFor(options.warmUp);
      sender.outlet.end(options.sender, sender.number);
    }
  }

  String run() {
    outlet.connect();
    Main.sayReady();
    Main.awaitGo();
    long cpuStart = Main.cpuNs();
    long start = System.nanoTime();
    sendFor(options.seconds);
    double seconds = (System.nanoTime() - start) / 1e9;
    double cpu = (Main.cpuNs() - cpuStart) / 1e9;
    String report = "{\"accepted\":" + number + ",\"refused\":" + outlet.refused()
        + ",\"bytes\":" + bytes + ",\"longest_call_ns\":" + outlet.longestCallNs()
        + ",\"seconds\":" + seconds + ",\"cpu_s\":" + cpu + "}";
    outlet.end(options.sender, number);
    return report;
  }

  private void sendFor(double seconds) {
    long start = System.nanoTime();
    long end = start + (long) (seconds * 1e9);
    boolean going = true;
    while (going && !Main.stopped && System.nanoTime() < end) {
      going = options.rate > 0 ? sendPaced(start, end) : sendBatch(end);
    }
  }

  // A method of its own, called often, so that the just-in-time compiler compiles it as a whole.
  private boolean sendBatch(long end) {
    for (int i = 0; i != BATCH; i++) {
      if (!send(0, end)) {
        return false;
      }
    }
    return true;
  }

  private boolean sendPaced(long start, long end) {
    long intended = start + (long) (number * (1e9 / options.rate));
    if (intended >= end) {
      return false;
    }
    await(intended);
    return send(intended, end);
  }

  private boolean send(long intended, long end) {
    long word = Message.firstWord(options.sender, number);
    int length = lengths.length(word);
    if (!outlet.send(word, length, intended, end)) {
      return false;
    }
    number++;
    bytes += length;
    return true;
  }

  private void await(long time) {
    for (long left = time - System.nanoTime(); left > 0; left = time - System.nanoTime()) {
      if (left > WORTH_SLEEPING_NS) {
        LockSupport.parkNanos(left - WAKE_UP_EARLY_NS);
      } else {
        Thread.yield();
      }
    }
  }
}
