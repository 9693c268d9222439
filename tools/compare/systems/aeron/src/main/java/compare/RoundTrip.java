package compare;

import io.aeron.Subscription;
import io.aeron.logbuffer.FragmentHandler;
import java.util.concurrent.TimeUnit;
import org.HdrHistogram.Histogram;
import org.agrona.concurrent.BackoffIdleStrategy;
import org.agrona.concurrent.BusySpinIdleStrategy;
import org.agrona.concurrent.IdleStrategy;

/** Messages to and fro, one at a time. */
final class RoundTrip {
  private static final long SEND_WITHIN_NS = TimeUnit.SECONDS.toNanos(2);

  private final Options options;
  private final Bus bus;
  private final IdleStrategy idle;
  private final Histogram times = new Histogram(3);
  private long answered;
  private long corrupt;

  RoundTrip(Options options, Bus bus) {
    this.options = options;
    this.bus = bus;
    // Aeron has no blocking wait; its default strategy spins, yields, then parks for up to 1 ms.
    this.idle = options.blocking ? new BackoffIdleStrategy() : BusySpinIdleStrategy.INSTANCE;
  }

  /** Sends back what comes. */
  String pong() {
    Subscription forth = bus.subscribe();
    Outlet back = new Outlet(options, bus, bus.publishReply());
    FragmentHandler echo =
        bus.assemble((buffer, at, length, header) -> back.echo(buffer, at, length));
    Main.sayReady();
    while (!Main.stopped) {
      idle.idle(forth.poll(echo, 1) + bus.work());
    }
    return "{}";
  }

  /** Sends and awaits the answer. The first tenth of the time warms up and isn't recorded. */
  String ping() {
    Subscription back = bus.subscribeReply();
    Outlet forth = new Outlet(options, bus, bus.publish());
    FragmentHandler check =
        bus.assemble(
            (buffer, at, length, header) -> check(buffer.addressOffset() + at, length));
    forth.connect();
    exchange(back, forth, check, options.warmUp);
    times.reset();
    Main.sayReady();
    Main.awaitGo();
    exchange(back, forth, check, options.seconds);
    return "{\"round_trips\":" + times.getTotalCount() + ",\"corrupt\":" + corrupt
        + ",\"rtt_ns\":" + Tally.percentiles(times) + ",\"cpu_s\":" + Main.cpuNs() / 1e9 + "}";
  }

  private void exchange(Subscription back, Outlet forth, FragmentHandler check, double seconds) {
    long before = System.nanoTime();
    long end = before + (long) (seconds * 1e9);
    long recordFrom = before + (long) (seconds * 1e8);
    while (before < end && !Main.stopped) {
      long number = answered;
      if (!forth.send(number, options.longest, before, before + SEND_WITHIN_NS)) {
        return;
      }
      while (answered == number && !Main.stopped) {
        idle.idle(back.poll(check, 1) + bus.work());
      }
      long now = System.nanoTime();
      if (answered != number && before >= recordFrom) {
        times.recordValue(now - before);
      }
      before = now;
    }
  }

  private void check(long at, int length) {
    boolean right = length == options.longest && Message.intact(at, 0, length, answered);
    corrupt += right ? 0 : 1;
    answered++;
  }
}
