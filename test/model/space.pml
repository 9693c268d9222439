/* A sender waits for room while its receiver works, dies and is succeeded: no wake-up is lost, and
 * no record is read before it was written or overwritten before it was read.
 *
 * Functions of src/channel and include/atbus/channel that this follows line by line:
 *   sender    lane_writer::make_room, append and publish; sender_state::has_room, wait_writable,
 *             prepare_sleep, finish_sleep, sleep, longest_sleep; bell_client::connect and drain
 *   receiver  lane_reader::refresh, publish_head and has_request; receiver_core::visit (one
 *             record a turn or more) and give_back; answer_request; bell_server::take_events and ring;
 *             receiver_state::handle, look_at_everything, start and take_over_lane
 * How the receiver learns of records is the subject of sleep.pml: here it just sees the tail.
 *
 * What must hold: the sender never sleeps for ever (Spin's check for invalid end states: asleep is
 * none), and the assertion on the bytes in visit().
 *
 * Settings: MUTANT (0: the protocol), RECORDS, RECEIVER_KILLS, NO_MEMBARRIER (1: it is refused to the
 * sender at each call; 2: also its registration, so that it says so in its first request; 3: the receiver
 * could not register), PREDECESSOR (1: the lane holds a record of a sender that asked for fences and
 * got its answer).
 */
#define SENDER 0
#define RECEIVER 1
#define PROCS 2
#define CAPACITY 2
/* Shared words. */
#define TAIL 0
#define HEAD 1
#define DONE 2
#define REQUEST 3 /* 4 * position + 2 * request_fence + request_space */
#define FENCE_ANSWERED 4
#define DATA 5 /* + position % CAPACITY */
#define WORDS 7
#include "settings.pml"
#include "memory.pml"

hidden byte mutant, records, no_membarrier;
byte receiver_kills;

/* Bells. connected: the listener at the other end of the sender's connection; said: it has sent its
 * lane number there. Events are level-triggered. */
byte connected, listening, generation;
bool said, known; /* known: the receiver has read the lane number */
bool event_look;  /* for the receiver: a connection, a lane number, an end-of-file */
bool rung;        /* for the sender: a byte from the receiver */
bool watching, appeared; /* inotify on the directory; the bell was renamed into place */
bool kill_receiver;

/* ---- sender ------------------------------------------------------------------------------------ */

#define end_of_file (connected != 0 && connected != listening)

inline has_room() { /* into room_now */
  d_step { peek(SENDER, HEAD, tmp); room_now = position - tmp < CAPACITY; tmp = 0 }
}

inline connect_bell() {
  connected = listening;
  if
  :: connected != 0 ->
     event_look = true;
     said = true;
     event_look = true
  :: else
  fi
}

inline finish_sleep() {
  store_release(SENDER, REQUEST, (fence_flag -> 2 : 0));
  if
  :: d_step { end_of_file && mutant != 4 -> connected = 0; said = false; rung = false }
  :: d_step { !end_of_file -> rung = false }
  :: mutant == 4 && end_of_file -> rung = false
  fi;
  if
  :: connected != 0 -> watching = false
  :: else
  fi;
  appeared = false
}

/* false in room_now: sleep. */
inline prepare_sleep() {
  store_release(SENDER, REQUEST, 4 * (position + 1 - CAPACITY) + (always_fence -> 2 : 0) + 1);
  fence(SENDER); /* the store is seq_cst */
  fence_flag = always_fence;
  if
  :: no_membarrier == 0 || no_membarrier == 3 ->
     if
     :: mutant == 1
     :: else -> membarrier(SENDER)
     fi
  :: else ->
     fence_flag = true;
     if
     :: !always_fence -> d_step { mem[REQUEST] = mem[REQUEST] + 2 } /* fetch_or */
     :: else
     fi
  fi;
  room_now = false;
  if
  :: mutant != 2 -> has_room()
  :: else
  fi;
  if
  :: room_now -> finish_sleep()
  :: else ->
     if
     :: connected == 0 -> connect_bell()
     :: else
     fi;
     if
     :: connected == 0 && !watching ->
        watching = true;
        if
        :: mutant != 5 -> connect_bell() /* it may have appeared meanwhile */
        :: else
        fi
     :: else
     fi;
     if
     :: mutant != 2 -> has_room()
     :: else
     fi;
     if
     :: room_now -> finish_sleep()
     :: else
     fi
  fi
}

inline wait_writable() {
  has_room();
  do
  :: room_now -> break
  :: else ->
     prepare_sleep();
     if
     :: room_now -> skip
     :: else ->
        /* longest_sleep: a millisecond while the receiver may not know that it has to fence. */
        unsure = false;
        if
        :: fence_flag -> d_step {
             peek(SENDER, FENCE_ANSWERED, tmp); unsure = tmp == 0;
             peek(SENDER, HEAD, tmp); unsure = unsure || (mutant != 7 && tmp < first_own); tmp = 0 }
        :: else
        fi;
asleep:
        if
        :: rung || (end_of_file && mutant != 4) || appeared
        :: unsure
        fi;
        unsure = false;
        finish_sleep();
        has_room()
     fi
  od;
  room_now = false
}

proctype sender() {
  byte position, tmp, first_own;
  bool room_now, always_fence, fence_flag, unsure;
  position = mem[TAIL];
  first_own = position + 1; /* behind our open record, which is the first we publish */
  always_fence = no_membarrier == 2;
  fence_flag = always_fence;
  store_release(SENDER, REQUEST, (always_fence && mutant != 7 -> 2 : 0));
  connect_bell();
  do
  :: position < records ->
     wait_writable();
     store_relaxed(SENDER, DATA + position % CAPACITY, position + 1);
     position++;
     if
     :: mutant == 6 -> store_relaxed(SENDER, TAIL, position)
     :: else -> store_release(SENDER, TAIL, position)
     fi
  :: else -> break
  od;
  skip;
  d_step { position = 0; fence_flag = false; always_fence = false; first_own = 0 }
}

/* ---- receiver ---------------------------------------------------------------------------------- */

inline answer_request() {
  load(RECEIVER, REQUEST, request);
  if
  :: request & 2 ->
     store_relaxed(RECEIVER, FENCE_ANSWERED, 1);
     fence(RECEIVER);
     load(RECEIVER, REQUEST, request)
  :: else
  fi;
  if
  :: !(request & 1) || request == answered
  :: else ->
     if
     :: head < request / 4 /* not yet there */
     :: else ->
        /* bell_server::ring: false if its sender has not said its lane on this connection. What was
         * stored before a send is visible to whoever has received it: the kernel's locks see to it. */
        fence(RECEIVER);
        if
        :: d_step { known && connected == listening -> rung = true; answered = request }
        :: else
        fi
     fi
  fi;
  request = 0
}

inline give_back() {
  head = at;
  store_release(RECEIVER, HEAD, head);
  if
  :: no_membarrier == 3 -> fence(RECEIVER)
  :: else
  fi;
  load(RECEIVER, REQUEST, request);
  if
  :: request != 0 -> answer_request()
  :: else
  fi;
  request = 0
}

inline visit() {
  do
  :: at < tail ->
     d_step { peek(RECEIVER, DATA + at % CAPACITY, tmp); assert(tmp == at + 1); tmp = 0; at++ }
     store_relaxed(RECEIVER, DONE, at);
     if
     :: give_back()
     :: at < tail /* head may trail */
     fi
  :: at == tail -> break
  od
}

inline handle_events() {
  d_step { event_look = false; known = said && connected == listening }
  answered = 0;
  load(RECEIVER, REQUEST, request);
  if
  :: request != 0 && mutant != 3 -> answer_request()
  :: else
  fi;
  request = 0
}

inline start() {
  /* The lock is ours. A new bell is bound, and renamed over the old one. */
  d_step {
    generation++; listening = generation; event_look = false; known = false;
    appeared = watching;
    /* take_over_lane: what a dead receiver wrote is visible. */
    at = mem[DONE]; tail = at; head = mem[HEAD]; answered = 0; request = 0; tmp = 0
  }
  if
  :: head != at -> give_back()
  :: else
  fi;
  load(RECEIVER, REQUEST, request); /* look_at_everything */
  if
  :: request != 0 -> answer_request()
  :: else
  fi;
  request = 0
}

proctype receiver() {
  byte at, head, tail, request, answered, tmp;
again:
  {
    start();
end_idle:
    do
    :: d_step { mem[TAIL] != tail -> tail = mem[TAIL] } visit()
    :: event_look -> handle_events()
    od
  } unless {
    kill_receiver ->
    d_step { kill_receiver = false; drain(RECEIVER); listening = 0; event_look = false;
             known = false; at = 0; head = 0; tail = 0; request = 0; answered = 0; tmp = 0 }
    goto again
  }
}

proctype killer() {
end_killer:
  do
  :: receiver_kills > 0 && listening != 0 -> atomic { receiver_kills--; kill_receiver = true }
  od
}

init {
  c_code {
    mutant = setting("MUTANT", 0);
    records = setting("RECORDS", 4);
    now.receiver_kills = setting("RECEIVER_KILLS", 0);
    no_membarrier = setting("NO_MEMBARRIER", 0);
    if (setting("PREDECESSOR", 0)) {
      now.mem[0] = 1; /* TAIL, DATA, FENCE_ANSWERED */
      now.mem[5] = 1;
      now.mem[4] = 1;
    }
  };
  atomic { run memory(); run receiver(); run sender(); run killer() }
}
