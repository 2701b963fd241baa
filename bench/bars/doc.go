// Package bars measures how good the whole path is and holds each figure against
// its bar: goodput beside raw packets and under loss, recovery from a lost plane,
// correctness under everything at once, what an idle daemon costs, and round trips
// beside the kernel's UDP.
//
// metaroced bench calls Run and prints the Report. Each part (Part) runs labs
// (bench/lab) and, for the baselines, raw packets (bench/raw), one after the other,
// and gives Bars; the judging is pure and separate from the measuring:
//
//	Run ─► measureThroughput ─► Throughput ─ bars() ─┐
//	    ─► measureFailure    ─► Failure    ─ bars() ─┼─► Report.Bars
//	    ─► …                                         ┘
//
// # What makes figures comparable
//
// A machine is never equally fast for minutes. Contenders therefore take turns,
// ratios are taken within a round, and the median over rounds is what counts
// (Compare). Everything runs on the same CPUs, with the same frame size, through
// the same switch.
//
// Losing a plane costs nothing when one plane could carry everything, so the
// failure part limits planes: together they carry planesShare of the wire rate
// that the lab without limits reached in the same invocation.
package bars
