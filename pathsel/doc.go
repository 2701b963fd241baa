// Package pathsel keeps the table of a connection's paths (planes x UDP source
// ports), sprays packets over them in short runs, and tells congestion, random
// loss and failure apart. It is pure: no I/O, no clock (time is an argument in
// nanoseconds), no allocation after Init.
//
// A path is Active, Suspect (its tail timer expired and nothing was heard since;
// it is probed), Down (several timers in a row, or its plane is silent or has no
// link; it is probed with growing pauses) or Probing (a probe was answered).
// Random loss alone never takes a path down: only silence does.
//
//	          timeout, silent        silent again x4, or plane silent
//	Active ──────────────────► Suspect ─────────────────────────► Down
//	  ▲  ◄───── heard ─────────────┘                                │ probe answered
//	  └───────────── second answer ────────────── Probing ◄─────────┘
package pathsel
