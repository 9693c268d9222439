// The body of every kind of worker, one function each; worker.cpp chooses.
#pragma once

#include "atbus/bench/worker.h"

namespace atbus::bench {

// The channels under test.
void receive_from_channel(worker& self);
void send_to_channel(worker& self);
void ping_over_channels(worker& self);
void pong_over_channels(worker& self);

// Nodes.
void receive_at_node(worker& self);
void send_from_node(worker& self);
void ping_over_nodes(worker& self);
void pong_over_nodes(worker& self);
void relay_for_nodes(worker& self);
void ping_between_own_nodes(worker& self);
void exchange_between_nodes(worker& self);
void serve_requests(worker& self);
void send_requests(worker& self);

// Caches.
void serve_cache(worker& self);
void ask_cache(worker& self);
void serve_as_cache_rival(worker& self);
void ask_cache_rival(worker& self);

// What the machine allows; shares nothing with the channels.
void receive_from_ring(worker& self);
void send_to_ring(worker& self);
void ping_over_rings(worker& self);
void pong_over_rings(worker& self);
void ping_cache_line(worker& self);
void pong_cache_line(worker& self);
void ping_events(worker& self);
void pong_events(worker& self);
void copy_blocks(worker& self);
void read_from_socket(worker& self);
void write_to_socket(worker& self);
void ping_over_sockets(worker& self);
void pong_over_sockets(worker& self);
void receive_frames(worker& self);
void send_frames(worker& self);

}  // namespace atbus::bench
