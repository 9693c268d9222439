package compare;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/** The command line that all harnesses of the comparison share. */
final class Options {
  private static final Set<String> FLAGS = Set.of("--claim", "--blocking", "--paced");

  final String role;
  /** ipc:NAME or udp:PORT, where the messages go to. */
  final String address;
  /** Where pong answers to; with ipc the same name. */
  final String replyAddress;
  final int shortest;
  final int longest;
  final double seconds;
  /** Messages a second of this sender; 0: as fast as it goes. */
  final double rate;
  /** Messages carry the time at which they were to be sent. */
  final boolean paced;
  final int sender;
  final int senders;
  final boolean claim;
  final boolean blocking;
  /** When the receiver stops reading, for pauseFor; negative: never. */
  final double pauseAfter;
  final double pauseFor;
  /** The receiver ends so long after the last message. */
  final double patience;
  /** Until the just-in-time compiler has done its work: seconds of messages that nobody counts. */
  final double warmUp;
  /** For tests of the check: one byte in each so many messages is sent wrong; 0: none. */
  final long corruptEvery;

  Options(String[] arguments) {
    Map<String, String> given = new HashMap<>();
    for (int i = 0; i < arguments.length; i++) {
      String name = arguments[i];
      given.put(name, FLAGS.contains(name) ? "true" : arguments[++i]);
    }
    role = given.remove("--role");
    address = given.remove("--address");
    replyAddress = given.getOrDefault("--reply-address", address);
    given.remove("--reply-address");
    shortest = (int) number(given, "--bytes-min", 8);
    longest = (int) number(given, "--bytes-max", 128);
    seconds = number(given, "--seconds", 1);
    rate = number(given, "--rate", 0);
    paced = given.remove("--paced") != null || rate > 0;
    sender = (int) number(given, "--sender", 0);
    senders = (int) number(given, "--senders", 1);
    claim = given.remove("--claim") != null;
    blocking = given.remove("--blocking") != null;
    pauseAfter = number(given, "--pause-after", -1);
    pauseFor = number(given, "--pause-for", 0);
    patience = number(given, "--patience", 2);
    warmUp = number(given, "--warm-up", 0);
    corruptEvery = (long) number(given, "--corrupt-every", 0);
    if (role == null || address == null || !given.isEmpty()) {
      throw new IllegalArgumentException("needs --role and --address; unknown: " + given.keySet());
    }
  }

  private static double number(Map<String, String> given, String name, double otherwise) {
    String value = given.remove(name);
    return value == null ? otherwise : Double.parseDouble(value);
  }
}
