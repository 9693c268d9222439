// The peer of the interoperation test in Go; bindings/interop/interop_test.py says what a peer does.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"atbus.dev/go"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func newNode(id uint64, token string) *atbus.Node {
	node, err := atbus.NewNode(id, atbus.Options{Token: token})
	check(err)
	return node
}

func receive(address, token, path string) {
	log, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	check(err)
	node, end := newNode(2, token), make(chan struct{})
	check(node.HandleMessages(func(m atbus.Message) {
		again := ""
		if m.Redelivered {
			again = " again"
		}
		if string(m.Data) == "end" {
			close(end)
		} else {
			fmt.Fprintf(log, "%s%s\n", m.Data, again)
		}
	}))
	check(node.HandleOtherRequests(func(_ context.Context, r *atbus.Request) ([]byte, error) {
		return append(r.Data, '!'), nil
	}))
	check(node.Listen(address))
	<-end
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	node.Shutdown(ctx)
}

func send(address, token string, count int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	node := newNode(1, token)
	check(node.Connect(2, address))
	for i := 0; i != count; i++ {
		check(node.Send(ctx, 2, 0, []byte(strconv.Itoa(i))))
	}
	for answers := 0; answers != 10; {
		reply, err := node.Request(ctx, 2, 7, []byte("ask"))
		if errors.Is(err, &atbus.Error{Code: atbus.OutcomeUnknown}) {
			continue
		}
		check(err)
		if string(reply) != "ask!" {
			check(fmt.Errorf("the reply is %q", reply))
		}
		answers++
	}
	check(node.Send(ctx, 2, 0, []byte("end")))
	check(node.Shutdown(ctx))
}

func main() {
	if os.Args[1] == "receive" {
		receive(os.Args[2], os.Args[3], os.Args[4])
		return
	}
	count, err := strconv.Atoi(os.Args[4])
	check(err)
	send(os.Args[2], os.Args[3], count)
}
