package compare;

import io.aeron.Aeron;
import io.aeron.ExclusivePublication;
import io.aeron.FragmentAssembler;
import io.aeron.Subscription;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.logbuffer.FragmentHandler;
import io.aeron.protocol.DataHeaderFlyweight;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.agrona.BitUtil;
import org.agrona.concurrent.AgentInvoker;

/**
 * This process's part of Aeron: a client, and in a receiver or pong the media driver too.
 *
 * <p>Settings are those of the page "Performance Testing" in Aeron's wiki: receive window and
 * socket buffers of 2 MiB, log files neither sparse nor untouched, no bounds checks. These were
 * chosen by measuring on two cores:
 *
 * <ul>
 *   <li>The driver has no thread; the receiver calls it between polls (ThreadingMode.INVOKER, page
 *       "Media Driver Operation"). A thread of its own (SHARED) carried as many messages or fewer
 *       and, sharing a core with a receiver that polls, made a round trip by UDP take 1.4 ms
 *       instead of 9 us.
 *   <li>UDP runs through that one driver too. A second one in the sender took 11 us for the round
 *       trip, for about as many messages.
 *   <li>The largest MTU: 7 instead of 3 to 5 million messages of 8 to 128 bytes a second by UDP, and
 *       claims, which can't exceed a fragment, of nearly 64 KiB.
 *   <li>Terms of 2 MiB; the default of 64 MiB was a tenth slower and needs 32 times the memory.
 *       Aeron takes messages of up to an eighth of a term.
 * </ul>
 */
final class Bus implements AutoCloseable {
  private static final int MESSAGES = 1;
  private static final int REPLIES = 2;
  private static final int WARM_UP = 3;
  private static final int MTU = 65504;
  private static final int TERM = 2 << 20;

  private final Options options;
  private final String parameters;
  private final MediaDriver driver;
  private final AgentInvoker driverInvoker;
  private final Aeron aeron;

  Bus(Options options) {
    this.options = options;
    int term = Math.max(TERM, 8 * BitUtil.findNextPositivePowerOfTwo(options.longest));
    parameters = "term-length=" + term + "|mtu=" + MTU;
    String directory = "/dev/shm/compare-aeron-" + options.address.replaceAll("[^\\w-]", "-");
    boolean listens = options.role.equals("receive") || options.role.equals("pong");
    driver = listens ? MediaDriver.launchEmbedded(driverContext(directory)) : null;
    driverInvoker = listens ? driver.sharedAgentInvoker() : null;
    Aeron.Context context = new Aeron.Context().aeronDirectoryName(directory);
    if (listens) {
      context.useConductorAgentInvoker(true).driverAgentInvoker(driverInvoker);
    } else {
      // That the driver has gone with the receiver is no error of a sender that has finished.
      context.errorHandler(problem -> System.err.println(problem.getMessage()));
    }
    aeron = Aeron.connect(context);
  }

  private static MediaDriver.Context driverContext(String directory) {
    int buffer = Math.min(2 << 20, Math.min(limit("rmem_max"), limit("wmem_max")));
    return new MediaDriver.Context()
        .aeronDirectoryName(directory)
        .dirDeleteOnStart(true)
        .dirDeleteOnShutdown(true)
        .threadingMode(ThreadingMode.INVOKER)
        .termBufferSparseFile(false)
        .initialWindowLength(buffer)
        .socketSndbufLength(buffer)
        .socketRcvbufLength(buffer);
  }

  /** The largest socket buffer that the kernel grants. */
  private static int limit(String file) {
    try (BufferedReader reader = Files.newBufferedReader(Path.of("/proc/sys/net/core", file))) {
      return Integer.parseInt(reader.readLine());
    } catch (IOException e) {
      return 1 << 17;
    }
  }

  ExclusivePublication publish() {
    return aeron.addExclusivePublication(channel(options.address), MESSAGES);
  }

  Subscription subscribe() {
    return aeron.addSubscription(channel(options.address), MESSAGES);
  }

  ExclusivePublication publishReply() {
    return aeron.addExclusivePublication(channel(options.replyAddress), REPLIES);
  }

  Subscription subscribeReply() {
    return aeron.addSubscription(channel(options.replyAddress), REPLIES);
  }

  ExclusivePublication publishWarmUp() {
    return aeron.addExclusivePublication(channel(options.address), WARM_UP);
  }

  Subscription subscribeWarmUp() {
    return aeron.addSubscription(channel(options.address), WARM_UP);
  }

  private String channel(String address) {
    return address.startsWith("ipc:")
        ? "aeron:ipc?" + parameters
        : "aeron:udp?endpoint=localhost:" + address.substring("udp:".length()) + "|" + parameters;
  }

  /** The handler, with what is longer than a fragment put together for it. */
  FragmentHandler assemble(FragmentHandler handler) {
    boolean whole = options.longest <= MTU - DataHeaderFlyweight.HEADER_LENGTH;
    return whole ? handler : new FragmentAssembler(handler, 2 * options.longest, true);
  }

  /** Gives driver and client a turn if they have no threads of their own. */
  int work() {
    return driverInvoker == null
        ? 0 : driverInvoker.invoke() + aeron.conductorAgentInvoker().invoke();
  }

  @Override
  public void close() {
    aeron.close();
    if (driver != null) {
      driver.close();
    }
  }
}
