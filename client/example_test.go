package client_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/metaroced/metaroced/client"
)

const socket = "/run/metaroced/metaroced.sock"

// receive opens memory to one peer, tells it the key, and waits until the peer has
// written there.
func receive(ctx context.Context, socket string) (string, error) {
	s, err := client.Attach(ctx, socket, client.Options{})
	if err != nil {
		return "", err
	}
	defer s.Close()
	region, err := s.AllocRegion(4096, client.RemoteWrite)
	if err != nil {
		return "", err
	}
	listener, err := s.Listen("mailbox")
	if err != nil {
		return "", err
	}
	incoming, err := listener.Accept(ctx)
	if err != nil {
		return "", err
	}
	key := binary.LittleEndian.AppendUint64(nil, region.Key())
	if _, err := incoming.Accept(key); err != nil {
		return "", err
	}
	done := make([]client.Completion, 1)
	for done[0].Op != client.OpWriteImmReceived {
		if _, err := s.Wait(ctx, done); err != nil {
			return "", err
		}
	}
	return string(region.Bytes()[:done[0].Bytes]), nil
}

// send writes a text into memory of the peer and returns when it is placed there.
func send(ctx context.Context, socket string, peer netip.Addr, text string) error {
	s, err := client.Attach(ctx, socket, client.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	region, err := s.AllocRegion(4096, 0) // 0: peers may not touch it
	if err != nil {
		return err
	}
	conn, err := s.Dial(ctx, []netip.Addr{peer}, "mailbox", nil)
	if err != nil {
		return err
	}
	if len(conn.Private()) != 8 {
		return fmt.Errorf("the peer sent %d bytes, not a key", len(conn.Private()))
	}
	err = conn.Write(client.Write{
		Local: region, Length: uint32(copy(region.Bytes(), text)),
		RemoteKey: binary.LittleEndian.Uint64(conn.Private()),
		HasImm:    true, // the peer gets a completion, too
	})
	if err != nil {
		return err
	}
	done := make([]client.Completion, 1)
	if _, err := s.Wait(ctx, done); err != nil {
		return err
	}
	return done[0].Status.Err() // nil: the bytes are in the peer's memory
}

// One host waits for a text.
func Example_receive() {
	text, err := receive(context.Background(), socket)
	fmt.Println(text, err)
}

// Another one sends it.
func Example_send() {
	err := send(context.Background(), socket, netip.MustParseAddr("10.0.0.2"), "hello")
	fmt.Println(err)
}
