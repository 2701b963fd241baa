// Package client is what applications import to move memory through the daemon
// on their host.
//
//	s, err := client.Attach(ctx, path, client.Options{})
//	region, err := s.AllocRegion(1<<20, client.RemoteWrite) // fill region.Bytes()
//	conn, err := s.Dial(ctx, peers, "service", nil)         // or s.Listen(...).Accept(ctx)
//	err = conn.Write(client.Write{Local: region, Length: n, RemoteKey: key, UserData: 7})
//	n, err := s.Wait(ctx, completions)                      // or s.Poll, spinning
//
// # Two ways to the daemon
//
// Everything rare goes through the control socket and may be called from any
// goroutine. Work and completions go through two rings in memory shared with a
// worker of the daemon: Conn.Write, Session.Poll and Session.Wait neither lock
// nor allocate, and make a system call only to wake a sleeping worker or to
// sleep. These three are for one goroutine at a time.
//
//	 goroutine that moves data          any goroutine
//	 Conn.Write  Poll   Wait            AllocRegion, Dial, Accept, Close …
//	     │        ▲      ▲ sleeps              │ one request at a time
//	     ▼        │      │                     ▼
//	┌─────────┬────────┐ wake socket ┌──────────────────┐
//	│ SQ      │ CQ     │◄───────────►│ control socket   │◄─ reader: replies, events
//	└─────────┴────────┘             └──────────────────┘
//
// # Memory
//
// A region's bytes are the memory the peer's data is placed in and ours is sent
// from; there is no other copy in this process. They are mapped until
// Region.Close or Session.Close: touching them later is a fault. The bytes of a
// posted write must stay as they are until its completion is reaped.
//
// # When the daemon is gone
//
// The control socket ends, and from then on every call returns an error that
// says so. Poll still hands out completions that were delivered before. Nothing
// reconnects by itself: regions and connections died with the daemon.
package client
