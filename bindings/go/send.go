package atbus

// #include "bridge.h"
import "C"

import (
	"context"
	"fmt"
	"unsafe"
)

// The messages to one node that C has not taken yet: records of bridge.h, one behind the other.
type lane struct {
	to      uint64
	pending []byte        // of senders
	queued  bool          // it is in `ready` or `blocked`
	room    chan struct{} // closed when there is room; nil: nothing waits

	// Of the goroutine of the node.
	sending []byte
	sent    int // bytes of these
}

const recordSize = int(unsafe.Sizeof(C.bridge_record{}))

var padding [8]byte

// Send accepts a copy of a message to node `to`, and waits for room until the context is done. What becomes known later,
// such as a route that is lost, is told to HandleUndelivered.
func (n *Node) Send(ctx context.Context, to uint64, kind uint32, data []byte) error {
	return n.sendOrWait(ctx, to, kind, data, false)
}

// SendRequired is as Send; the message waits until it is delivered, also while no route is known.
func (n *Node) SendRequired(ctx context.Context, to uint64, kind uint32, data []byte) error {
	return n.sendOrWait(ctx, to, kind, data, true)
}

// TrySend is as Send, and returns ErrWouldBlock in place of waiting.
func (n *Node) TrySend(to uint64, kind uint32, data []byte) error {
	_, err := n.offer(to, kind, data, false, false)
	return err
}

func (n *Node) sendOrWait(ctx context.Context, to uint64, kind uint32, data []byte, required bool) error {
	for {
		room, err := n.offer(to, kind, data, required, true)
		if room == nil {
			return err
		}
		if n.isOwn() {
			return ErrWouldBlock // a handler of messages must not wait for its own thread
		}
		select {
		case <-room:
		case <-n.over:
			return ErrClosed
		case <-ctx.Done():
			return doneError(ctx)
		}
	}
}

// Appends a message to its lane. Without room: ErrWouldBlock, and if it is to wait, what is closed when there is some.
func (n *Node) offer(to uint64, kind uint32, data []byte, required, wait bool) (<-chan struct{}, error) {
	if len(data) > n.messageLimit() {
		return nil, &Error{MessageTooLarge, fmt.Sprintf("%d bytes; the limit is %d", len(data), n.messageLimit())}
	}
	n.mutex.Lock()
	if n.closing {
		n.mutex.Unlock()
		return nil, ErrClosed
	}
	l := n.last
	if l == nil || l.to != to {
		l = n.lanes[to]
	}
	if l == nil {
		n.mutex.Unlock()
		return n.offerFirst(to, kind, data, required, wait)
	}
	n.last = l
	if len(l.pending) != 0 && len(l.pending)+recordSize+len(data) > n.options.OutgoingBytes {
		var room <-chan struct{}
		if wait {
			if l.room == nil {
				l.room = make(chan struct{})
			}
			room = l.room
		}
		n.mutex.Unlock()
		return room, ErrWouldBlock
	}
	n.append(l, kind, data, required)
	n.mutex.Unlock()
	return nil, nil
}

// The first message to a node is sent while its sender waits, which so learns that there is no route.
func (n *Node) offerFirst(to uint64, kind uint32, data []byte, required, wait bool) (<-chan struct{}, error) {
	err := n.do(func() error {
		l := &lane{to: to}
		var err error
		if !n.hasLane(to) {
			record := appendRecord(nil, kind, data, required)
			var used C.size_t
			err = errorOf(C.bridge_send(n.bridge, C.uint64_t(to), unsafe.Pointer(&record[0]), C.size_t(len(record)), &used))
		} else {
			err = ErrWouldBlock // another goroutine was faster
		}
		if err == nil || ErrWouldBlock.Is(err) {
			n.mutex.Lock()
			if n.lanes[to] == nil {
				n.forgetLanes()
				n.lanes[to] = l
			}
			n.mutex.Unlock()
		}
		return err
	})
	if err == nil || !ErrWouldBlock.Is(err) {
		return nil, err
	}
	return n.offer(to, kind, data, required, wait)
}

const fewLanes = 1024

// Programs that answer may send to any number of nodes, a few messages to each. The mutex is held.
func (n *Node) forgetLanes() {
	if len(n.lanes) < n.lanesMost {
		return
	}
	for to, l := range n.lanes {
		if !l.queued {
			delete(n.lanes, to)
		}
	}
	n.last = nil
	n.lanesMost = fewLanes + 2*len(n.lanes)
}

func (n *Node) hasLane(to uint64) bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.lanes[to] != nil
}

func (n *Node) messageLimit() int {
	if n.options.MessageLimit != 0 {
		return n.options.MessageLimit
	}
	return defaultMessageLimit
}

// The mutex is held.
func (n *Node) append(l *lane, kind uint32, data []byte, required bool) {
	if l.pending == nil && len(n.spare) != 0 {
		last := len(n.spare) - 1
		l.pending, n.spare = n.spare[last], n.spare[:last]
	}
	l.pending = appendRecord(l.pending, kind, data, required)
	if !l.queued {
		l.queued = true
		n.ready = append(n.ready, l)
		n.wake()
	}
}

func appendRecord(to []byte, kind uint32, data []byte, required bool) []byte {
	head := C.bridge_record{size: C.uint64_t(len(data)), _type: C.uint32_t(kind)}
	if required {
		head.required = 1
	}
	to = append(to, (*[recordSize]byte)(unsafe.Pointer(&head))[:]...)
	to = append(to, data...)
	return append(to, padding[:-len(data)&7]...)
}

// Hands what the lanes have to C: one call for each of them.
func (n *Node) sendAll(ready []*lane) {
	for _, l := range ready {
		n.sendLane(l)
	}
}

func (n *Node) sendLane(l *lane) {
	if l.sent == len(l.sending) {
		n.mutex.Lock()
		l.sending, l.pending, l.sent = l.pending, l.sending[:0], 0
		n.tellRoom(l)
		n.mutex.Unlock()
	}
	for l.sent != len(l.sending) {
		var used C.size_t
		left := l.sending[l.sent:]
		code := C.bridge_send(n.bridge, C.uint64_t(l.to), unsafe.Pointer(&left[0]), C.size_t(len(left)), &used)
		l.sent += int(used)
		if code == C.ATBUS_WOULD_BLOCK {
			n.mutex.Lock()
			n.blocked[l.to] = l
			n.mutex.Unlock()
			return
		}
		if code != C.ATBUS_OK {
			n.reportUnsent(l, Code(code))
		}
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if len(l.pending) != 0 {
		n.ready = append(n.ready, l)
		return
	}
	l.queued = false
	n.keepSpare(l)
}

// The mutex is held.
func (n *Node) tellRoom(l *lane) {
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
}

// Buffers of lanes that have nothing to send are for others. The mutex is held.
func (n *Node) keepSpare(l *lane) {
	const most = 4
	for _, buffer := range [][]byte{l.sending, l.pending} {
		if cap(buffer) != 0 && cap(buffer) <= 2*n.options.OutgoingBytes && len(n.spare) < most {
			n.spare = append(n.spare, buffer[:0])
		}
	}
	l.sending, l.pending, l.sent = nil, nil, 0
}

// The first record of a buffer as a report, and what is behind it.
func firstUnsent(to uint64, held []byte, why Code) (Undelivered, []byte) {
	record := *(*C.bridge_record)(unsafe.Pointer(&held[0]))
	end := recordSize + int(record.size)
	data := append([]byte(nil), held[recordSize:end]...)
	return Undelivered{Destination: to, Type: uint32(record._type), Data: data, Count: 1, Outcome: NotDelivered,
		Reason: why}, held[(end+7)&^7:]
}

// At the end: what there is still room for goes to C, and the rest is told.
func (n *Node) emptyLanes() {
	const buffers = 2 // of a lane
	for i := 0; i != buffers; i++ {
		n.mutex.Lock()
		n.retryBlocked()
		ready := n.ready
		n.ready = nil
		n.mutex.Unlock()
		n.sendAll(ready)
	}
	for to, l := range n.lanes {
		for _, held := range [][]byte{l.sending[l.sent:], l.pending} {
			for len(held) != 0 {
				var what Undelivered
				what, held = firstUnsent(to, held, Closed)
				n.tellUndelivered(what)
			}
		}
	}
}

// A message that was accepted here is refused by C. The next one to that node is sent while its sender waits.
func (n *Node) reportUnsent(l *lane, why Code) {
	what, left := firstUnsent(l.to, l.sending[l.sent:], why)
	l.sent = len(l.sending) - len(left)
	n.mutex.Lock()
	if n.lanes[l.to] == l && len(l.pending) == 0 && l.sent == len(l.sending) {
		delete(n.lanes, l.to)
		n.last = nil
		n.tellRoom(l)
	}
	n.mutex.Unlock()
	n.tellUndelivered(what)
}

// There is room again for messages to that node.
func (n *Node) unblock(to uint64) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if l := n.blocked[to]; l != nil {
		delete(n.blocked, to)
		n.ready = append(n.ready, l)
	}
}

// Whether C has taken all that was accepted.
func (n *Node) isSent() bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for _, l := range n.lanes {
		if l.queued {
			return false
		}
	}
	return !n.owesAnswers
}

// Broadcast sends to all nodes to which there is a route, and whose ids begin with the first `length` bits of `prefix`;
// length 0: all.
func (n *Node) Broadcast(prefix uint64, length uint, kind uint32, data []byte) error {
	return n.do(func() error {
		if length > 64 {
			return invalid("a prefix has at most 64 bits")
		}
		return errorOf(C.atbus_node_broadcast(bridgeNode(n), C.uint64_t(prefix), C.uint(length), C.uint32_t(kind),
			pointerTo(data), C.size_t(len(data))))
	})
}

func bridgeNode(n *Node) *C.atbus_node { return C.bridge_node(n.bridge) }

func pointerTo(data []byte) unsafe.Pointer {
	if len(data) == 0 {
		return nil
	}
	return unsafe.Pointer(&data[0])
}
