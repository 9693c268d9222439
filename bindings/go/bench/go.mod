module atbus.dev/go/bench

go 1.22.0

require (
	atbus.dev/go v0.1.0
	github.com/nats-io/nats.go v1.39.0
	github.com/pebbe/zmq4 v1.2.11
)

require (
	github.com/klauspost/compress v1.17.9 // indirect
	github.com/nats-io/nkeys v0.4.9 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	golang.org/x/crypto v0.31.0 // indirect
	golang.org/x/sys v0.28.0 // indirect
)

replace atbus.dev/go => ../
