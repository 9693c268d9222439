package compare;

import io.aeron.ExclusivePublication;
import io.aeron.Publication;
import io.aeron.logbuffer.BufferClaim;
import java.util.concurrent.TimeUnit;
import org.agrona.BufferUtil;
import org.agrona.DirectBuffer;
import org.agrona.UnsafeApi;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.YieldingIdleStrategy;

/** Writes messages into a publication, by claim or by copy, and retries what is refused. */
final class Outlet {
  private static final long PATIENCE_NS = TimeUnit.SECONDS.toNanos(10);

  private final Options options;
  private final Bus bus;
  private final ExclusivePublication publication;
  private final IdleStrategy idle = new YieldingIdleStrategy();
  private final BufferClaim claim = new BufferClaim();
  private final UnsafeBuffer own;
  private final boolean claims;

  private long refused;
  private long longestCallNs;

  Outlet(Options options, Bus bus, ExclusivePublication publication) {
    this.options = options;
    this.bus = bus;
    this.publication = publication;
    int longest = Math.max(options.longest, Message.END_BYTES);
    own = new UnsafeBuffer(BufferUtil.allocateDirectAligned(longest, 64));
    // What is longer than a fragment can't be claimed.
    claims = options.claim && longest <= publication.maxPayloadLength();
  }

  /** Waits for a receiver. */
  void connect() {
    long until = System.nanoTime() + PATIENCE_NS;
    while (!publication.isConnected()) {
      if (Main.stopped || System.nanoTime() > until) {
        throw new IllegalStateException("could not connect");
      }
      idle.idle(bus.work());
    }
  }

  /** Fills in and sends one message; false if it could not be sent until then. */
  boolean send(long word, int length, long intendedNs, long untilNs) {
    if (!claims) {
      compose(own.addressOffset(), word, length, intendedNs);
      return put(own, 0, length, untilNs);
    }
    if (!put(null, 0, length, untilNs)) {
      return false;
    }
    compose(claim.buffer().addressOffset() + claim.offset(), word, length, intendedNs);
    claim.commit();
    return true;
  }

  /** Sends back what came. */
  void echo(DirectBuffer from, int at, int length) {
    long until = System.nanoTime() + PATIENCE_NS;
    if (!claims) {
      put(from, at, length, until);
    } else if (put(null, 0, length, until)) {
      claim.buffer().putBytes(claim.offset(), from, at, length);
      claim.commit();
    }
  }

  /** Says how many messages there were. */
  void end(long sender, long count) {
    own.putLong(0, Message.firstWord(sender, Message.NUMBER_MASK));
    own.putLong(8, count);
    put(own, 0, Message.END_BYTES, System.nanoTime() + PATIENCE_NS);
  }

  /** Messages that were not taken at the first try. */
  long refused() {
    return refused;
  }

  /** Of a paced run. */
  long longestCallNs() {
    return longestCallNs;
  }

  private void compose(long at, long word, int length, long intendedNs) {
    int from = 0;
    if (options.paced) {
      UnsafeApi.putLong(at, word);
      UnsafeApi.putLong(at + 8, intendedNs);
      from = 16;
    }
    Message.fill(at, from, length, word);
    if (options.corruptEvery != 0 && (word & Message.NUMBER_MASK) % options.corruptEvery == 0) {
      long last = at + length - 1;
      UnsafeApi.putByte(last, (byte) ~UnsafeApi.getByte(last));
    }
  }

  /** Offers the bytes, or claims room for them if there is no buffer, until Aeron takes them. */
  private boolean put(DirectBuffer from, int at, int length, long untilNs) {
    if (attempt(from, at, length) > 0) {
      return true;
    }
    refused++;
    while (!Main.stopped && System.nanoTime() < untilNs) {
      idle.idle(bus.work());
      long result = attempt(from, at, length);
      if (result > 0) {
        return true;
      }
      if (result == Publication.CLOSED || result == Publication.MAX_POSITION_EXCEEDED) {
        throw new IllegalStateException(Publication.errorString(result));
      }
    }
    return false;
  }

  private long attempt(DirectBuffer from, int at, int length) {
    if (!options.paced) {
      return call(from, at, length);
    }
    long start = System.nanoTime();
    long result = call(from, at, length);
    longestCallNs = Math.max(longestCallNs, System.nanoTime() - start);
    return result;
  }

  private long call(DirectBuffer from, int at, int length) {
    return from == null
        ? publication.tryClaim(length, claim) : publication.offer(from, at, length);
  }
}
