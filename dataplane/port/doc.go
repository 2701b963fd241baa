// Package port defines what a worker sends and receives packets through: one
// small interface with batches of descriptors, and what its implementations
// share. Package port/xdp implements it over AF_XDP.
//
// A port belongs to one worker; only Close of the worker that has stopped using
// it may come from elsewhere. Calls are made once per batch, never per packet.
//
// # Who owns a packet's frame
//
//	Receive ─► caller ─ Release ─► port        (receive frames)
//	AllocTx ─► caller ─ Send ────► port        (transmit frames)
//	                  └ FreeTx ──► port
//
// Receive and transmit frames come from separate pools of the arena, so that
// neither can starve the other. Handing a frame back twice, or a frame that was
// never handed out, is refused and counted (Stats.FrameErrors), never believed.
package port
