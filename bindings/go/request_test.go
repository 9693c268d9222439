package atbus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestRequestsAreAnswered(t *testing.T) {
	first, second := pair(t, Options{})
	must(t, second.HandleRequests(1, func(_ context.Context, r *Request) ([]byte, error) {
		return append([]byte(fmt.Sprint(r.Source, r.Type, " ")), r.Data...), nil
	}))
	reply, err := first.Request(soon(t), 2, 1, []byte("key"))
	must(t, err)
	if string(reply) != "1 1 key" {
		t.Error(string(reply))
	}
	must(t, second.HandleOtherRequests(func(context.Context, *Request) ([]byte, error) { return []byte("other"), nil }))
	reply, err = first.Request(soon(t), 2, 99, nil)
	if string(reply) != "other" || err != nil {
		t.Error(string(reply), err)
	}
	must(t, second.HandleOtherRequests(nil))
	if _, err = first.Request(soon(t), 2, 99, nil); !errors.Is(err, ErrUnknownRequest) {
		t.Error(err)
	}
}

func TestHandlersThatFailOrPanicSayWhy(t *testing.T) {
	first, second := pair(t, Options{})
	must(t, second.HandleRequests(1, func(context.Context, *Request) ([]byte, error) { return nil, errors.New("no such key") }))
	must(t, second.HandleRequests(2, func(context.Context, *Request) ([]byte, error) { panic("index 7") }))
	must(t, second.HandleRequests(3, func(context.Context, *Request) ([]byte, error) { return make([]byte, 10<<20), nil }))
	for kind, text := range map[uint32]string{1: "no such key", 2: "panicked: index 7", 3: "large"} {
		_, err := first.Request(soon(t), 2, kind, nil)
		if !errors.Is(err, ErrRequestFailed) || !strings.Contains(err.Error(), text) {
			t.Errorf("%d: %v", kind, err)
		}
	}
}

func TestNoHandlerStartsOnWhatNobodyWaitsFor(t *testing.T) {
	const limit = 50 * time.Millisecond
	first, second := pair(t, Options{Handlers: 1})
	release := make(chan struct{})
	var started sync.Map
	must(t, second.HandleOtherRequests(func(_ context.Context, r *Request) ([]byte, error) {
		started.Store(r.Type, true)
		<-release
		return nil, nil
	}))
	var waiting sync.WaitGroup
	ask := func(kind uint32) {
		defer waiting.Done()
		if _, err := first.Request(soon(t), 2, kind, nil); err != nil {
			t.Errorf("%d: %v", kind, err)
		}
	}
	waiting.Add(2)
	go ask(1)
	for is := false; !is; _, is = started.Load(uint32(1)) {
		time.Sleep(time.Millisecond)
	}
	short, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if _, err := first.Request(short, 2, 2, nil); !errors.Is(err, ErrTimedOut) {
		t.Error(err)
	}
	must(t, first.Send(soon(t), 2, 0, []byte("it has come")))
	receive(t, second, 1)
	time.Sleep(limit) // its deadline is over there too, however late it has come
	go ask(3)
	close(release)
	waiting.Wait()
	if _, is := started.Load(uint32(2)); is {
		t.Error("the handler of a request that has timed out has started")
	}
}

func TestRequestsThatWaitForAHandlerAreLimitedInBytes(t *testing.T) {
	first, second := pair(t, Options{Handlers: 1, IncomingBytes: 10000})
	release := make(chan struct{})
	must(t, second.HandleOtherRequests(func(context.Context, *Request) ([]byte, error) {
		<-release
		return nil, nil
	}))
	outcomes := make(chan error)
	for i := 0; i != 10; i++ {
		go func() {
			_, err := first.Request(soon(t), 2, 1, make([]byte, 6000))
			outcomes <- err
		}()
	}
	for i := 0; i != 8; i++ { // one runs, and one waits
		if err := <-outcomes; !errors.Is(err, ErrRequestFailed) || !strings.Contains(err.Error(), "too many") {
			t.Error(err)
		}
	}
	close(release)
	must(t, <-outcomes)
	must(t, <-outcomes)
}

func TestAContextEndsARequest(t *testing.T) {
	first, second := pair(t, Options{})
	must(t, second.HandleRequests(1, func(ctx context.Context, _ *Request) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := first.Request(short, 2, 1, nil); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrTimedOut) {
		t.Error(err)
	}
	ended, end := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, end)
	if _, err := first.Request(ended, 2, 1, nil); !errors.Is(err, context.Canceled) || !errors.Is(err, ErrCancelled) {
		t.Error(err)
	}
	if _, err := first.Receive(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := first.Ready(ended, 77); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestWaitsForANodeEndWithTheirContexts(t *testing.T) {
	const most = 4096 // waits that C has room for
	first, _ := pair(t, Options{})
	ctx, end := context.WithCancel(context.Background())
	full := make(chan struct{}, most+1)
	var waiting sync.WaitGroup
	waiting.Add(most + 1)
	for i := 0; i != most+1; i++ {
		go func() {
			defer waiting.Done()
			if err := first.Ready(ctx, 77); errors.Is(err, ErrWouldBlock) {
				full <- struct{}{}
			} else if !errors.Is(err, ErrCancelled) {
				t.Error(err)
			}
		}()
	}
	<-full
	end()
	waiting.Wait()
	err := first.Ready(soon(t), 2)
	for until := time.Now().Add(20 * time.Second); errors.Is(err, ErrWouldBlock) && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
		err = first.Ready(soon(t), 2)
	}
	must(t, err)
}

func TestReadyWaitsLongerThanOneStep(t *testing.T) {
	defer func(before time.Duration) { readyStep = before }(readyStep)
	readyStep = 10 * time.Millisecond
	at := address(t)
	node := start(t, 1, Options{})
	must(t, node.Connect(2, at))
	ready := make(chan error)
	go func() { ready <- node.Ready(context.Background(), 2) }()
	time.Sleep(5 * readyStep)
	must(t, start(t, 2, Options{}).Listen(at))
	must(t, <-ready)
	short, cancel := context.WithTimeout(context.Background(), 5*readyStep)
	defer cancel()
	if err := node.Ready(short, 77); !errors.Is(err, ErrTimedOut) {
		t.Error(err)
	}
}

func TestACommandEndsWithoutADeadlineToo(t *testing.T) {
	defer func(before time.Duration) { commandTimeLimit = before }(commandTimeLimit)
	commandTimeLimit = 20 * time.Millisecond
	node := start(t, 1, Options{})
	must(t, node.Connect(2, address(t)))
	if _, err := node.Command(context.Background(), 2, "stop"); !errors.Is(err, ErrTimedOut) {
		t.Error(err)
	}
}

func TestManyRequestsAtOnce(t *testing.T) {
	first, second := pair(t, Options{Handlers: 3})
	var mutex sync.Mutex
	running, most := 0, 0
	must(t, second.HandleRequests(1, func(_ context.Context, r *Request) ([]byte, error) {
		mutex.Lock()
		running++
		if running > most {
			most = running
		}
		mutex.Unlock()
		runtime.Gosched()
		mutex.Lock()
		running--
		mutex.Unlock()
		return r.Data, nil
	}))
	var all sync.WaitGroup
	for i := 0; i < 200; i++ {
		all.Add(1)
		go func(data []byte) {
			defer all.Done()
			for j := 0; j < 20; j++ {
				if reply, err := first.Request(soon(t), 2, 1, data); err != nil || !bytes.Equal(reply, data) {
					t.Error(string(reply), err)
				}
			}
		}([]byte(fmt.Sprint(i)))
	}
	all.Wait()
	if most > 3 {
		t.Errorf("%d handlers at once", most)
	}
}

func TestAHandlerThatEndsItsGoroutineStopsNoOther(t *testing.T) {
	first, second := pair(t, Options{Handlers: 1})
	must(t, second.HandleRequests(1, func(context.Context, *Request) ([]byte, error) { runtime.Goexit(); return nil, nil }))
	must(t, second.HandleRequests(2, func(context.Context, *Request) ([]byte, error) { return []byte("yes"), nil }))
	if _, err := first.Request(soon(t), 2, 1, nil); !errors.Is(err, ErrRequestFailed) {
		t.Error(err)
	}
	if reply, err := first.Request(soon(t), 2, 2, nil); string(reply) != "yes" {
		t.Error(err)
	}
}

func TestCommandsAreAnswered(t *testing.T) {
	first, second := pair(t, Options{})
	must(t, second.HandleCommands("add", func(_ context.Context, source uint64, words []string) ([]string, error) {
		if len(words) != 3 {
			return nil, fmt.Errorf("%d words", len(words))
		}
		return []string{words[1] + words[2], "", fmt.Sprint(source)}, nil
	}))
	values, err := first.Command(soon(t), 2, "add", "1", "")
	if err != nil || !reflect.DeepEqual(values, []string{"1", "", "1"}) {
		t.Error(values, err)
	}
	var e *Error
	if _, err = first.Command(soon(t), 2, "add"); !errors.As(err, &e) || e.Code != CommandFailed || e.Text != "1 words" {
		t.Error(err)
	}
	if _, err = first.Command(soon(t), 2, "nothing"); !errors.As(err, &e) || e.Code != UnknownCommand {
		t.Error(err)
	}
}

func TestAHandlerMayCloseItsNode(t *testing.T) {
	first, second := pair(t, Options{})
	must(t, second.HandleRequests(1, func(context.Context, *Request) ([]byte, error) { return nil, second.Close() }))
	if _, err := first.Request(soon(t), 2, 1, nil); err == nil {
		t.Error("who has answered?")
	}
}

// A node that asks and does not read: C has no room for most of the replies.
func TestRepliesWithoutRoomAreLimitedAndStopNoOther(t *testing.T) {
	const count, size, room = 3000, 60_000, 1 << 20
	at := address(t)
	server := start(t, 2, Options{IncomingBytes: room})
	slow, quick := start(t, 1, Options{Requests: count + 1}), start(t, 3, Options{})
	var ran sync.WaitGroup
	must(t, server.HandleRequests(1, func(context.Context, *Request) ([]byte, error) { return make([]byte, size), nil }))
	must(t, server.HandleRequests(2, func(context.Context, *Request) ([]byte, error) { return []byte("yes"), nil }))
	must(t, server.Listen(at))
	for _, node := range []*Node{slow, quick} {
		must(t, node.Connect(2, at))
		must(t, node.Ready(soon(t), 2))
	}
	must(t, server.Ready(soon(t), 1))
	// All requests are asked in one turn of the slow node, which receives nothing from the next turn on.
	begin, asked, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	held := make(chan struct{})
	slow.post(func() {
		close(held)
		<-begin
	})
	<-held
	ctx, cancel := context.WithCancel(context.Background())
	for i := 0; i != count; i++ {
		ran.Add(1)
		go func() { defer ran.Done(); slow.Request(ctx, 2, 1, nil) }()
	}
	for waits := 0; waits < count; time.Sleep(time.Millisecond) {
		slow.mutex.Lock()
		waits = len(slow.tasks)
		slow.mutex.Unlock()
	}
	slow.post(func() {
		slow.post(func() {
			close(asked)
			<-release
		})
	})
	close(begin)
	<-asked
	most, requests := 0, uint64(0)
	for i := 0; i != 200; i++ {
		if reply, err := quick.Request(soon(t), 2, 2, nil); err != nil || string(reply) != "yes" {
			t.Error(string(reply), err)
		}
		must(t, server.do(func() error {
			if server.debts.size > most {
				most = server.debts.size
			}
			return nil
		}))
	}
	all, err := server.Stats()
	must(t, err)
	requests = all.WouldBlock
	t.Logf("at most %d bytes waited; %d times there was no room", most, requests)
	if most == 0 {
		t.Error("there was room for all")
	}
	if limit := room + server.options.Handlers*(size+debtCost); most > limit {
		t.Errorf("%d bytes wait for room", most)
	}
	cancel()
	close(release)
	ran.Wait()
	for owes := true; owes; time.Sleep(time.Millisecond) {
		must(t, server.do(func() error { owes = server.debts.size != 0; return nil }))
	}
}
