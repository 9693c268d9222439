package atbus

import "time"

// Answers for which there was no room, one queue for each node that asked. Of the goroutine of the node.
type debts struct {
	queues map[uint64]*debtQueue
	size   int // bytes of all
	next   time.Time
	sweep  time.Time // when those that nobody waits for are dropped
}

type debtQueue struct {
	owed []debt
	size int
	due  bool // there may be room again
}

// An answer. Sizes are in the memory of Go and of C.
type debt struct {
	size     int
	try      func() bool // false: there is no room
	isWanted func() bool // false: nobody waits for it any more, and it is gone
}

const (
	debtCost       = 256            // of an answer besides its bytes
	clientsAtOnce  = 64             // clients have one queue, as they have no ids: one of them must not stop the others
	sweepInterval  = time.Second    //
	allDebtsFactor = incomingFactor // times Options.IncomingBytes: of all nodes together
)

// Answers, at once if nothing else waits for room to that node.
func (n *Node) answer(to uint64, one debt) {
	d := &n.debts
	queue := d.queues[to]
	if (queue == nil || to == 0) && one.try() {
		return
	}
	if queue == nil {
		queue = &debtQueue{}
		d.queues[to] = queue
	}
	one.size += debtCost
	queue.owed = append(queue.owed, one)
	queue.size += one.size
	d.size += one.size
	n.setOwesAnswers()
}

func (n *Node) setOwesAnswers() {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.owesAnswers = len(n.debts.queues) != 0
}

// Whether so much waits for room to that node that nothing more is done for it.
func (n *Node) owesTooMuch(to uint64) bool {
	d := &n.debts
	queue := d.queues[to]
	return queue != nil &&
		(queue.size >= n.options.IncomingBytes || d.size >= allDebtsFactor*n.options.IncomingBytes)
}

// Of an event: there is room again.
func (n *Node) answerSoon(to uint64) {
	if queue := n.debts.queues[to]; queue != nil {
		queue.due = true
	}
}

// Tries what waits, where there may be room: after an event, and each 10 ms, as the other node may have gone.
func (n *Node) answerAgain() {
	d := &n.debts
	if len(d.queues) == 0 {
		return
	}
	now := time.Now()
	all, sweeps := !now.Before(d.next), !now.Before(d.sweep)
	if all {
		d.next = now.Add(retry)
	}
	if sweeps {
		d.sweep = now.Add(sweepInterval)
	}
	for to, queue := range d.queues {
		if sweeps {
			d.keep(queue, 0, len(queue.owed), func(one debt) bool { return one.isWanted() })
		}
		if all || queue.due {
			queue.due = false
			n.pay(to, queue)
		}
		if len(queue.owed) == 0 {
			delete(d.queues, to)
		}
	}
	n.setOwesAnswers()
}

// The answers to one node, until there is no room.
func (n *Node) pay(to uint64, queue *debtQueue) {
	d := &n.debts
	if to == 0 {
		tried := len(queue.owed)
		if tried > clientsAtOnce {
			tried = clientsAtOnce
		}
		first := append([]debt(nil), queue.owed[:tried]...)
		queue.owed = queue.owed[tried:]
		queue.owed = append(queue.owed, first...)
		from := len(queue.owed) - tried
		d.keep(queue, from, len(queue.owed), func(one debt) bool { return !one.try() })
		return
	}
	for len(queue.owed) != 0 {
		one := queue.owed[0]
		if one.isWanted() && !one.try() {
			return
		}
		queue.owed[0] = debt{}
		queue.owed = queue.owed[1:]
		queue.size -= one.size
		d.size -= one.size
	}
}

// Leaves those out of a part of a queue that are not to be kept.
func (d *debts) keep(queue *debtQueue, from, to int, isKept func(debt) bool) {
	left := from
	for _, one := range queue.owed[from:to] {
		if isKept(one) {
			queue.owed[left] = one
			left++
			continue
		}
		queue.size -= one.size
		d.size -= one.size
	}
	rest := copy(queue.owed[left:], queue.owed[to:])
	for at := left + rest; at < len(queue.owed); at++ {
		queue.owed[at] = debt{}
	}
	queue.owed = queue.owed[:left+rest]
}
