package atbus

// #include "bridge.h"
import "C"

import (
	"fmt"
	"log"
	"strings"
	"sync"
	"unsafe"
)

// Undelivered is a message that was accepted and not delivered.
type Undelivered struct {
	Destination uint64
	Type        uint32
	Data        []byte
	Count       uint64 // of messages that this covers; with more than one there is no Data
	Outcome     Code   // NotDelivered or OutcomeUnknown
	Reason      Code
}

// Event says what has happened to another node.
type Event int

// What they mean: atbus_endpoint_event in atbus/atbus.h.
const (
	Connected    Event = C.ATBUS_ENDPOINT_CONNECTED
	Moved        Event = C.ATBUS_ENDPOINT_MOVED
	Away         Event = C.ATBUS_ENDPOINT_AWAY
	Disconnected Event = C.ATBUS_ENDPOINT_DISCONNECTED
	Refused      Event = C.ATBUS_ENDPOINT_REFUSED
	Superseded   Event = C.ATBUS_ENDPOINT_SUPERSEDED
)

// Calls handlers one after another, in a goroutine that lives while there is something to call.
type events struct {
	mutex         sync.Mutex
	queue         []func()
	size          int                         // bytes of reports and lines in it
	joined        map[reportKind]*Undelivered // reports in it that count more, because there is no room for each
	newest        map[uint64]*Event           // states of nodes in it, because there is no room for each event
	lostLines     int                         // of the log, for which there was no room
	runs          bool
	onUndelivered func(Undelivered)
	onEndpoint    func(uint64, Event)
	onLog         func(string)
}

// Reports of one kind are joined when too many wait.
type reportKind struct {
	destination     uint64
	outcome, reason Code
}

const reportCost = int(unsafe.Sizeof(Undelivered{}))

// HandleUndelivered sets what is told of messages that were accepted and not delivered. It and the two below run one
// after another in a goroutine of their own, and may wait: while Options.IncomingBytes of reports and lines wait, further
// reports become one for each destination and reason, and lines are left out. nil: none.
func (n *Node) HandleUndelivered(handle func(Undelivered)) {
	n.events.mutex.Lock()
	defer n.events.mutex.Unlock()
	n.events.onUndelivered = handle
}

// HandleEndpoints sets what is told of the states of other nodes. Without room for each event, the newest of each node is
// told.
func (n *Node) HandleEndpoints(handle func(id uint64, event Event)) {
	n.events.mutex.Lock()
	defer n.events.mutex.Unlock()
	n.events.onEndpoint = handle
}

// HandleLog sets what gets lines for operators. Without it, panics of handlers go to the standard logger.
func (n *Node) HandleLog(handle func(line string)) {
	n.events.mutex.Lock()
	defer n.events.mutex.Unlock()
	n.events.onLog = handle
}

// Adds a call. The mutex is held.
func (e *events) call(n *Node, call func()) {
	e.queue = append(e.queue, call)
	if !e.runs {
		e.runs = true
		go e.run(n)
	}
}

func (e *events) run(n *Node) {
	for {
		e.mutex.Lock()
		if len(e.queue) == 0 {
			e.queue, e.runs = nil, false
			e.mutex.Unlock()
			return
		}
		call := e.queue[0]
		e.queue = e.queue[1:]
		e.mutex.Unlock()
		e.one(n, call)
	}
}

func (e *events) one(n *Node, call func()) {
	over := false
	// runtime.Goexit in a handler ends this goroutine: another one takes its place.
	defer func() {
		if !over {
			go e.run(n)
		}
	}()
	defer n.recovered("events", &over)
	call()
	over = true
}

// Deferred: a panic of a handler becomes a line of the log, and the handler is over.
func (n *Node) recovered(what string, over *bool) {
	if why := recover(); why != nil {
		*over = true
		line := fmt.Sprintf("a handler of %s has panicked: %v", what, why)
		if !n.tellLog(line) {
			log.Print("atbus: " + line)
		}
	}
}

func (n *Node) tellUndelivered(what Undelivered) {
	n.events.mutex.Lock()
	defer n.events.mutex.Unlock()
	e := &n.events
	handle := e.onUndelivered
	if handle == nil {
		return
	}
	if e.callWithin(n, reportCost+len(what.Data), func() { handle(what) }) {
		return
	}
	kind := reportKind{what.Destination, what.Outcome, what.Reason}
	if one := e.joined[kind]; one != nil {
		one.Count += what.Count
		return
	}
	what.Data = nil
	if e.joined == nil {
		e.joined = map[reportKind]*Undelivered{}
	}
	e.joined[kind] = &what
	e.call(n, func() {
		e.mutex.Lock()
		delete(e.joined, kind)
		e.mutex.Unlock()
		handle(what)
	})
}

// Adds a call for which so many bytes wait. False: there is no room for them. The mutex is held.
func (e *events) callWithin(n *Node, size int, call func()) bool {
	if e.size+size > n.options.IncomingBytes {
		return false
	}
	e.size += size
	e.call(n, func() {
		e.taken(size)
		call()
	})
	return true
}

// What has waited is told now.
func (e *events) taken(size int) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.size -= size
}

func (n *Node) tellEndpoint(id uint64, event Event) {
	e := &n.events
	e.mutex.Lock()
	defer e.mutex.Unlock()
	handle := e.onEndpoint
	if handle == nil {
		return
	}
	if one := e.newest[id]; one != nil {
		*one = event
		return
	}
	if e.callWithin(n, reportCost, func() { handle(id, event) }) {
		return
	}
	if e.newest == nil {
		e.newest = map[uint64]*Event{}
	}
	e.newest[id] = &event
	e.call(n, func() {
		e.mutex.Lock()
		delete(e.newest, id)
		e.mutex.Unlock()
		handle(id, event)
	})
}

// False: nothing gets lines.
func (n *Node) tellLog(line string) bool {
	n.events.mutex.Lock()
	defer n.events.mutex.Unlock()
	handle := n.events.onLog
	if handle == nil {
		return false
	}
	e := &n.events
	size := reportCost + len(line)
	if e.size+size > n.options.IncomingBytes {
		e.lostLines++
		return true
	}
	if e.lostLines != 0 {
		line = fmt.Sprintf("%d lines were left out before this one: %s", e.lostLines, line)
		e.lostLines = 0
	}
	e.size += size
	e.call(n, func() {
		e.taken(size)
		defer func() {
			if why := recover(); why != nil {
				log.Printf("atbus: the handler of the log has panicked: %v", why)
			}
		}()
		handle(line)
	})
	return true
}

// Reads the events of a turn.
func (n *Node) takeEvents(batch *C.bridge_batch) {
	if batch.event_count == 0 {
		return
	}
	for _, one := range unsafe.Slice(batch.events, int(batch.event_count)) {
		var data []byte
		if one.size != 0 {
			data = C.GoBytes(unsafe.Pointer(uintptr(unsafe.Pointer(batch.event_bytes))+uintptr(one.offset)), C.int(one.size))
		}
		n.takeEvent(&one, data)
	}
	C.bridge_read(n.bridge)
}

func (n *Node) takeEvent(one *C.bridge_event, data []byte) {
	switch one.kind {
	case C.BRIDGE_RESPONSE, C.BRIDGE_READY:
		n.give(uint64(one.number), answer{data: data, err: outcome(one.code, string(data))})
	case C.BRIDGE_VALUES:
		values := split(data)
		n.give(uint64(one.number), answer{values: values, err: outcome(one.code, strings.Join(values, " "))})
	case C.BRIDGE_REQUEST:
		n.takeRequest(one)
	case C.BRIDGE_COMMAND:
		n.takeCommand(one, split(data))
	case C.BRIDGE_UNDELIVERED:
		n.tellUndelivered(Undelivered{Destination: uint64(one.id), Type: uint32(one._type), Data: data,
			Count: uint64(one.count), Outcome: Code(one.code), Reason: Code(one.reason)})
	case C.BRIDGE_ENDPOINT:
		n.tellEndpoint(uint64(one.id), Event(one._type))
	case C.BRIDGE_WRITABLE:
		n.unblock(uint64(one.id))
		n.answerSoon(uint64(one.id))
	case C.BRIDGE_LOG:
		n.tellLog(string(data))
	case C.BRIDGE_MESSAGE:
		n.inbox.addOne(Message{uint64(one.id), uint32(one._type), one.flag != 0, data})
	}
}

// Texts that each end with a zero byte.
func split(data []byte) []string {
	if len(data) == 0 {
		return nil
	}
	return strings.Split(string(data[:len(data)-1]), "\x00")
}
