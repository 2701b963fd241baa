package lab

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	"github.com/metaroced/metaroced/bench/lab/histogram"
)

// The two roles of an application process.
const (
	roleWriter   = "writer"
	roleVerifier = "verifier"
)

// serviceName is what the writer dials at the verifier's host.
const serviceName = "lab"

// appSpec is the line the lab writes to an application's standard input. Another
// line, "stop", tells the verifier that the writer is done; the end of input makes
// either leave.
type appSpec struct {
	Role     string        `json:"role"`
	Socket   string        `json:"socket"` // of the daemon
	Peers    []netip.Addr  `json:"peers"`  // writer: addresses of the other host
	Seed     uint64        `json:"seed"`
	Size     int64         `json:"size"`
	Depth    int           `json:"depth"`
	Duration time.Duration `json:"duration"`
}

func (s *appSpec) slots() SlotLayout { return SlotLayout{Size: s.Size, Count: s.Depth} }

// appEvent is a line an application writes to its standard output. Times are
// CLOCK_MONOTONIC nanoseconds.
type appEvent struct {
	Kind     string          `json:"kind"`
	Text     string          `json:"text,omitempty"`     // kindFailed
	Time     int64           `json:"time,omitempty"`     // kindStarted, kindFirst
	Progress *progress       `json:"progress,omitempty"` // kindProgress
	Writer   *writerResult   `json:"writer,omitempty"`   // kindDone of the writer
	Verifier *verifierResult `json:"verifier,omitempty"` // kindDone of the verifier
}

// Kinds of events, in the order in which they come.
const (
	kindReady    = "ready"    // verifier: listens
	kindStarted  = "started"  // writer: about to post the first operation
	kindFirst    = "first"    // writer: the first operation is completed
	kindProgress = "progress" // verifier: a few times a second
	kindDone     = "done"     // the job is over; the connection stays open
	kindFailed   = "failed"   // the application could not do its job and leaves
)

// progress is what the live table shows of a job.
type progress struct {
	Operations uint64 `json:"operations"`
	Bytes      uint64 `json:"bytes"`
	Mismatched uint64 `json:"mismatched"`
	Errors     uint64 `json:"errors"`
}

// writerResult is the writer's part of a Result.
type writerResult struct {
	Start      int64            `json:"start"` // first post
	Operations uint64           `json:"operations"`
	Errors     uint64           `json:"errors"`
	FirstError string           `json:"first_error"`
	Latency    histogram.Micros `json:"latency"`
}

// verifierResult is the verifier's part of a Result.
type verifierResult struct {
	Start      int64           `json:"start"` // of the timeline
	Last       int64           `json:"last"`  // last verification
	Progress   progress        `json:"progress"`
	FirstError string          `json:"first_error"`
	Timeline   []TimelinePoint `json:"timeline"`
}

// eventWriter writes events as lines; it is safe for concurrent use.
type eventWriter struct {
	mu      sync.Mutex
	encoder *json.Encoder
}

func newEventWriter(w io.Writer) *eventWriter { return &eventWriter{encoder: json.NewEncoder(w)} }

// send writes one event. An error means that the lab is gone, which the end of
// standard input tells the application too.
func (w *eventWriter) send(e *appEvent) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.encoder.Encode(e); err != nil {
		return fmt.Errorf("report to the lab: %w", err)
	}
	return nil
}

// Private data of the connection: the writer's carries the key of the word it
// lets the verifier write, the verifier's the key of its slots.
const privateBytes = 8

func encodeKey(key uint64) []byte { return binary.LittleEndian.AppendUint64(nil, key) }

func decodeKey(private []byte) (uint64, error) {
	if len(private) != privateBytes {
		return 0, fmt.Errorf("the peer sent %d bytes of private data instead of %d: not the lab's other application",
			len(private), privateBytes)
	}
	return binary.LittleEndian.Uint64(private), nil
}
