/* Memory between processes, as processors with store buffers see it. Included by the models.
 *
 * PROCS processes share WORDS words. A store enters the buffer of its process and becomes visible
 * to the others later, at any time (the process `memory` below). A load sees the process's own
 * buffered stores first.
 *   without WEAK: the buffer is a queue (x86-TSO).
 *   with WEAK: stores to different words leave it in any order, except that a release store leaves
 *   after everything that was stored before it. Loads are not reordered with one another: see
 *   doc/design/model.md for why that is enough here.
 * Values are bytes; a process that fills its buffer waits for it to drain by one.
 */
#define DEPTH 3
/* What a model wants done after each store that becomes visible. */
#ifndef AFTER_COMMIT
#define AFTER_COMMIT skip
#endif

byte mem[WORDS];
typedef store_buffer {
  byte n;
  byte at[DEPTH];
  byte value[DEPTH];
  bit ordered[DEPTH];
}
store_buffer buffer[PROCS];

hidden byte k_;
hidden byte j_;

/* Makes entry number k of p's buffer visible; part of a d_step. */
inline commit_entry(p, k) {
  mem[buffer[p].at[k]] = buffer[p].value[k];
  j_ = k;
  do
  :: j_ + 1 < buffer[p].n ->
     buffer[p].at[j_] = buffer[p].at[j_ + 1];
     buffer[p].value[j_] = buffer[p].value[j_ + 1];
     buffer[p].ordered[j_] = buffer[p].ordered[j_ + 1];
     j_++
  :: else -> break
  od;
  buffer[p].n--;
  buffer[p].at[buffer[p].n] = 0;
  buffer[p].value[buffer[p].n] = 0;
  buffer[p].ordered[buffer[p].n] = 0;
  j_ = 0
}

/* Makes all of p's stores visible; part of a d_step. */
inline drain(p) {
  do
  :: buffer[p].n > 0 -> commit_entry(p, 0)
  :: else -> break
  od;
  j_ = 0
}

/* put_* are part of a d_step that begins with room(p); what is in the buffer only its owner sees. */
#define room(p) (buffer[p].n < DEPTH)
inline put(p, a, v, release) {
  buffer[p].at[buffer[p].n] = a;
  buffer[p].value[buffer[p].n] = v;
  buffer[p].ordered[buffer[p].n] = release;
  buffer[p].n++
}
inline put_release(p, a, v) { put(p, a, v, 1) }
inline put_relaxed(p, a, v) { put(p, a, v, 0) }
inline store_release(p, a, v) {
  d_step { room(p) -> put(p, a, v, 1) }
}
inline store_relaxed(p, a, v) {
  d_step { room(p) -> put(p, a, v, 0) }
}

/* Part of a d_step. */
inline peek(p, a, into) {
  into = mem[a];
  k_ = 0;
  do
  :: k_ < buffer[p].n ->
     if
     :: buffer[p].at[k_] == (a) -> into = buffer[p].value[k_]
     :: else
     fi;
     k_++
  :: else -> break
  od;
  k_ = 0
}
inline load(p, a, into) {
  d_step { peek(p, a, into) }
}

/* A full fence, or the draining half of a locked instruction. */
inline fence(p) { buffer[p].n == 0 }

/* membarrier(GLOBAL_EXPEDITED): at some moment during the call each other process has executed a full
 * fence, and the caller has executed its own before (barrier_on_every_core). */
inline membarrier(p) {
  fence(p);
  buffer[0].n == 0;
  buffer[1].n == 0;
#if PROCS > 2
  buffer[2].n == 0
#endif
}

#ifdef WEAK
/* Whether entry k may leave before the older ones: no older one to the same word, no order asked. */
#define MAY_LEAVE(p, k)                                                          \
  (k < buffer[p].n && !buffer[p].ordered[k] && buffer[p].at[k] != buffer[p].at[0] && \
   (k < 2 || buffer[p].at[k] != buffer[p].at[1]))
#endif

proctype memory() {
end_memory:
  do
  :: d_step { buffer[0].n > 0 -> commit_entry(0, 0); AFTER_COMMIT }
  :: d_step { buffer[1].n > 0 -> commit_entry(1, 0); AFTER_COMMIT }
#if PROCS > 2
  :: d_step { buffer[2].n > 0 -> commit_entry(2, 0); AFTER_COMMIT }
#endif
#ifdef WEAK
  :: d_step { MAY_LEAVE(0, 1) -> commit_entry(0, 1); AFTER_COMMIT }
  :: d_step { MAY_LEAVE(0, 2) -> commit_entry(0, 2); AFTER_COMMIT }
  :: d_step { MAY_LEAVE(1, 1) -> commit_entry(1, 1); AFTER_COMMIT }
  :: d_step { MAY_LEAVE(1, 2) -> commit_entry(1, 2); AFTER_COMMIT }
#if PROCS > 2
  :: d_step { MAY_LEAVE(2, 1) -> commit_entry(2, 1); AFTER_COMMIT }
  :: d_step { MAY_LEAVE(2, 2) -> commit_entry(2, 2); AFTER_COMMIT }
#endif
#endif
  od
}
