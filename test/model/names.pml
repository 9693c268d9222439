/* Segments are made, found, taken over, removed and cleaned away under one name, by processes that
 * may be killed at any step.
 *
 * Functions of src/channel that this follows line by line:
 *   receivers  make_or_take, take_segment, make_segment; build_segment, link_segment, open_segment,
 *              is_named, retire_segment; bell_server::bind; receiver_state::remove
 *   cleaner    what `atbus shm clean` does: open, lock, look whether the name still leads there, retire
 *   sender     open_and_take, take; sender_state::wait_writable, prepare_sleep, finish_sleep,
 *              connect_bell
 * Each step is a system call, or a store with a system call of the same process behind it, so there
 * are no store buffers here. A file that lost its name goes
 * with its last holder.
 *
 * What must hold: never two living receivers of the name; nobody unlinks a file that is not its own,
 * locked by it; when nothing can happen any more, no sender is attached to, or asleep on, a
 * segment that lost its name without having been told `retired`.
 *
 * Settings: MUTANT (0: the protocol), ROUNDS (openings of all receivers together), KILLS, RECEIVERS,
 * CLEANERS, SENDERS.
 */
#define FILES 7
#define NOBODY 255
#include "settings.pml"
hidden byte i_;

hidden byte mutant, receivers, cleaners, senders;
byte kills, rounds;
byte kill = NOBODY; /* the process to be killed */

/* The kernel. */
byte name;                /* the file that has the name, 0: none */
byte held[4];             /* the file that a process has open, 0: none */
byte lock_of[FILES];      /* holder of the receiver's byte, process + 1, 0: none */
byte bell_of;             /* process + 1 that listens under the bell's name, 0: nobody */
bool appeared, vanished;  /* inotify: a bell was renamed into place; something was unlinked */
bool watching;

/* Segments. */
bool retired[FILES], told[FILES]; /* header.retired; alert_retired in the lane's alert */

/* A file that nobody has open and that has no name is gone; its number is used again. Part of a d_step. */
inline collect() {
  i_ = 1;
  do
  :: i_ < FILES ->
     if
     :: name == i_ || held[0] == i_ || held[1] == i_ || held[2] == i_ || held[3] == i_
     :: else -> retired[i_] = false; told[i_] = false; lock_of[i_] = 0
     fi;
     i_++
  :: else -> break
  od;
  i_ = 0
}
inline make_file(into) { /* part of a d_step */
  i_ = 1;
  do
  :: name == i_ || held[0] == i_ || held[1] == i_ || held[2] == i_ || held[3] == i_ -> i_++
  :: else -> break
  od;
  assert(i_ < FILES);
  into = i_;
  i_ = 0
}

/* Observed. living: process + 1 that opened the name as its receiver and has not begun to let go. */
byte living;
byte attached; /* the sender's file */
byte connected; /* process + 1 at the other end of the sender's connection, 0: none */
bool end_of_file;
bool stuck_for_good; /* the sender is asleep */

inline drop(p, f) { /* the descriptor is closed: its lock goes, its listener too. Part of a d_step. */
  if
  :: f != 0 && lock_of[f] == p + 1 -> lock_of[f] = 0
  :: else
  fi;
  if
  :: bell_of == p + 1 -> bell_of = 0
  :: else
  fi;
  if
  :: connected == p + 1 -> end_of_file = true
  :: else
  fi;
  if
  :: living == p + 1 -> living = 0
  :: else
  fi;
  f = 0;
  collect()
}

inline unlink_name(p, f) {
  d_step {
    assert(name == f && lock_of[f] == p + 1);
    name = 0; vanished = watching
  }
}

inline retire_segment(p, f) {
  if
  :: mutant != 2 -> retired[f] = true
  :: else
  fi;
  if
  :: mutant != 2 && mutant != 6 -> told[f] = true
  :: else
  fi;
  if
  :: name == f ->
     /* What has the bell's name is ours or a dead predecessor's. */
     d_step { assert(bell_of == 0 || bell_of == p + 1); bell_of = 0; vanished = watching };
     unlink_name(p, f)
  :: else
  fi
}

/* receiver::open: ends with f != 0 (ours) or f == 0 (receiver_exists). */
inline make_or_take(p, f) {
  do
  :: f = name; /* open_segment */
     if
     :: f != 0 ->
        d_step {
          if
          :: lock_of[f] == 0 -> lock_of[f] = p + 1
          :: else
          fi
        }
        if
        :: name != f && mutant != 1 -> d_step { drop(p, f) } /* replaced: again */
        :: else ->
           if
           :: lock_of[f] != p + 1 -> atomic { d_step { drop(p, f) } break } /* receiver_exists */
           :: else ->
              if
              :: retired[f] && mutant != 1 && mutant != 7 -> retire_segment(p, f); d_step { drop(p, f) }
              :: else -> break
              fi
           fi
        fi
     :: else -> /* make_segment: built and locked without a name, then linked */
        d_step { make_file(f); lock_of[f] = p + 1 }
        d_step {
          if
          :: name == 0 -> name = f
          :: else -> drop(p, f)
          fi
        }
        if
        :: f != 0 -> break
        :: else
        fi
     fi
  od
}

proctype receiver(byte p) {
  do
  :: atomic { rounds > 0 -> rounds-- }
     {
       make_or_take(p, held[p]);
       if
       :: held[p] != 0 ->
          d_step { assert(living == 0 && !retired[held[p]]); living = p + 1 }
          d_step { assert(name == held[p]); bell_of = p + 1; appeared = watching }
          if
          :: skip /* close: what is there waits for a successor */
          :: d_step { living = 0 } retire_segment(p, held[p]) /* remove */
          fi
       :: else
       fi;
       skip;
       d_step { drop(p, held[p]) }
     } unless {
       kill == p -> d_step { kill = NOBODY; drop(p, held[p]) }
     }
  :: rounds == 0 -> break
  od
}

proctype cleaner(byte p) {
  {
    held[p] = name;
    if
    :: held[p] != 0 ->
       d_step {
         if
         :: lock_of[held[p]] == 0 || mutant == 3 -> lock_of[held[p]] = p + 1
         :: else
         fi
       }
       if
       :: lock_of[held[p]] == p + 1 && name == held[p] -> retire_segment(p, held[p])
       :: else
       fi;
       skip;
       d_step { drop(p, held[p]) }
    :: else
    fi
  } unless {
    kill == p -> d_step { kill = NOBODY; drop(p, held[p]) }
  }
}

inline connect_bell() {
  d_step { connected = bell_of; end_of_file = false }
}

proctype sender() {
#define f held[3]
  /* take, open_and_take: until it has a lane of a segment that has its name and is not retired. */
  do
  :: f = name;
     if
     :: f == 0 -> break /* not_found */
     :: else ->
        /* the lane's lock; then */
        if
        :: name == f && !retired[f] -> attached = f; break
        :: else -> d_step { f = 0; collect() }
        fi
     fi
  od;
  if
  :: attached == 0
  :: else ->
     connect_bell();
     if
     :: true -> skip /* publishes now and then: sees its alert */
     :: true -> /* wait_writable; nobody makes room in this model */
        do
        :: told[f] -> break /* finish_sleep, answer_alert */
        :: else ->
           if
           :: connected == 0 -> connect_bell()
           :: else
           fi;
           if
           :: connected == 0 -> d_step { watching = true; appeared = false; vanished = false };
              connect_bell()
           :: else
           fi;
           if
           :: told[f] && mutant != 5 -> break
           :: else
           fi;
           stuck_for_good = true;
end_asleep:
           if
           :: end_of_file -> d_step { connected = 0; end_of_file = false }
           :: appeared
           :: vanished && mutant != 4
           fi;
           stuck_for_good = false;
           d_step { appeared = false; vanished = false; watching = false }
        od
     fi
  fi
}

#undef f

proctype observer() {
end_observer:
  do
  :: kills > 0 && kill == NOBODY ->
     atomic { kills--; if :: kill = 0 :: kill = 1 :: cleaners > 0 -> kill = 2 fi }
  :: timeout ->
     d_step {
       if
       :: attached != 0 && name != attached -> assert(told[attached] && !stuck_for_good)
       :: else
       fi
     }
     break
  od
}

init {
  c_code {
    mutant = setting("MUTANT", 0);
    now.rounds = setting("ROUNDS", 2);
    receivers = setting("RECEIVERS", 2);
    now.kills = setting("KILLS", 1);
    cleaners = setting("CLEANERS", 1);
    senders = setting("SENDERS", 1);
  };
  atomic {
    run receiver(0);
    if :: receivers > 1 -> run receiver(1) :: else fi;
    if :: cleaners -> run cleaner(2) :: else fi;
    if :: senders -> run sender() :: else fi;
    run observer()
  }
}
