/* A receiver goes to sleep while senders publish: no wake-up is lost.
 *
 * Functions of src/channel and include/atbus/channel that this follows line by line:
 *   sender    sender_state::start (bell, first record), lane_writer::publish,
 *             sender_core::answer_alert, sender_state::rouse_receiver, fence_while_sparse,
 *             connect_bell, bell_client::connect and ring
 *   receiver  receiver_state::start, take_over_lane, take_ready_lanes, wake_lane, activate,
 *             look_at_everything, look_at_bells, park_idle_lanes, reactivate, prepare_sleep,
 *             finish_sleep, wait
 *
 * What must hold (`lost`): never is the receiver asleep with no bell pending, or polling with nothing
 * left to look at, while a record is published, unhandled, and its sender not inside publish().
 *
 * Settings: MUTANT (0: the protocol), RECORDS and RECORDS_B of the two senders, SENDER_KILLS, RECEIVER_KILLS, TIMEOUTS
 * (1: sleeps may end by themselves), PARKING (1: idle lanes are parked), NO_MEMBARRIER (1: the
 * kernel refuses it), SPARSE (1: a sender may begin to fence its publishes at a ring, and end that at a publish
 * without one).
 */
#define SENDERS 2
#define RECEIVER SENDERS
#define PROCS (SENDERS + 1)
/* Shared words. */
#define TAIL 0     /* + lane: records published in it */
#define ALERT 2   /* + lane: 4 * count + 2 * alert_fence + alert_parked */
#define SLEEPING 4 /* SLEEPS * generation + sleep count, 0 = awake */
#define GENERATION 5
#define ECHO 6     /* + lane: fence_echo */
#define WORDS 8
#define SLEEPS 16
#include "settings.pml"
#define AFTER_COMMIT c_code { tidy(); }
#include "memory.pml"

#define NO_ALERT 255
#define is_parked(alert) ((alert) & 1)
#define asks_for_fences(alert) ((alert) & 2)

hidden byte mutant, records[SENDERS];
byte sender_kills, receiver_kills;
hidden byte timeouts, parking, no_membarrier, sparse;

bool ready[SENDERS]; /* changed by locked instructions only: no buffer */

/* Bells. connected[i]: the listener at the other end of sender i's connection. Events are
 * level-triggered: they last until read. */
byte connected[SENDERS], listening /* 0: nobody */;
bool event_ring, event_look;

/* Private to the senders; global so that fresh_alert can see them. */
byte seen[SENDERS], answered[SENDERS], alert[SENDERS], last_rung[SENDERS], asleep_value[SENDERS];

/* Private to the receiver. */
bool looked_at[SENDERS]; /* lane_reader::active */
byte handled[SENDERS];   /* lane_reader::position */

/* Observed by the property only. */
byte published[SENDERS];
bool publishing[SENDERS]; /* inside publish(), or dying before its end-of-file is out */
bool unheard[SENDERS];    /* killed inside publish() with no connection to the living receiver */
bool asleep;              /* in epoll_wait without a time limit */
bool kill_sender, kill_receiver;

/* The code counts alerts and sleeps with 32 bits each. Their values are only ever compared for
 * equality. So here a new one gets a number that nobody holds, and after each step `tidy` numbers what
 * is left anew, in a fixed order, and forgets what can't be met again: the same behaviour, and the
 * number of states stays finite without a bound on sleeps. */
#define FRESH 15
#define NEW_ALERT(flags) (4 * FRESH + (fence_needed -> 2 : 0) + flags)
c_code {
  static unsigned char known[16];
  static int known_count;

  static int number_of(unsigned char value) {
    int i;
    for (i = 0; i < known_count && known[i] != value; ++i)
      continue;
    if (i == known_count)
      known[known_count++] = value;
    return i;
  }
  static int is_known(unsigned char value) {
    int i;
    for (i = 0; i < known_count; ++i)
      if (known[i] == value)
        return 1;
    return 0;
  }
  static void number_alert(unsigned char* value) {
    if (*value != 255)
      *value = (unsigned char)(4 * number_of(*value) + *value % 4);
  }
  static void number_sleep(unsigned char* value) {
    if (*value % 16 != 0)
      *value = (unsigned char)(*value / 16 * 16 + number_of(*value) + 1);
  }
  static void tidy(void) {
    int i, k;
    if (mutant == 7)
      return;
    for (i = 0; i < 2; ++i) {
      known_count = 0;
      number_alert(&now.mem[2 + i]);
      for (k = 0; k < now.buffer[2].n; ++k)
        if (now.buffer[2].at[k] == 2 + i)
          number_alert(&now.buffer[2].value[k]);
      number_alert(&now.alert[i]);
      if (!is_known(now.seen[i]))
        now.seen[i] = 255;
      if (!is_known(now.answered[i]))
        now.answered[i] = 255;
      number_alert(&now.seen[i]);
      number_alert(&now.answered[i]);
    }
    known_count = 0;
    number_sleep(&now.mem[4]);
    for (k = 0; k < now.buffer[2].n; ++k)
      if (now.buffer[2].at[k] == 4)
        number_sleep(&now.buffer[2].value[k]);
    for (i = 0; i < 2; ++i)
      number_sleep(&now.asleep_value[i]);
    for (i = 0; i < 2; ++i) {
      if (!is_known(now.last_rung[i]))
        now.last_rung[i] = 0;
      number_sleep(&now.last_rung[i]);
    }
  }
};

/* ---- sender ------------------------------------------------------------------------------------ */

inline hang_up(i) { /* part of a d_step */
  if
  :: connected[i] != 0 && connected[i] == listening && mutant != 5 -> event_look = true
  :: else
  fi;
  connected[i] = 0
}

inline connect_bell(i) {
  load(i, GENERATION, bell_generation);
  d_step {
    hang_up(i);
    if
    :: listening != 0 -> connected[i] = listening; event_look = true
    :: else
    fi
  }
}

inline rouse_receiver(i) {
  if
  :: mutant == 3 -> load(i, SLEEPING, asleep_value[i]) /* before the bit is set */
  :: else
  fi;
  d_step { buffer[i].n == 0 -> ready[i] = true } /* fetch_or and fence */
  if
  :: mutant != 3 -> load(i, SLEEPING, asleep_value[i])
  :: else
  fi;
  if
  :: asleep_value[i] % SLEEPS == 0 || asleep_value[i] == last_rung[i]
  :: else ->
     d_step { last_rung[i] = asleep_value[i]; c_code { tidy(); } };
     if
     :: sparse && !fences && !always_fence -> fence_while_sparse(i, true)
     :: true
     fi;
     /* bell_client::ring fails when the other end is closed. */
     if
     :: d_step { bell_generation == asleep_value[i] / SLEEPS && connected[i] != 0 &&
                 connected[i] == listening -> event_ring = true }
     :: else -> connect_bell(i)
     fi
  fi
}

inline fence_while_sparse(i, on) {
  fences = on;
  store_release(i, ECHO + i, (on -> 1 : 0));
  if
  :: mutant != 11 || on -> fence(i)
  :: else
  fi;
  d_step { seen[i] = NO_ALERT; c_code { tidy(); } }
}

inline answer_alert(i) {
  if
  :: always_fence || (fences && mutant != 12) -> fence(i)
  :: else
  fi;
  load(i, ALERT + i, alert[i]);
  if
  :: asks_for_fences(alert[i]) && !always_fence ->
     always_fence = true;
     store_release(i, ECHO + i, 1);
     if
     :: mutant != 8 -> fence(i); load(i, ALERT + i, alert[i])
     :: else
     fi
  :: else
  fi;
  d_step {
    seen[i] = (always_fence || fences -> NO_ALERT : alert[i]);
    changed = alert[i] != answered[i];
    answered[i] = alert[i];
    c_code { tidy(); }
  }
  if
  :: changed && is_parked(alert[i]) -> rouse_receiver(i)
  :: !changed && fences && !always_fence -> fence_while_sparse(i, false)
  :: !changed || !is_parked(alert[i])
  fi
}

inline publish(i) {
  d_step {
    room(i) -> publishing[i] = true; published[i]++;
    put_release(i, TAIL + i, published[i])
  }
  d_step { peek(i, ALERT + i, alert[i]); changed = alert[i] != seen[i]; c_code { tidy(); } }
  if
  :: changed -> answer_alert(i)
  :: else
  fi;
  d_step { publishing[i] = false; alert[i] = NO_ALERT; asleep_value[i] = 0; changed = false;
           c_code { tidy(); } }
}

proctype sender(byte i) {
  byte bell_generation;
  bool always_fence, fences, changed;
  bell_generation = 1;
  {
    do
    :: published[i] < records[i] -> publish(i)
    :: published[i] == records[i] -> break
    od
  } unless {
    kill_sender && i == 0 ->
    /* A killed process's stores are visible before the kernel closes its descriptors. */
    d_step {
      kill_sender = false;
      unheard[i] = publishing[i] && (connected[i] == 0 || connected[i] != listening);
      drain(i)
    }
    d_step { hang_up(i); publishing[i] = false }
  }
  skip;
  d_step {
    bell_generation = 0; always_fence = 0; fences = 0; changed = 0;
    alert[i] = NO_ALERT; asleep_value[i] = 0; last_rung[i] = 0; seen[i] = NO_ALERT;
    answered[i] = NO_ALERT; c_code { tidy(); }
  }
}

/* ---- receiver ---------------------------------------------------------------------------------- */

inline set_alert(i, flags) {
  d_step {
    room(RECEIVER) -> put_release(RECEIVER, ALERT + i, NEW_ALERT(flags));
    c_code { tidy(); }
  }
}

inline barrier() {
  if
  :: no_membarrier -> fence(RECEIVER)
  :: else -> membarrier(RECEIVER)
  fi
}

inline finish_sleep() {
  if
  :: sleeping -> sleeping = false; store_relaxed(RECEIVER, SLEEPING, SLEEPS * generation)
  :: else
  fi
}

inline activate(i) {
  if
  :: !looked_at[i] -> finish_sleep(); looked_at[i] = true; set_alert(i, 0)
  :: else
  fi
}

/* Activates the lanes that have records and that nobody looks at: in look_at_everything. */
inline look_at_tails() {
  do
  :: l < SENDERS ->
     d_step { peek(RECEIVER, TAIL + l, tmp); found = !looked_at[l] && tmp != handled[l]; tmp = 0 };
     if
     :: found -> found = false; activate(l)
     :: else
     fi;
     l++
  :: else -> l = 0; break
  od
}

inline take_ready_lanes() {
  d_step { /* exchange */
    buffer[RECEIVER].n == 0 -> bit0 = ready[0]; bit1 = ready[1]; ready[0] = false; ready[1] = false
  }
  if
  :: bit0 -> activate(0); bit0 = false
  :: else
  fi;
  if
  :: bit1 -> activate(1); bit1 = false
  :: else
  fi
}

inline take_events() {
  d_step { found = event_look; event_look = false; event_ring = false }
  if
  :: found -> found = false; look_at_tails()
  :: else
  fi
}

inline park_idle_lane(i) {
  looked_at[i] = false;
  set_alert(i, 1);
  if
  :: mutant != 4 -> barrier()
  :: else
  fi;
  d_step { peek(RECEIVER, TAIL + i, tmp); found = tmp != handled[i]; tmp = 0 };
  if
  :: found -> found = false; activate(i)
  :: else
  fi
}

inline every_sender_fences() {
  all_fence = true;
  do
  :: l < SENDERS ->
     d_step { peek(RECEIVER, ECHO + l, tmp); all_fence = all_fence && tmp == 1; tmp = 0 };
     l++
  :: else -> l = 0; break
  od
}

inline lanes_fence() { /* of those that are parked now */
  d_step {
    all_fence = true;
    do
    :: l < SENDERS ->
       peek(RECEIVER, ECHO + l, tmp);
       all_fence = all_fence && (!was_looked_at[l] || tmp == 1);
       tmp = 0;
       l++
    :: else -> break
    od;
    l = 0
  }
}

inline prepare_sleep() { /* found: true = do not sleep */
  d_step { /* three stores into an empty buffer */
    buffer[RECEIVER].n == 0 ->
    do
    :: l < SENDERS ->
       if
       :: looked_at[l] ->
          looked_at[l] = false;
          was_looked_at[l] = true;
          put_release(RECEIVER, ALERT + l, NEW_ALERT(1))
       :: else
       fi;
       l++
    :: else -> break
    od;
    l = 0;
    sleeping = true;
    /* Mutant 7: sleeps are not told apart. */
    put_release(RECEIVER, SLEEPING, SLEEPS * generation + (mutant == 7 -> 1 : FRESH));
    c_code { tidy(); }
  }
  if
  :: mutant != 13 -> fence(RECEIVER); lanes_fence()
  :: else -> lanes_fence(); fence(RECEIVER)
  fi;
  if
  :: !all_fence && mutant != 1 -> barrier()
  :: else
  fi;
  all_fence = false;
  do /* reactivate(parked_now_) */
  :: l < SENDERS && mutant != 2 ->
     d_step { peek(RECEIVER, TAIL + l, tmp); found = was_looked_at[l] && tmp != handled[l];
              was_looked_at[l] = false; tmp = 0 };
     if
     :: found -> activate(l) /* leaves `sleeping` false */
     :: else
     fi;
     l++
  :: else -> l = 0; break
  od;
  found = false;
  if
  :: mutant != 2 && (ready[0] || ready[1]) -> finish_sleep()
  :: else
  fi
}

inline start() {
  d_step { listening = generation; fence_needed = false; sleeping = false }
  store_release(RECEIVER, GENERATION, generation);
  store_release(RECEIVER, SLEEPING, SLEEPS * generation);
  do /* take_over_lane */
  :: l < SENDERS -> set_alert(l, 1); l++
  :: else -> l = 0; break
  od;
  if
  :: mutant != 6 -> barrier()
  :: else
  fi;
  if
  :: no_membarrier ->
     fence_needed = true;
     do
     :: l < SENDERS -> set_alert(l, 1); l++
     :: else -> l = 0; break
     od
  :: else
  fi;
  look_at_tails()
}

/* Something for poll to do at once. */
#define at_hand(i) (looked_at[i] && mem[TAIL + i] != handled[i])
/* A record that nothing under way will bring to the receiver's attention. */
#define waiting(i)                                                                       \
  (published[i] > handled[i] && !publishing[i] && !unheard[i] && !event_ring && !event_look)
/* The same for a receiver that polls. */
#define will_look (no_membarrier && !(mem[ECHO] && mem[ECHO + 1]))
#define forgotten(i) (waiting(i) && !looked_at[i] && !ready[i] && buffer[i].n == 0)

proctype receiver() {
  byte generation, l, tmp;
  bool sleeping, found, fence_needed, all_fence;
  bool was_looked_at[SENDERS], bit0, bit1;
  generation = 1;
again:
  {
    if
    :: generation != listening -> start()
    :: else
    fi;
    do
    :: ready[0] || ready[1] -> take_ready_lanes()
    :: d_step { at_hand(0) -> handled[0] = mem[TAIL] } /* poll, visit */
    :: d_step { at_hand(1) -> handled[1] = mem[TAIL + 1] }
    :: event_look || event_ring -> take_events()
    :: no_membarrier && !asleep -> /* look_at_bells, every millisecond until all fence */
       every_sender_fences();
       if
       :: !all_fence && mutant != 9 -> look_at_tails()
       :: else
       fi;
       all_fence = false
    :: parking && !no_membarrier && looked_at[0] -> park_idle_lane(0)
    :: parking && !no_membarrier && looked_at[1] -> park_idle_lane(1)
    :: !(ready[0] || ready[1] || at_hand(0) || at_hand(1)) ->
       prepare_sleep();
       if
       :: !sleeping
       :: else ->
          all_fence = true;
          if
          :: no_membarrier && mutant != 10 -> every_sender_fences()
          :: else
          fi;
          if
          :: all_fence ->
             all_fence = false;
             asleep = true;
end_asleep:
             if
             :: event_look || event_ring
             :: timeouts
             fi;
             asleep = false
          :: else /* at most a millisecond */
          fi;
          finish_sleep();
          if
          :: no_membarrier -> look_at_tails()
          :: else
          fi;
          take_events()
       fi
    :: d_step { (forgotten(0) || forgotten(1)) && (!will_look || mutant == 9) -> assert(false) }
    od
  } unless {
    kill_receiver ->
    d_step {
      kill_receiver = false; generation++; asleep = false;
      drain(RECEIVER);
      listening = 0; event_ring = false; event_look = false;
      looked_at[0] = false; looked_at[1] = false; bit0 = false; bit1 = false; l = 0; tmp = 0; found = false;
      was_looked_at[0] = false; was_looked_at[1] = false; all_fence = false;
      unheard[0] = false
    }
    goto again
  }
}

/* ---- kills and the property -------------------------------------------------------------------- */

#define lost(i) (asleep && waiting(i))

proctype observer() {
end_observer:
  do
  :: sender_kills > 0 -> atomic { sender_kills--; kill_sender = true }
  :: receiver_kills > 0 && listening != 0 -> atomic { receiver_kills--; kill_receiver = true }
  :: lost(0) || lost(1) -> assert(false)
  od
}

init {
  c_code {
    mutant = setting("MUTANT", 0);
    records[0] = setting("RECORDS", 2);
    records[1] = setting("RECORDS_B", 1);
    now.sender_kills = setting("SENDER_KILLS", 0);
    now.receiver_kills = setting("RECEIVER_KILLS", 0);
    timeouts = setting("TIMEOUTS", 0);
    parking = setting("PARKING", 0);
    no_membarrier = setting("NO_MEMBARRIER", 0);
    sparse = setting("SPARSE", 0);
  };
  d_step {
    seen[0] = NO_ALERT; seen[1] = NO_ALERT;
    answered[0] = NO_ALERT; answered[1] = NO_ALERT;
    alert[0] = NO_ALERT; alert[1] = NO_ALERT;
    /* start() and two times sender::open, up to connect_bell, are over. */
    mem[ECHO + 1] = records[1] == 0; /* an unused lane does not count */
    listening = 1; mem[GENERATION] = 1; mem[SLEEPING] = SLEEPS; mem[ALERT] = 1; mem[ALERT + 1] = 1;
    connected[0] = 1; connected[1] = 1
  }
  atomic { run memory(); run receiver(); run sender(0); run sender(1); run observer() }
}
