/* A receiver is killed at any instruction and succeeded; the sender publishes, takes back what was
 * not handled, and may be killed in the middle of it.
 *
 * Functions of src/channel and include/atbus/channel that this follows line by line:
 *   receiver  receiver::open (the lock), receiver_state::start, take_over_lane, wake_lane,
 *             look_at_everything, free_if_orphaned (a withdrawn lane whose sender died),
 *             receiver_core::visit, visit_frame::enter and returned, special_record
 *   sender    lane_writer::append, publish and rewind, sender_state::take_back, find_own_records,
 *             list_records
 * Each record takes one position. How the receiver learns of records and of ends is the subject of
 * sleep.pml and lanes.pml: here it sees them.
 *
 * What must hold (the assertions, and `account` when nothing can happen any more): every published
 * message is handed to a handler, once; or again, each further time with the redelivered mark, and only
 * the one whose handler had been entered; or its sender is told not_delivered, then it never was and
 * never will be; or outcome_unknown, then it is not handed out from then on. In order. What a
 * killed sender published arrives up to some point, without gaps.
 *
 * Settings: MUTANT (0: the protocol), RECORDS, RECEIVER_KILLS, SENDER_KILLS, TAKE_BACKS.
 */
#define SENDER 0
#define RECEIVER 1
#define PROCS 2
#define MOST 6
/* Shared words. Positions count records. */
#define TAIL 0
#define DONE 1
#define HANDLING 2
#define WITHDRAWN 3
#define RECORD 4 /* + position: what stands there */
#define WORDS (RECORD + MOST)
#include "settings.pml"
#include "memory.pml"
/* Contents of a record: the number of a message, or */
#define PADDING 100
#define OPEN 101

hidden byte mutant, records;
byte receiver_kills, sender_kills, take_backs;
bool kill_receiver, kill_sender;
bool receiver_lock, lane_lock; /* held: the kernel's */

/* Observed by the property only. Messages are numbered in the order of publication. */
byte published, last_delivered;
bool entered[MOST + 1], returned[MOST + 1], told_unknown[MOST + 1], cut[MOST + 1];
bool sender_gone;

/* ---- receiver ---------------------------------------------------------------------------------- */

inline take_over_lane() {
  d_step { peek(RECEIVER, DONE, position); tail = position }
  load(RECEIVER, HANDLING, handling);
  if
  :: mutant == 2 -> skipped = false
  :: else -> d_step { peek(RECEIVER, WITHDRAWN, tmp); skipped = tmp; tmp = 0 }
  fi;
  d_step {
    peek(RECEIVER, TAIL, tmp);
    assert(skipped || tmp >= position);
    redelivering = !skipped && handling > position && handling <= tmp;
    tmp = 0; handling = 0
  }
}

inline visit_one() {
  load(RECEIVER, RECORD + position, at);
  if
  :: at >= PADDING ->
     position++;
     redelivering = false;
     store_relaxed(RECEIVER, DONE, position)
  :: else ->
     assert(at != 0);
     if
     :: mutant != 3 -> store_relaxed(RECEIVER, HANDLING, position + 1)
     :: else
     fi;
     d_step { /* the handler is entered */
       assert(!returned[at] && !told_unknown[at]);
       assert(!entered[at] || redelivering);
       assert(at >= last_delivered); /* in order */
       entered[at] = true; last_delivered = at
     }
     if
     :: mutant == 4 -> position++; redelivering = false; store_relaxed(RECEIVER, DONE, position - 1)
     :: else -> position++; redelivering = false; store_relaxed(RECEIVER, DONE, position)
     fi
  fi;
  at = 0
}

proctype receiver() {
  byte position, tail, handling, at, tmp;
  bool skipped, redelivering;
again:
  {
    atomic { !receiver_lock -> receiver_lock = true } /* the dead one's stores are visible: kernel */
    take_over_lane();
end_idle:
    do
    :: skipped && !mem[WITHDRAWN] -> /* wake_lane */
       take_over_lane()
    :: skipped && !lane_lock -> /* free_if_orphaned; nobody else may take the lock meanwhile */
       d_step { lane_lock = true; mem[WITHDRAWN] = 0 }
       take_over_lane();
       lane_lock = false
    :: d_step { !skipped && tail != mem[TAIL] -> tail = mem[TAIL] } /* refresh */
    :: !skipped && position < tail -> visit_one()
    od
  } unless {
    kill_receiver ->
    d_step {
      kill_receiver = false; drain(RECEIVER); position = 0; tail = 0; handling = 0; at = 0; tmp = 0;
      skipped = false; redelivering = false
    }
    receiver_lock = false;
    goto again
  }
}

/* ---- sender ------------------------------------------------------------------------------------ */

inline publish() {
  d_step {
    room(SENDER) -> put_relaxed(SENDER, RECORD + position, published + 1);
    what[position] = published + 1
  }
  d_step {
    room(SENDER) -> published++; position++;
    put_release(SENDER, TAIL, position)
  }
}

/* Tells of records [begin, end); a copy of what stands there. */
inline tell() {
  do
  :: begin < end ->
     d_step {
       if
       :: unknown -> told_unknown[what[begin]] = true
       :: else -> assert(!entered[what[begin]]); returned[what[begin]] = true
       fi;
       unknown = false; begin++
     }
  :: else -> break
  od;
  skip
}

inline pad_first() {
  d_step {
    room(SENDER) -> put_relaxed(SENDER, RECORD + begin, PADDING);
    cut[what[begin]] = true
  }
}

inline take_back() {
  if
  :: mutant != 1 -> store_release(SENDER, WITHDRAWN, 1); fence(SENDER)
  :: else
  fi;
  alive = receiver_lock; /* F_OFD_GETLK */
  if
  :: alive && mutant != 5 -> store_release(SENDER, WITHDRAWN, 0)
  :: else ->
     /* find_own_records */
     d_step {
       peek(SENDER, DONE, begin); peek(SENDER, HANDLING, tmp); end = position;
       begin = (begin < first_own -> first_own : begin);
       keep = begin;
       unknown = mem[DONE] == begin && tmp > begin && tmp <= end && mutant != 6;
       if
       :: unknown -> keep = tmp
       :: else
       fi;
       tmp = 0
     }
     if
     :: unknown && mutant == 7 -> pad_first()
     :: else
     fi;
     if
     :: mutant == 9 -> tmp = begin; tell(); begin = tmp; tmp = 0
     :: else
     fi;
     d_step { /* rewind */
       room(SENDER) -> put_release(SENDER, TAIL, keep); position = keep;
       tmp = keep;
       do
       :: tmp < end -> cut[what[tmp]] = true; tmp++
       :: else -> break
       od;
       tmp = 0
     }
     if
     :: unknown && mutant != 7 && mutant != 8 -> pad_first()
     :: else
     fi;
     store_release(SENDER, WITHDRAWN, 0);
     fence(SENDER); /* rouse_receiver */
     tell();
     d_step { begin = 0; end = 0; keep = 0; unknown = false }
  fi;
  alive = false
}

proctype sender() {
  byte position, first_own, begin, end, keep, tmp;
  byte what[MOST]; /* the bytes of our lane */
  bool alive, unknown;
  first_own = 2;
  position = 2;
  {
    do
    :: published < records && position < MOST -> publish()
    :: take_backs > 0 -> take_backs--; take_back()
    :: published == records || position == MOST -> break
    od
  } unless {
    kill_sender ->
    d_step { kill_sender = false; sender_gone = true; drain(SENDER) }
  }
  lane_lock = false;
  d_step {
    position = 0; begin = 0; end = 0; keep = 0; tmp = 0; alive = false; unknown = false; first_own = 0;
    do
    :: tmp < MOST -> what[tmp] = 0; tmp++
    :: else -> break
    od;
    tmp = 0
  }
}

/* ---- kills and the property -------------------------------------------------------------------- */

/* Nothing can happen any more: each message has its outcome. */
inline account() {
  d_step {
    m = 1;
    gap = false;
    do
    :: m <= published ->
       assert(!(returned[m] && entered[m]));
       if
       :: returned[m] || told_unknown[m]
       :: entered[m] -> assert(!gap)
       :: else -> assert(sender_gone && cut[m]); gap = true /* nobody was told, or is left to tell */
       fi;
       m++
    :: else -> break
    od;
    m = 0
  }
}

proctype observer() {
  byte m;
  bool gap;
end_observer:
  do
  :: sender_kills > 0 && lane_lock && !sender_gone -> atomic { sender_kills--; kill_sender = true }
  :: receiver_kills > 0 && receiver_lock -> atomic { receiver_kills--; kill_receiver = true }
  :: timeout -> account(); break
  od
}

init {
  c_code {
    mutant = setting("MUTANT", 0);
    records = setting("RECORDS", 4);
    now.receiver_kills = setting("RECEIVER_KILLS", 0);
    now.sender_kills = setting("SENDER_KILLS", 0);
    now.take_backs = setting("TAKE_BACKS", 0);
  };
  d_step { /* what a predecessor left in the lane, and our open record */
    published = 1; mem[RECORD] = 1; mem[RECORD + 1] = OPEN; mem[TAIL] = 2;
    lane_lock = true
  }
  atomic { run memory(); run receiver(); run sender(); run observer() }
}
