/**
 * @file
 * Tests of a program's callbacks on a simulated bus, in C and in languages that call C: several nodes of libatbus_c in
 * one thread, on a network and a clock in memory, with faults drawn from a seed.
 *
 * ```c
 * static void begin(void* program, atbus_node* node) {  // as in main(), up to run
 *   atbus_node_listen(node, "ipv4://10.0.0.2:7000");
 *   atbus_node_on_message(node, take_order, program);
 * }
 *
 * atbus_simulation* sim;
 * atbus_simulation_new(NULL, &sim);
 * atbus_simulation_start(sim, 2, 1, NULL, begin, NULL, &desk);
 * atbus_simulation_start(sim, 1, 1, NULL, begin_customer, NULL, &customer);
 * atbus_simulation_disturb(sim, 30000000000, NULL);
 * atbus_node_send(customer.node, 2, 0, "an apple", 8);
 * atbus_simulation_run_until_idle(sim, 60000000000);
 * ```
 *
 * What a function does is what the C++ function of atbus/testing.hpp does; that page says what is simulated. All
 * functions of atbus.h work with a simulated node but those for other threads and for event loops: it has no descriptor.
 *
 * Time advances only in atbus_simulation_run and atbus_simulation_run_until_idle, and in atbus_node_wait, _run and
 * _shutdown of a simulated node, which run the simulation meanwhile and return once their own process is killed. The same
 * seed and the same program make the same run.
 *
 * Ownership: each incarnation of a process has a handle of its node of its own. It belongs to the program, which frees it
 * with atbus_node_free at any time: while the process is running, which ends the process; once it has ended; before or
 * after the simulation is freed. When its process has ended, or its simulation was freed, it is the handle of a closed
 * node.
 *
 * Callbacks: those of simulated nodes may call all functions of nodes, and of the simulation all but three: no callback
 * may free or run it, or start a process. The callbacks with which a process begins and ends may not end or restart
 * processes either.
 *
 * Threads: a simulation and its nodes belong to the thread that made it, or that adopted it last.
 *
 * Errors: ATBUS_INVALID_ARGUMENT (an argument is NULL or out of range, the thread is another one, or a callback may not do
 * that), ATBUS_NOT_FOUND (there is no such process, or it is not running), ATBUS_USED_AFTER_FORK.
 */
#ifndef ATBUS_ATBUS_SIMULATION_H
#define ATBUS_ATBUS_SIMULATION_H

#include "atbus.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A simulated bus: processes with one node each, their hosts and the network (atbus::testing::simulation). */
typedef struct atbus_simulation atbus_simulation;

/** Of a process that begins, with its node: sets callbacks, listens and connects. The handle belongs to the program. */
typedef void (*atbus_process_callback)(void* user, atbus_node* node);
/** Of a process that ends: it was killed, its node was stopped or closed, or the simulation is freed. Where the node has
 *  ended by itself the call comes with the next event. The handle may be freed here. */
typedef void (*atbus_process_end_callback)(void* user, uint64_t id);
/** Not 0: what is waited for has happened. */
typedef int (*atbus_holds_callback)(void* user);

/** Makes a simulation that draws everything from *seed. NULL: a seed is drawn, or taken from the environment variable
 *  ATBUS_SIMULATION_SEED, and printed to standard error. */
ATBUS_C_API atbus_code atbus_simulation_new(const uint64_t* seed, atbus_simulation** simulation);
/** Kills all processes and frees the simulation; not their handles. NULL does nothing. Refused within callbacks. */
ATBUS_C_API atbus_code atbus_simulation_free(atbus_simulation* simulation);
/** The calling thread owns the simulation and its nodes from now on. No other thread may use them at this moment. */
ATBUS_C_API atbus_code atbus_simulation_adopt(atbus_simulation* simulation);
/** The seed, to run the simulation again. */
ATBUS_C_API uint64_t atbus_simulation_seed(const atbus_simulation* simulation);
/** Time since the simulation was made. */
ATBUS_C_API int64_t atbus_simulation_now(const atbus_simulation* simulation);

/** Starts a process with one node on a host: processes of one host share memory and Unix sockets. `options` may be NULL:
 *  the defaults, with allow_unauthenticated. Calls `begin` now, and again at each restart; and `end`, unless it is NULL,
 *  each time it ends. Errors: what is wrong with the options; ATBUS_INVALID_ARGUMENT (it is running already). */
ATBUS_C_API atbus_code atbus_simulation_start(atbus_simulation* simulation, uint64_t id,
                                              uint32_t host, const atbus_node_options* options,
                                              atbus_process_callback begin,
                                              atbus_process_end_callback end, void* user);
/** Not 0 from its start until it ends. */
ATBUS_C_API int atbus_simulation_is_running(const atbus_simulation* simulation, uint64_t id);
/** Ends the process as SIGKILL does; its outstanding calls get ATBUS_CLOSED. */
ATBUS_C_API atbus_code atbus_simulation_kill(atbus_simulation* simulation, uint64_t id);
/** Starts that process anew; kills it first if it is running. Within a callback it begins once that has returned. */
ATBUS_C_API atbus_code atbus_simulation_restart(atbus_simulation* simulation, uint64_t id);
/** Stops the process as SIGSTOP does, and continues it after `time_ns`. Here and below, less than 0 counts as 0. */
ATBUS_C_API atbus_code atbus_simulation_stop_for(atbus_simulation* simulation, uint64_t id,
                                                 int64_t time_ns);
/** Moves the clock of the process ahead. */
ATBUS_C_API atbus_code atbus_simulation_step_clock(atbus_simulation* simulation, uint64_t id,
                                                   int64_t ahead_ns);

/** Which ends of a link notice that it ends (atbus::testing::seen_by). */
typedef enum atbus_seen_by {
  ATBUS_SEEN_BY_BOTH = 0, /**< both ends */
  ATBUS_SEEN_BY_ONE = 1,  /**< one end, drawn at random */
  ATBUS_SEEN_BY_NONE = 2  /**< neither end */
} atbus_seen_by;

/** Ends the links between two nodes, except through memory; in each direction, what is in flight is lost from a random
 *  message on. `who` is an atbus_seen_by. */
ATBUS_C_API atbus_code atbus_simulation_cut(atbus_simulation* simulation, uint64_t one,
                                            uint64_t other, int who);
/** Blocks TCP between the two nodes until they are joined; neither is notified. */
ATBUS_C_API atbus_code atbus_simulation_separate(atbus_simulation* simulation, uint64_t one,
                                                 uint64_t other);
/** Ends a separation. */
ATBUS_C_API atbus_code atbus_simulation_join(atbus_simulation* simulation, uint64_t one,
                                             uint64_t other);

/** Conditions of the network (atbus::testing::network_conditions). Begin with atbus_network_conditions_init. */
typedef struct atbus_network_conditions {
  size_t size;          /**< sizeof(atbus_network_conditions) */
  int64_t delay_min_ns; /**< the shortest time that a message is on its way */
  int64_t delay_max_ns; /**< the longest; each message draws its own */
  int refuses;          /**< not 0: new connections are refused */
  int swallows;         /**< not 0: new connections get no answer */
} atbus_network_conditions;

/** Sets all defaults: 50 to 500 us, and connections succeed. */
static inline void atbus_network_conditions_init(atbus_network_conditions* conditions) {
  memset(conditions, 0, sizeof *conditions);
  conditions->size = sizeof *conditions;
  conditions->delay_min_ns = 50000;
  conditions->delay_max_ns = 500000;
}

/** Sets the conditions for links made, and messages sent, from now on. NULL: the defaults. */
ATBUS_C_API atbus_code atbus_simulation_set_conditions(atbus_simulation* simulation,
                                                       const atbus_network_conditions* conditions);

/** How many times each fault happens during atbus_simulation_disturb (atbus::testing::disturbances); at most
 *  1,000,000. Begin with atbus_disturbances_init. */
typedef struct atbus_disturbances {
  size_t size;          /**< sizeof(atbus_disturbances) */
  uint32_t cuts;        /**< a link ends, noticed by both, one or none of its ends */
  uint32_t delays;      /**< messages take up to 0.5 s longer for a while */
  uint32_t refusals;    /**< connections are refused for a while */
  uint32_t stops;       /**< a process is stopped for a while */
  uint32_t restarts;    /**< a process is killed, and started again after a while */
  uint32_t clock_steps; /**< the clock of a process jumps ahead by up to 1 min */
} atbus_disturbances;

/** Sets all defaults: four cuts, two delays, and one of each other fault. */
static inline void atbus_disturbances_init(atbus_disturbances* what) {
  what->size = sizeof *what;
  what->cuts = 4;
  what->delays = 2;
  what->refusals = what->stops = what->restarts = what->clock_steps = 1;
}

/** Plans faults at random moments of the next `time_ns`. At its end all faults are over, and all processes that they
 *  stopped or killed are running. The conditions of the network stay as they were set. `what` may be NULL: the
 *  defaults. */
ATBUS_C_API atbus_code atbus_simulation_disturb(atbus_simulation* simulation, int64_t time_ns,
                                                const atbus_disturbances* what);

/** Runs until `holds` returns not 0, or `longest_ns` are over (ATBUS_TIMED_OUT); calls it first and after each event. NULL:
 *  runs for that time (ATBUS_OK). A simulation ends after 100 years; what would take it beyond is refused. */
ATBUS_C_API atbus_code atbus_simulation_run(atbus_simulation* simulation,
                                            atbus_holds_callback holds, void* user,
                                            int64_t longest_ns);
/** Runs until nothing is in flight, no fault is planned, and every accepted message is delivered or reported; or
 *  `longest_ns` are over (ATBUS_TIMED_OUT). `stop`, unless it is NULL, is called as `holds` above, and ends it with
 *  ATBUS_OK too. */
ATBUS_C_API atbus_code atbus_simulation_run_until_idle(atbus_simulation* simulation,
                                                       atbus_holds_callback stop, void* user,
                                                       int64_t longest_ns);

#ifdef __cplusplus
}
#endif

#endif
