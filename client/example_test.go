package client_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/metaroced/metaroced/client"
)

// A sender writes a text into memory of the receiver, which told it the key when
// it accepted the connection.
func Example_sender() {
	ctx := context.Background()
	s, err := client.Attach(ctx, "/run/metaroced/metaroced.sock", client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	region, err := s.AllocRegion(4096, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	conn, err := s.Dial(ctx, []netip.Addr{netip.MustParseAddr("10.0.0.2")}, "mailbox", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var key uint64
	_, _ = fmt.Sscan(string(conn.Private()), &key)
	n := copy(region.Bytes(), "hello")
	if err := conn.Write(client.Write{Local: region, Length: uint32(n), RemoteKey: key, HasImm: true, Imm: uint32(n)}); err != nil {
		fmt.Println(err)
		return
	}
	done := make([]client.Completion, 1)
	if _, err := s.Wait(ctx, done); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("placed at the peer:", done[0].Status)
}

// A receiver opens memory to its peers and waits for a write with immediate.
func Example_receiver() {
	ctx := context.Background()
	s, err := client.Attach(ctx, "/run/metaroced/metaroced.sock", client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	region, err := s.AllocRegion(4096, client.RemoteWrite)
	if err != nil {
		fmt.Println(err)
		return
	}
	listener, err := s.Listen("mailbox")
	if err != nil {
		fmt.Println(err)
		return
	}
	incoming, err := listener.Accept(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := incoming.Accept([]byte(fmt.Sprint(region.Key()))); err != nil {
		fmt.Println(err)
		return
	}
	done := make([]client.Completion, 1)
	if _, err := s.Wait(ctx, done); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", region.Bytes()[:done[0].Imm])
}
