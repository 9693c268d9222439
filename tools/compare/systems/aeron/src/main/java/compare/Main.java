package compare;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import sun.misc.Signal;

/** The harness of Aeron (Java) in the comparison: one role of one run. */
public final class Main {
  /** Set by SIGTERM: finish and report. */
  static volatile boolean stopped;

  private static final OperatingSystemMXBean processor =
      ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);

  private Main() {}

  public static void main(String[] arguments) {
    Signal.handle(new Signal("TERM"), signal -> stopped = true);
    try {
      play(new Options(arguments));
    } catch (RuntimeException problem) {
      System.err.println(problem.getMessage());
      System.exit(problem instanceof IllegalArgumentException ? 2 : 1);
    }
  }

  private static void play(Options options) {
    try (Bus bus = new Bus(options)) {
      String report =
          switch (options.role) {
            case "receive" -> new Receiver(options, bus).run();
            case "send" -> {
              Sender.warmUp(options, bus);
              yield new Sender(options, bus, bus.publish()).run();
            }
            case "ping" -> new RoundTrip(options, bus).ping();
            case "pong" -> new RoundTrip(options, bus).pong();
            default -> throw new IllegalArgumentException("no role " + options.role);
          };
      System.out.println(report);
    }
  }

  /** Says that a peer may start. */
  static void sayReady() {
    processor.getProcessCpuTime(); // takes its time when first asked
    System.out.println("ready");
    System.out.flush();
  }

  /** Waits for the driver's line. */
  static void awaitGo() {
    try {
      int read;
      do {
        read = System.in.read();
      } while (read >= 0 && read != '\n');
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Used by all threads of this process. */
  static long cpuNs() {
    return processor.getProcessCpuTime();
  }
}
