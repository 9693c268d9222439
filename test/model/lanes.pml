/* One lane goes from sender to sender while its receiver frees it, dies and is succeeded.
 *
 * Functions of src/channel that this follows line by line:
 *   senders   take_lane, is_usable, open_and_take; sender_state::start (bell, open record),
 *             lane_writer::append and publish, sender_state::release
 *   receiver  take_over_lane, look_at_everything (which lanes are orphans), free_orphans,
 *             free_if_orphaned, reset_lane, activate (`adopted`)
 * All steps that matter here are system calls, or plain stores between a lock and its release, whose
 * order the kernel's lock brings about: no store buffers. (`tail` while both sides live: sleep.pml,
 * space.pml.) At a death the kernel may send the end-of-file before or after it drops the lock.
 *
 * What must hold: never two senders in the lane, nor a reset under a living one; each record published
 * is handled once, in order; a sender never touches memory that is not reserved; when nothing can
 * happen any more, all records are handled, and a lane whose sender had said hello to the living
 * receiver and ended has given its memory back.
 *
 * Settings: MUTANT (0: the protocol), RECORDS per sender, KILLS (of senders), RECEIVER_KILLS.
 */
#define SENDERS 2
#define RECEIVER SENDERS
#define CAPACITY 3
#include "settings.pml"

hidden byte mutant, records;
byte kills, receiver_kills;

/* The kernel. */
byte lane_lock; /* holder + 1, 0: nobody */
byte receivers, listening; /* number of the living receiver, 0: none */
byte connected[SENDERS];   /* the receiver at the other end */
bool event_look, ended; /* something to look at; among it the end of a connection of this lane */
bool memory; /* the lane's pages are reserved */

/* The lane's slot and ring. */
byte tail, done;
bool reserved_bytes;
byte record[CAPACITY];

/* Observed. */
byte published, expected;
byte speaker; /* sender + 1 between take_lane and its end */
bool unheard; /* the last holder ended without a connection to the living receiver */
bool dying[SENDERS];
bool kill_receiver;
byte kill_sender; /* + 1 */

/* ---- senders ----------------------------------------------------------------------------------- */

inline publish(i) {
  d_step {
    assert(speaker == i + 1 && memory && tail - done < CAPACITY);
    record[tail % CAPACITY] = published + 1
  }
  d_step { assert(speaker == i + 1); tail++; published++ }
}

inline hang_up(i) { /* part of a d_step */
  if
  :: connected[i] != 0 && connected[i] == listening -> event_look = true; ended = true
  :: else
  fi;
  connected[i] = 0
}

inline drop_lock(i) { /* part of a d_step */
  if
  :: lane_lock == i + 1 ->
     lane_lock = 0;
     unheard = mine != listening || listening == 0
  :: else
  fi
}

proctype sender(byte i) {
  byte left, mine;
  left = records;
  {
    /* take_lane */
    do
    :: d_step { lane_lock == 0 -> lane_lock = i + 1 }
       if
       :: tail == done -> break                  /* is_usable, drained */
       :: tail - done <= CAPACITY - 2 -> break   /* room for what we say first, behind a predecessor */
       :: else -> lane_lock = 0
       fi
    :: mutant == 1 -> break /* no lock */
    od;
    skip;
    d_step { assert(speaker == 0); speaker = i + 1 }
    memory = true; /* reserve_lane */
    reserved_bytes = true;
    d_step {
      mine = listening;
      connected[i] = listening;
      if
      :: listening != 0 -> event_look = true
      :: else
      fi
    }
    publish(i); /* open record */
    do
    :: left > 0 && tail - done < CAPACITY -> publish(i); left--
    :: left == 0 -> break
    od
  } unless {
    kill_sender == i + 1 -> kill_sender = 0
  }
  skip;
  d_step {
    if
    :: speaker == i + 1 -> speaker = 0
    :: else
    fi
  }
  /* release: the lock first. The kernel, at a kill: in either order. */
  if
  :: d_step { drop_lock(i) } d_step { hang_up(i) }
  :: dying[i] = true; d_step { hang_up(i) } d_step { drop_lock(i); dying[i] = false }
  fi;
  d_step { left = 0; mine = 0 }
}

/* ---- receiver ---------------------------------------------------------------------------------- */

#define has_connection \
  (listening != 0 && (connected[0] == listening || connected[1] == listening))
#define is_dying (dying[0] || dying[1])

inline reset_lane() {
  d_step { assert(speaker == 0 && (tail == position || mutant == 2)); tail = position };
  done = position;
  memory = false;
  reserved_bytes = false;
  adopted = false
}

inline free_if_orphaned() {
  if
  :: tail != position && mutant != 2 -> skip /* drain it first */
  :: else ->
     d_step {
       locked = lane_lock == 0 || mutant == 4;
       if
       :: locked -> lane_lock = RECEIVER + 1
       :: else
       fi
     }
     if
     :: !locked ->
        /* A living sender holds it; or one whose lock is about to end: look again soon. */
        if
        :: hung_up && mutant != 5
        :: else -> orphan = false
        fi
     :: else ->
        if
        :: tail != position && mutant != 2
        :: else -> reset_lane(); orphan = false
        fi;
        lane_lock = 0;
        locked = false
     fi
  fi
}

inline look_at_everything() {
  d_step {
    /* Mutant 3: a connection that came and went between two looks is no end of one. */
    hung_up = !has_connection && (hung_up || (mutant == 3 -> was_connected : ended));
    ended = false;
    was_connected = has_connection;
    orphan = (adopted || reserved_bytes) && !was_connected
  }
  if
  :: orphan -> free_if_orphaned()
  :: else
  fi
}

proctype receiver() {
  byte position;
  bool orphan, locked, adopted, was_connected, hung_up;
again:
  {
    d_step { receivers++; listening = receivers; position = done }
    look_at_everything();
end_idle:
    do
    :: tail != position ->
       adopted = true;
       d_step {
         assert(record[position % CAPACITY] == expected + 1 && memory);
         expected++
       }
       position++;
       done = position
    :: d_step { event_look -> event_look = false } look_at_everything()
    :: orphan && hung_up && !is_dying -> hung_up = false /* dying_until has passed */
    :: orphan && (tail == position || mutant == 2) && (lane_lock == 0 || !hung_up) ->
       free_if_orphaned() /* free_orphans, later */
    od
  } unless {
    kill_receiver ->
    d_step {
      kill_receiver = false; listening = 0; event_look = false; ended = false;
      expected = done; /* a record may be handled again by the successor: takeover.pml */
      if
      :: lane_lock == RECEIVER + 1 -> lane_lock = 0; unheard = true
      :: else
      fi;
      position = 0; orphan = false; locked = false; adopted = false; was_connected = false;
      hung_up = false
    }
    goto again
  }
}

proctype observer() {
end_observer:
  do
  :: receiver_kills > 0 && listening != 0 -> atomic { receiver_kills--; kill_receiver = true }
  :: kills > 0 && kill_sender == 0 && speaker != 0 -> atomic { kills--; kill_sender = speaker }
  :: timeout ->
     assert(expected == published);
     assert(lane_lock != 0 || unheard || !reserved_bytes);
     break
  od
}

init {
  c_code {
    mutant = setting("MUTANT", 0);
    records = setting("RECORDS", 2);
    now.kills = setting("KILLS", 0);
    now.receiver_kills = setting("RECEIVER_KILLS", 0);
  };
  atomic { run receiver(); run sender(0); run sender(1); run observer() }
}
