package lab

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/metaroced/metaroced/bench/fabric"
	"github.com/metaroced/metaroced/dataplane"
)

// TestJSONHasTheFieldsThatStay lists what users of --json rely on.
func TestJSONHasTheFieldsThatStay(t *testing.T) {
	r := Result{Planes: []Plane{{}}, Paths: []Path{{}}, Timeline: []TimelinePoint{{}}}
	text, err := json.Marshal(&r)
	if err != nil {
		t.Fatal(err)
	}
	var got any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"": "goodput_gbps operations bytes mismatched_bytes errors retransmissions retransmissions_timer duplicates " +
			"latency_us planes paths switch frames_leaked setup_ms cpu_seconds timeline " +
			"recovery_ms fault_ms idle_cpu_fraction duration_ms seed void void_reason first_error rate_dropped rate_marked overflowed",
		"latency_us":  "p50 p99 p999 max",
		"planes":      "name mode tx_bytes rx_bytes state",
		"paths":       "plane id state srtt_us ce_fraction loss_fraction tx_packets retransmissions",
		"switch":      "forwarded dropped marked corrupted duplicated held",
		"cpu_seconds": "daemon_a daemon_b",
		"timeline":    "t_ms goodput_gbps",
	} {
		value := got
		if path != "" {
			value = value.(map[string]any)[path]
		}
		if list, isList := value.([]any); isList {
			value = list[0]
		}
		object, isObject := value.(map[string]any)
		if !isObject {
			t.Errorf("%q is %T", path, value)
			continue
		}
		names := strings.Fields(want)
		for name := range object {
			if !slices.Contains(names, name) {
				t.Errorf("%q has an unlisted field %q", path, name)
			}
		}
		for _, name := range names {
			if _, found := object[name]; !found {
				t.Errorf("%q has no field %q", path, name)
			}
		}
	}
	if !strings.Contains(string(text), `"recovery_ms":null`) {
		t.Error("recovery_ms without a fault is not null")
	}
}

func TestStatusOfBothDaemonsAddsUp(t *testing.T) {
	a := &dataplane.Status{
		FramesLeaked: 1,
		Planes:       []dataplane.PlaneStatus{{Name: "p0", Mode: "copy", State: "up", TxBytes: 5, RxBytes: 6}},
		Connections: []dataplane.ConnStatus{{
			Retransmissions: 10, RetransmissionsTimer: 1, Duplicates: 2,
			Paths: []dataplane.PathStatus{{Plane: 1, ID: 3, State: "active", SRTTUs: 50, TxPackets: 7}},
		}},
	}
	b := &dataplane.Status{
		FramesLeaked: 2,
		Connections:  []dataplane.ConnStatus{{Retransmissions: 3, RetransmissionsTimer: 3, Duplicates: 4}},
	}
	var r Result
	r.addStatus(a, b)
	if r.FramesLeaked != 3 || r.Retransmissions != 13 || r.RetransmissionsTimer != 4 || r.Duplicates != 6 {
		t.Errorf("sums: %+v", r)
	}
	if len(r.Planes) != 1 || r.Planes[0] != (Plane{Name: "p0", Mode: "copy", State: "up", TxBytes: 5, RxBytes: 6}) {
		t.Errorf("planes: %+v", r.Planes)
	}
	if len(r.Paths) != 1 || r.Paths[0].ID != 3 || r.Paths[0].SRTTUs != 50 {
		t.Errorf("paths: %+v", r.Paths)
	}
}

func TestFailure(t *testing.T) {
	for name, c := range map[string]struct {
		result Result
		want   string
	}{
		"success":  {Result{Operations: 1}, ""},
		"mismatch": {Result{Operations: 1, MismatchedBytes: 3, FirstError: "x"}, "3 bytes were wrong: x"},
		"errors":   {Result{Operations: 1, Errors: 2, FirstError: "y"}, "2 operations or checks failed: y"},
		"nothing":  {Result{}, "no operation was completed"},
		"leak":     {Result{Operations: 1, FramesLeaked: 4}, "4 frames leaked"},
		"void":     {Result{Operations: 1, Void: true, VoidReason: "z"}, "the run is void: z"},
	} {
		if got := c.result.Failure(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestSwitchThatDidSomethingElseVoidsTheRun(t *testing.T) {
	counted := fabric.PortCounters{
		Packets: 100_000, Forwarded: 97_990, Dropped: 1000, RateDropped: 1000, BlackHoled: 10, RateMarked: 7, Overflowed: 5,
	}
	asked := fabric.Impairments{Drop: fabric.Chance{Probability: 0.01}}
	var r Result
	r.addSwitch(counted, asked)
	if r.Void || r.Switch.Dropped != 1000 || r.Switch.Forwarded != 97_990 || r.RateDropped != 1010 || r.RateMarked != 7 || r.Overflowed != 5 {
		t.Errorf("%+v", r)
	}
	counted.Dropped = 2000
	r.addSwitch(counted, asked)
	if !r.Void || !strings.Contains(r.VoidReason, "drop of 1% was asked") {
		t.Errorf("%+v", r)
	}
}

func goodOptions() Options {
	return Options{
		Planes: 4, Paths: 16, FailMode: FailSilent, Op: "write", Size: 1 << 20, Depth: 16, Duration: 5 * time.Second,
		MTU: 3498, CPUA: 0, CPUB: 1, CPUApps: 1, Poll: "adaptive",
	}
}

func TestOptions(t *testing.T) {
	good := goodOptions()
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Options){
		"--planes 9 is outside 1 to 8":                          func(o *Options) { o.Planes = 9 },
		"--planes 0":                                            func(o *Options) { o.Planes = 0 },
		"--paths 65 is outside 1 to 64":                         func(o *Options) { o.Paths = 65 },
		"--depth 0":                                             func(o *Options) { o.Depth = 0 },
		"--size 0":                                              func(o *Options) { o.Size = 0 },
		"--mtu 1000 is outside 1280 to 3498":                    func(o *Options) { o.MTU = 1000 },
		"--cpu-apps -2":                                         func(o *Options) { o.CPUApps = -2 },
		`--op "read" is not there yet`:                          func(o *Options) { o.Op = "read" },
		"more than 4294967296 bytes of memory":                  func(o *Options) { o.Size, o.Depth = 1<<30, 5 },
		"--duration 0s":                                         func(o *Options) { o.Duration = 0 },
		"--duration 1h0m0s":                                     func(o *Options) { o.Duration = time.Hour },
		"--plane-rate 1000 b/s is neither 0":                    func(o *Options) { o.PlaneRate = 1000 },
		`--fail-mode "x" is not one of silent`:                  func(o *Options) { o.FailMode = "x" },
		"--idle -1s":                                            func(o *Options) { o.Idle = -time.Second },
		"--fail-plane 4@1s: there are planes 0 to 3":            func(o *Options) { o.FailPlanes = []PlaneEvent{{4, time.Second}} },
		"--fail-plane 1@5s: the job ends at 5s":                 func(o *Options) { o.FailPlanes = []PlaneEvent{{1, 5 * time.Second}} },
		"--restore-plane 2@2s: that plane does not fail before": func(o *Options) { o.RestorePlanes = []PlaneEvent{{2, 2 * time.Second}} },
	} {
		o := goodOptions()
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestQueueEntriesHoldTheDepthTwice(t *testing.T) {
	for depth := 1; depth <= MaxDepth; depth++ {
		n := queueEntries(depth)
		if n&(n-1) != 0 || int(n) < 2*depth || n < 64 || n > 2*MaxDepth {
			t.Fatalf("depth %d: %d entries", depth, n)
		}
	}
}
