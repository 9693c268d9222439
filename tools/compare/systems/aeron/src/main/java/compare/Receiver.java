package compare;

import io.aeron.Subscription;
import io.aeron.logbuffer.FragmentHandler;
import org.agrona.concurrent.BackoffIdleStrategy;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.YieldingIdleStrategy;

/** Takes and checks messages until all senders are done, or nothing comes any more. */
final class Receiver {
  private static final int FRAGMENTS_A_POLL = 128;

  private final Options options;
  private final Bus bus;
  private final IdleStrategy idle;

  Receiver(Options options, Bus bus) {
    this.options = options;
    this.bus = bus;
    // Aeron has no blocking wait; its default strategy spins, yields, then parks for up to 1 ms.
    this.idle = options.blocking ? new BackoffIdleStrategy() : new YieldingIdleStrategy();
  }

  String run() {
    Subscription warmUp = bus.subscribeWarmUp();
    Subscription subscription = bus.subscribe();
    Main.sayReady();
    double warmUpSeconds = options.warmUp > 0 ? warmUp(warmUp) : 0;
    Tally tally = new Tally(options);
    FragmentHandler handler = handler(tally);
    Slices slices = tally.slices();
    boolean paused = options.pauseAfter < 0;
    while (!Main.stopped && !tally.complete()) {
      long now = poll(subscription, handler, tally);
      if (slices.firstNs() == 0) {
        continue;
      }
      if (!paused && now - slices.firstNs() >= options.pauseAfter * 1e9) {
        paused = true;
        pause(now + (long) (options.pauseFor * 1e9));
      } else if (now - slices.lastNs() > options.patience * 1e9) {
        break;
      }
    }
    return tally.json(warmUpSeconds);
  }

  /** Takes what nobody counts, and says how long that took. */
  private double warmUp(Subscription subscription) {
    Tally forgotten = new Tally(options);
    FragmentHandler handler = handler(forgotten);
    while (!Main.stopped && !forgotten.complete()) {
      poll(subscription, handler, forgotten);
    }
    return (forgotten.slices().lastNs() - forgotten.slices().firstNs()) / 1e9;
  }

  private FragmentHandler handler(Tally tally) {
    return bus.assemble(
        (buffer, at, length, header) -> tally.take(buffer.addressOffset() + at, length));
  }

  // A method of its own, called often, so that the just-in-time compiler compiles it as a whole.
  private long poll(Subscription subscription, FragmentHandler handler, Tally tally) {
    idle.idle(subscription.poll(handler, FRAGMENTS_A_POLL) + bus.work());
    long now = System.nanoTime();
    tally.tick(now);
    return now;
  }

  /** Reads nothing; the driver goes on. */
  private void pause(long until) {
    IdleStrategy sleep = new BackoffIdleStrategy();
    while (System.nanoTime() < until && !Main.stopped) {
      sleep.idle(bus.work());
    }
  }
}
