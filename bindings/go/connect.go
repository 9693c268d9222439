package atbus

// #include "bridge.h"
import "C"

import "time"

// Listen listens at this address; any number of times.
func (n *Node) Listen(address string) error {
	return n.withText(address, func(text *C.char) C.atbus_code { return C.atbus_node_listen(bridgeNode(n), text) })
}

// Connect expects node `id` at this address, and dials it.
func (n *Node) Connect(id uint64, address string) error {
	return n.withText(address, func(text *C.char) C.atbus_code {
		return C.atbus_node_connect(bridgeNode(n), C.uint64_t(id), text)
	})
}

func (n *Node) withText(from string, call func(*C.char) C.atbus_code) error {
	return n.do(func() error {
		var all texts
		defer all.free()
		text := all.word(from)
		if all.err != nil {
			return all.err
		}
		return errorOf(call(text))
	})
}

// Disconnect stops dialling that node and ends the links to it.
func (n *Node) Disconnect(id uint64) error {
	return n.do(func() error { return errorOf(C.atbus_node_disconnect(bridgeNode(n), C.uint64_t(id))) })
}

// SetPolicy sets the policy for messages to that node. deadline 0: none.
func (n *Node) SetPolicy(id uint64, overflow Overflow, deadline time.Duration) error {
	return n.do(func() error {
		return errorOf(C.atbus_node_set_policy(bridgeNode(n), C.uint64_t(id), C.int(overflow), C.int64_t(deadline)))
	})
}

// SetTokens replaces the tokens: the first is proven, all are accepted.
func (n *Node) SetTokens(tokens ...string) error {
	return n.do(func() error {
		var all texts
		defer all.free()
		array := all.array(tokens)
		if all.err != nil {
			return all.err
		}
		return errorOf(C.atbus_node_set_tokens(bridgeNode(n), array))
	})
}

// Addresses is where the node listens.
func (n *Node) Addresses() (all []string, err error) {
	err = n.do(func() error {
		for i := 0; ; i++ {
			text := C.atbus_node_address(bridgeNode(n), C.size_t(i))
			if text == nil {
				return nil
			}
			all = append(all, C.GoString(text))
		}
	})
	return all, err
}

// Stats are counters of a node; atbus::node_stats says what each one counts.
type Stats struct {
	Accepted, AcceptedBytes, Delivered, DeliveredBytes, Redelivered         uint64
	Requests, Responses, WouldBlock, Refused, NotDelivered, OutcomeUnknown  uint64
	Duplicates, Registrations, RegistrationsFailed, LinksLost, AccessDenied uint64
}

// Stats returns the counters.
func (n *Node) Stats() (all Stats, err error) {
	err = n.do(func() error {
		var from C.atbus_node_stats
		from.size = C.sizeof_atbus_node_stats
		if err := errorOf(C.atbus_node_get_stats(bridgeNode(n), &from)); err != nil {
			return err
		}
		all = Stats{
			Accepted: uint64(from.accepted), AcceptedBytes: uint64(from.accepted_bytes),
			Delivered: uint64(from.delivered), DeliveredBytes: uint64(from.delivered_bytes),
			Redelivered: uint64(from.redelivered), Requests: uint64(from.requests), Responses: uint64(from.responses),
			WouldBlock: uint64(from.would_block), Refused: uint64(from.refused), NotDelivered: uint64(from.not_delivered),
			OutcomeUnknown: uint64(from.outcome_unknown), Duplicates: uint64(from.duplicates),
			Registrations: uint64(from.registrations), RegistrationsFailed: uint64(from.registrations_failed),
			LinksLost: uint64(from.links_lost), AccessDenied: uint64(from.access_denied),
		}
		return nil
	})
	return all, err
}

// Version is the version of the library: "0.1.0".
func Version() string { return C.GoString(C.atbus_version()) }

// ParseID reads a bus id: "7", "0x12340007", "1.2.3.4".
func ParseID(text string) (uint64, error) {
	var all texts
	defer all.free()
	var id C.uint64_t
	if code := C.atbus_parse_id(all.word(text), &id); code != C.ATBUS_OK || all.err != nil {
		return 0, invalid("\"" + text + "\" is no bus id")
	}
	return uint64(id), nil
}
