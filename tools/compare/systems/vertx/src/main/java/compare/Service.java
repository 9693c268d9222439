package compare;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.vertx.core.Vertx;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.net.NetServerOptions;
import io.vertx.core.net.NetSocket;
import io.vertx.core.parsetools.RecordParser;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;

/**
 * Replies to each body on a TCP connection, on one event loop; a body follows its length in four
 * bytes. With a fan-out, Jackson decodes it, so many timers of Vert.x run, and Jackson encodes it
 * again when the last one is over. Timers count milliseconds.
 */
public final class Service {
  private static final int LENGTH_BYTES = 4;
  private static final ObjectMapper MAPPER = new ObjectMapper();

  private final Vertx vertx = Vertx.vertx();
  private final int fanOut;
  private final long delayMinMs;
  private final long delayMaxMs;

  private Service(Map<String, String> options) {
    fanOut = Integer.parseInt(options.getOrDefault("--fan-out", "0"));
    delayMinMs = Math.max(1, Long.parseLong(options.getOrDefault("--delay-min", "50000")) / 1000);
    delayMaxMs = Math.max(delayMinMs,
        Long.parseLong(options.getOrDefault("--delay-max", "100000")) / 1000);
  }

  private void listen(String address) {
    int colon = address.lastIndexOf(':');
    vertx.createNetServer(new NetServerOptions().setTcpNoDelay(true))
        .connectHandler(this::accept)
        .listen(Integer.parseInt(address.substring(colon + 1)), address.substring(0, colon))
        .onSuccess(server -> {
          System.out.println("ready");
          System.out.flush();
        })
        .onFailure(Service::fail);
  }

  private static void fail(Throwable why) {
    System.err.println(why);
    System.exit(1);
  }

  private void accept(NetSocket socket) {
    RecordParser parser = RecordParser.newFixed(LENGTH_BYTES);
    boolean[] isLength = {true};
    parser.handler(part -> {
      if (isLength[0]) {
        parser.fixedSizeMode(part.getInt(0));
      } else {
        take(socket, part);
        parser.fixedSizeMode(LENGTH_BYTES);
      }
      isLength[0] = !isLength[0];
    });
    socket.handler(parser);
  }

  private void take(NetSocket socket, Buffer body) {
    if (fanOut == 0) {
      reply(socket, body);
      return;
    }
    try {
      JsonNode document = MAPPER.readTree(body.getBytes());
      int[] left = {fanOut};
      for (int i = 0; i < fanOut; ++i) {
        long delay = ThreadLocalRandom.current().nextLong(delayMinMs, delayMaxMs + 1);
        vertx.setTimer(delay, timer -> {
          if (--left[0] == 0) {
            encode(socket, document);
          }
        });
      }
    } catch (IOException why) {
      fail(why);
    }
  }

  private static void encode(NetSocket socket, JsonNode document) {
    try {
      reply(socket, Buffer.buffer(MAPPER.writeValueAsBytes(document)));
    } catch (IOException why) {
      fail(why);
    }
  }

  private static void reply(NetSocket socket, Buffer body) {
    Buffer framed = Buffer.buffer(LENGTH_BYTES + body.length());
    framed.appendInt(body.length()).appendBuffer(body);
    socket.write(framed);
  }

  public static void main(String[] arguments) {
    Map<String, String> options = new HashMap<>();
    for (int i = 0; i + 1 < arguments.length; i += 2) {
      options.put(arguments[i], arguments[i + 1]);
    }
    // The driver ends the service with SIGTERM; what it prints at its end is empty.
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      System.out.println("{}");
      System.out.flush();
      Runtime.getRuntime().halt(0);
    }));
    new Service(options).listen(options.get("--address"));
  }
}
