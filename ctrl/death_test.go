package ctrl_test

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/metaroced/metaroced/ctrl"
	"github.com/metaroced/metaroced/ctrl/ctrltest"
	"github.com/metaroced/metaroced/ctrl/msg"
	"github.com/metaroced/metaroced/dataplane"
)

// TestDeathAtAnyInstant kills clients in the middle of anything: whatever they
// had got so far, the dataplane's session is closed exactly once and no
// descriptor stays behind.
func TestDeathAtAnyInstant(t *testing.T) {
	const seed = 20250
	rng := rand.New(rand.NewPCG(seed, 0))
	b := ctrltest.NewBackend(t)
	b.SlabBytes = 4096
	b.OnDial = func(s *ctrltest.Session, d dataplane.DialSpec) error {
		s.Emit(dataplane.SessionEvent{Kind: dataplane.EventEstablished, Token: d.Token, Conn: 1})
		return nil
	}
	path, server := ctrltest.Serve(t, ctrl.Config{}, b)
	attach(t, path).conn.Close() // what the runtime opens once is open now
	eventually(t, "warmed up", func() bool {
		for _, s := range b.Sessions() {
			select {
			case <-s.Closed():
			default:
				return false
			}
		}
		return true
	})
	before := descriptors(t)
	for range 300 {
		c := dial(t, path)
		steps := rng.IntN(8)
		reads := rng.IntN(2) == 0
		for step := range steps {
			var m msg.Message = &msg.Hello{SQEntries: 16, CQEntries: 16}
			if step > 0 {
				m = requests[rng.IntN(len(requests))]
			}
			packet := c.packet(m)
			if rng.IntN(20) == 0 {
				packet = packet[:rng.IntN(len(packet))]
			}
			if c.send(packet) != nil {
				break
			}
			if reads {
				_, _, files, err := c.receive()
				closeAll(files)
				if err != nil {
					break
				}
			}
		}
		c.conn.Close()
	}
	// Those that died first may be accepted last: serve one behind them.
	attach(t, path).conn.Close()
	eventually(t, "all sessions closed", func() bool {
		for _, s := range b.Sessions() {
			select {
			case <-s.Closed(): // a second time would have failed the test
			default:
				return false
			}
		}
		return descriptors(t) <= before
	})
	server.Close()
	for i, s := range b.Sessions() {
		if s.Regions() != 0 {
			t.Errorf("seed %d: session %d left regions", seed, i)
		}
	}
}

// TestCloseDuringAllocation kills a client while the dataplane works for it.
func TestCloseDuringAllocation(t *testing.T) {
	b := ctrltest.NewBackend(t)
	b.Opened = make(chan *ctrltest.Session, 1)
	inside, goOn := make(chan struct{}), make(chan struct{})
	b.OnDial = func(*ctrltest.Session, dataplane.DialSpec) error {
		close(inside)
		<-goOn
		return os.ErrDeadlineExceeded
	}
	path, _ := ctrltest.Serve(t, ctrl.Config{}, b)
	c := attach(t, path)
	s := <-b.Opened
	if err := c.send(c.packet(requests[5])); err != nil {
		t.Fatal(err)
	}
	<-inside
	c.conn.Close()
	select {
	case <-s.Closed():
		t.Error("session was closed under a call into it")
	default:
	}
	close(goOn)
	<-s.Closed()
}
