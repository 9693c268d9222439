// Measures the package beside nats.go and a binding of ZeroMQ: one sender and one receiver process, messages of 64
// bytes, the systems in turns. The rate is the receiver's, from its first message to its last.
//
// usage, in bindings/go/bench, with the environment of doc/go.md: go run . [-messages N] [-rounds N] [-json FILE]
//
// It needs libzmq and nats-server of the distribution.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sort"
	"strconv"
	"strings"
	"time"

	"atbus.dev/go"
	"github.com/nats-io/nats.go"
	"github.com/pebbe/zmq4"
)

var data = []byte("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")

// What measures a system: `receive` calls ready once messages may be sent to it, and returns a rate a second.
type system struct {
	name    string
	address func() string
	receive func(at string, count int, ready func()) (float64, error)
	send    func(at string, count int) error
	server  func(at string) *exec.Cmd // nil: it needs none
}

// A rate, told of each message or batch.
type clock struct {
	got   int
	first time.Time
}

func (c *clock) add(count int) {
	if c.got == 0 {
		c.first = time.Now()
	}
	c.got += count
}
func (c *clock) rate() float64 { return float64(c.got) / time.Since(c.first).Seconds() }

func receiveAtbus(at string, count int, ready func()) (float64, error) {
	node, err := atbus.NewNode(2, atbus.Options{AllowUnauthenticated: true})
	if err != nil {
		return 0, err
	}
	defer node.Close()
	if err := node.Listen(at); err != nil {
		return 0, err
	}
	ready()
	var of clock
	for of.got < count {
		messages, err := node.Receive(context.Background())
		if err != nil {
			return 0, err
		}
		of.add(len(messages))
	}
	rate := of.rate()
	// The sender waits until it is told that all were handled.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return rate, node.Shutdown(ctx)
}

func sendAtbus(at string, count int) error {
	node, err := atbus.NewNode(1, atbus.Options{AllowUnauthenticated: true})
	if err != nil {
		return err
	}
	if err := node.Connect(2, at); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range count {
		if err := node.Send(ctx, 2, 0, data); err != nil {
			return err
		}
	}
	return node.Shutdown(ctx)
}

func receiveNats(at string, count int, ready func()) (float64, error) {
	line, err := nats.Connect(at)
	if err != nil {
		return 0, err
	}
	defer line.Close()
	var of clock
	done := make(chan struct{})
	to, err := line.Subscribe("to", func(*nats.Msg) {
		if of.add(1); of.got == count {
			close(done)
		}
	})
	if err != nil {
		return 0, err
	}
	if err := to.SetPendingLimits(-1, -1); err != nil { // with a limit it drops messages
		return 0, err
	}
	if err := line.Flush(); err != nil {
		return 0, err
	}
	ready()
	<-done
	return of.rate(), nil
}

func sendNats(at string, count int) error {
	line, err := nats.Connect(at)
	if err != nil {
		return err
	}
	defer line.Close()
	for range count {
		if err := line.Publish("to", data); err != nil {
			return err
		}
	}
	return line.FlushTimeout(time.Minute)
}

func receiveZmq(at string, count int, ready func()) (float64, error) {
	socket, err := zmq4.NewSocket(zmq4.PULL)
	if err != nil {
		return 0, err
	}
	defer socket.Close()
	if err := socket.Bind(at); err != nil {
		return 0, err
	}
	ready()
	var of clock
	for of.got < count {
		if _, err := socket.RecvBytes(0); err != nil {
			return 0, err
		}
		of.add(1)
	}
	return of.rate(), nil
}

func sendZmq(at string, count int) error {
	socket, err := zmq4.NewSocket(zmq4.PUSH)
	if err != nil {
		return err
	}
	defer socket.Close()
	if err := socket.SetLinger(-1); err != nil { // what is written goes out, however long that takes
		return err
	}
	if err := socket.Connect(at); err != nil {
		return err
	}
	for range count {
		if _, err := socket.SendBytes(data, 0); err != nil {
			return err
		}
	}
	return nil
}

var runs int

func unique(kind string) string {
	runs++
	return fmt.Sprintf("%s-%d-%d", kind, os.Getpid(), runs)
}

func freePort() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	defer listener.Close()
	return listener.Addr().String()
}

var systems = []system{
	{"atbus, shm://", func() string { return "shm://" + unique("atbus-go") }, receiveAtbus, sendAtbus, nil},
	{"atbus, ipv4://", func() string { return "ipv4://" + freePort() }, receiveAtbus, sendAtbus, nil},
	{"nats.go, TCP", func() string { return "nats://" + freePort() }, receiveNats, sendNats, natsServer},
	{"zmq4 (libzmq), ipc://", func() string { return "ipc:///tmp/" + unique("atbus-go") }, receiveZmq, sendZmq, nil},
}

func natsServer(at string) *exec.Cmd {
	_, port, err := net.SplitHostPort(at[len("nats://"):])
	check(err)
	path, err := exec.LookPath("nats-server")
	if err != nil {
		path = "/usr/sbin/nats-server"
	}
	return exec.Command(path, "-a", "127.0.0.1", "-p", port)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The rate of one run; 0 if messages were lost.
func (s system) run(which, count int) float64 {
	at := s.address()
	if s.server != nil {
		server := s.server(at)
		check(server.Start())
		defer func() {
			check(server.Process.Kill())
			_ = server.Wait() // says that it was killed
		}()
		time.Sleep(500 * time.Millisecond)
	}
	receiver := exec.Command(os.Args[0], "receive", strconv.Itoa(which), at, strconv.Itoa(count))
	receiver.Stderr = os.Stderr
	said, err := receiver.StdoutPipe()
	check(err)
	check(receiver.Start())
	lines := bufio.NewScanner(said)
	if !lines.Scan() { // "ready"
		check(fmt.Errorf("the receiver of %s has ended", s.name))
	}
	check(s.send(at, count))
	late := time.AfterFunc(10*time.Second, func() { receiver.Process.Kill() })
	if !lines.Scan() {
		fmt.Printf("%s: what was sent has not all come within 10 s; that run does not count\n", s.name)
		receiver.Wait()
		return 0
	}
	late.Stop()
	rate, err := strconv.ParseFloat(lines.Text(), 64)
	check(err)
	check(receiver.Wait())
	for _, left := range []string{"/dev/shm/atbus-segment.", "/dev/shm/atbus-bell."} {
		os.Remove(left + strings.TrimPrefix(at, "shm://")) // what a later life of the receiver would find
	}
	os.Remove(strings.TrimPrefix(at, "ipc://"))
	return rate
}

func main() {
	if len(os.Args) == 5 && os.Args[1] == "receive" {
		which, err := strconv.Atoi(os.Args[2])
		check(err)
		count, err := strconv.Atoi(os.Args[4])
		check(err)
		rate, err := systems[which].receive(os.Args[3], count, func() { fmt.Println("ready") })
		check(err)
		fmt.Println(rate)
		return
	}
	messages := flag.Int("messages", 2_000_000, "of each run")
	rounds := flag.Int("rounds", 7, "runs of each system")
	file := flag.String("json", "", "write the values there, for tools/compare/languages.py")
	flag.Parse()
	rates := make([][]float64, len(systems))
	for range *rounds {
		for which, each := range systems {
			if rate := each.run(which, *messages); rate != 0 {
				rates[which] = append(rates[which], rate/1e6)
			}
		}
	}
	type row struct {
		Language string    `json:"language"`
		System   string    `json:"system"`
		What     string    `json:"what"`
		Unit     string    `json:"unit"`
		Values   []float64 `json:"values"`
	}
	var rows []row
	for which, each := range systems {
		all := rates[which]
		if len(all) == 0 {
			continue
		}
		sort.Float64s(all)
		rows = append(rows, row{"Go", each.name, "received", "M/s", all})
		fmt.Printf("%-24s %6.2f M/s  (%.2f to %.2f)\n", each.name, all[len(all)/2], all[0], all[len(all)-1])
	}
	if *file != "" {
		text, err := json.MarshalIndent(rows, "", " ")
		check(err)
		check(os.WriteFile(*file, text, 0o644))
	}
}
